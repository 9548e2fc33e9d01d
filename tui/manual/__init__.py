"""The README's examples, the man page and the shell completions, made by the program."""
