"""The code that all architectures share: the machine, the patcher, the tracers, the file tree."""
