"""Events as the lines that the kernel prints."""
