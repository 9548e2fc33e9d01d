"""The ppc32 port: 32-bit, big-endian."""
