"""tracefs of a machine as a file system, for other programs.

`open_file.py` knows what a client does with an open file, `filesystem.py` speaks to FUSE, and
`runner.py` runs the machine meanwhile. `ctl.py` is one more file: it takes commands of the shell.
"""
