"""Settings and sessions, kept on disk between runs."""
