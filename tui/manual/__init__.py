"""Documentation generated from the program: parts of pages, man page and completions."""
