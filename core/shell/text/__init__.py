"""Views as plain text, for the commands of the shell and of the command line."""
