"""Assembling typed instructions and entry code."""
