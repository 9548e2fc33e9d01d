"""The x86-64 port."""
