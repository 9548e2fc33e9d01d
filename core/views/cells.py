"""The width of text in a terminal, for columns of names that need not be ASCII."""

from __future__ import annotations

from unicodedata import category, east_asian_width

_NO_WIDTH = frozenset({"Mn", "Me", "Cf"})
"""Categories of marks that are drawn over the character before them, and of invisible ones."""


def cells(text: str) -> int:
    """Return the number of cells in which a terminal draws `text` (UAX #11)."""
    if text.isascii():
        return len(text)
    return sum(_width(mark) for mark in text)


def padded(text: str, width: int) -> str:
    """Return `text` with spaces after it, so that it fills at least `width` cells."""
    return text + " " * (width - cells(text))


def cut(text: str, width: int) -> str:
    """Return the longest start of `text` that fits into `width` cells."""
    if text.isascii():
        return text[: max(width, 0)]
    used = 0
    for end, mark in enumerate(text):
        used += _width(mark)
        if used > width:
            return text[:end]
    return text


def _width(mark: str) -> int:
    if category(mark) in _NO_WIDTH:
        return 0
    return 2 if east_asian_width(mark) in "WF" else 1
