"""The mipsel port: 32-bit, little-endian, o32."""
