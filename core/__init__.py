"""What every architecture shares: the machine, the patcher, the tracers, the file tree."""
