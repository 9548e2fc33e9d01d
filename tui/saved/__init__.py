"""What is kept on disk between runs: settings, sessions."""
