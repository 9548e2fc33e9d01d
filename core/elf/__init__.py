"""ELF files: what they hold, and how a relocatable one is put into memory."""
