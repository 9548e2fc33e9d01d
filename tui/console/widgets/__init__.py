"""The console's widgets, one idea in each file; none knows the session."""
