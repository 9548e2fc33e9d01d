"""Where the panel of a tour is: beside the panes if they keep room for four, else below them."""

from __future__ import annotations

from textual.geometry import Size

PANES_WIDTH = 100
"""Least width for four panes side by side."""

TOUR_WIDTH, TOUR_HEIGHT = 52, 11
"""Width of a tour's panel beside the panes, and its height below them."""


def beside_tour(size: Size) -> Size:
    """Return the size that a tour's panel leaves for the panes."""
    if size.width - TOUR_WIDTH >= PANES_WIDTH:
        return Size(size.width - TOUR_WIDTH, size.height)
    return Size(size.width, size.height - TOUR_HEIGHT)
