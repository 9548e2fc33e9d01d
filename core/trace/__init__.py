"""The trace: sub-buffer pages the guest wrote, as a table of events and as lines."""
