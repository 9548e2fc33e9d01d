"""Traces for other tools: timelines, folded stacks and tables."""
