"""The console's widgets, one in each file; none knows the session."""
