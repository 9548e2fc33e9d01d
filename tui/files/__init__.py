"""Files that every front end reads and writes: TOML, and files replaced as a whole."""
