"""Guided tours: lessons in Markdown, and walking through them."""
