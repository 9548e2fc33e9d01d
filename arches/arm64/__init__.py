"""The arm64 ports, one for each kind of call site, and the code that they share."""
