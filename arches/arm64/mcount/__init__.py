"""The arm64-mcount port: sites that call _mcount, made with -pg."""
