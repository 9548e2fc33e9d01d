"""dynftrace in Python programs and notebooks; `dynftrace.open` is its entrance."""
