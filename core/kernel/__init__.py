"""A kernel in memory, its symbols and its workloads."""
