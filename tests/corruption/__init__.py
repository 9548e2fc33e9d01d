"""Damage to every bit of what ftrace patches or calls through, on every port.

`python -m tests.corruption` (`make corrupt`) tries all of them; the suite tries a sample.
"""
