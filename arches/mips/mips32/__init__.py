"""The mips port: 32-bit, big-endian, o32."""
