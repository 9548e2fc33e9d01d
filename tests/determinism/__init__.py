"""The same commands give the same bytes: on every host, Python, hash seed and clock."""
