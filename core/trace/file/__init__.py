"""Recorded traces: files trace.dat of trace-cmd, written anywhere."""
