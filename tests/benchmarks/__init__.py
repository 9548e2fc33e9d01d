"""The targets of the design, measured: `python -m tests.benchmarks [NAME…]`."""
