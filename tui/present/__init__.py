"""Lines of text made of data; nothing here knows a terminal toolkit."""
