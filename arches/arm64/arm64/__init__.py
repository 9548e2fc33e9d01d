"""The arm64 port: sites of two nops, made with -fpatchable-function-entry."""
