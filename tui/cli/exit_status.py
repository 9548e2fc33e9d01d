"""Exit statuses of the program, as a shell reports them."""

FAILED = 1
USAGE = 2
INTERRUPTED = 130
"""After ctrl+c: 128 plus the number of SIGINT."""
