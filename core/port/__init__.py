"""Code that ports inherit and share."""
