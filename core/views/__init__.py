"""Call sites, and the paths from them to the tracer, as data for front ends."""
