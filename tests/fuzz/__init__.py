"""Fuzzing of everything dynftrace reads: `python -m tests.fuzz [KIND...]`, or `make fuzz`."""
