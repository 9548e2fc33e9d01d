"""Recorded traces: trace.dat files of trace-cmd, from any machine."""
