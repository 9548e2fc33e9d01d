"""The x86-64 port as of 2008: call sites after the prologue, found as the kernel runs."""
