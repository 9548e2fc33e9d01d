"""Long use: memory, files and threads level off. `python -m tests.soak`, or `make soak`."""
