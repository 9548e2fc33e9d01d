"""The mips64 port: 64-bit, big-endian, n64."""
