"""Tours: lessons in Markdown, the walk through their steps, and saved progress."""
