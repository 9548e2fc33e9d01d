"""Tasks of several steps: each flow owns its state, and the app only routes messages."""
