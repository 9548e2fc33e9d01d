"""Place of a tour's panel: beside the panes if four still fit, else below them."""

from __future__ import annotations

from textual.geometry import Size

PANES_WIDTH = 100
"""Minimum width for four panes side by side."""

TOUR_WIDTH = 52
"""Width of a tour's panel beside the panes."""

TOUR_HEIGHTS = 11, 10
"""Height of the panel below the panes, in a narrow terminal and in one for four panes."""


def beside_tour(size: Size) -> Size:
    """Return the size that a tour's panel leaves for the panes."""
    if size.width - TOUR_WIDTH >= PANES_WIDTH:
        return Size(size.width - TOUR_WIDTH, size.height)
    return Size(size.width, size.height - TOUR_HEIGHTS[size.width >= PANES_WIDTH])
