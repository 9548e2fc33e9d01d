"""Events other than function calls: fprobes and system calls."""
