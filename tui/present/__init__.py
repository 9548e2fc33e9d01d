"""Turns data into lines of text, without the terminal toolkit."""
