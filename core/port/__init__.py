"""What ports inherit and share."""
