"""What every front end writes and reads: whole files, downloads, TOML."""
