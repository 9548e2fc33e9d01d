"""What front ends show of a call site and of the way from it to the tracer."""
