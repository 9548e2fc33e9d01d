"""The console's screens, one in each file."""
