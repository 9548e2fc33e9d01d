"""The x86-64 port as of 2008: call sites behind the prologue, found as the kernel runs."""
