"""Unpacking of kernel and module files."""
