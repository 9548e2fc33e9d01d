"""ELF files: reading them, and loading relocatable ones into memory."""
