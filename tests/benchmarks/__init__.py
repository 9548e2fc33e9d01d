"""Benchmarks of the design's targets: `python -m tests.benchmarks [NAME…]`."""
