"""The ring buffer: pages in guest memory, read as events."""
