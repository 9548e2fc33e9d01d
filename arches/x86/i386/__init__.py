"""The i386 port."""
