"""The ppc64 port: 64-bit, big-endian, ELFv1."""
