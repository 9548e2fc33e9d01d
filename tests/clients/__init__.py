"""Ftrace's own clients against a mounted machine: trace-cmd, perf and the kernel's selftests."""
