"""The panes' models: functions, hits, the rows of a trace, the history of locations."""
