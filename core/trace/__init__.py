"""The trace: the guest's ring buffer as a table of events, its text, and tools to explore it."""
