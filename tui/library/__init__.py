"""dynftrace in Python programs and notebooks; begin with `dynftrace.open`."""
