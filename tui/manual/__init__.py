"""Documentation generated from the program: README parts, man page and completions."""
