"""The console: the app, its screens and widgets, and the machine's thread."""
