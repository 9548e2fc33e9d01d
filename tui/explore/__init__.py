"""Models behind the panes: functions, hits, the rows of a trace, the way back."""
