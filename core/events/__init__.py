"""Events beside function calls: fprobes and system calls."""
