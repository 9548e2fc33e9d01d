"""The tracefs shell. `shell.Shell` runs commands; `outcome` says what they did.

This file imports nothing: the console needs the types of `outcome` before its first paint,
when the session, and numpy with it, is not loaded yet.
"""
