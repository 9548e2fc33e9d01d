"""A row of the trace by what does not change when the buffer turns. Plain numbers, no tables."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """A line of an event: it is found again as long as the event is in the buffer."""

    time: int
    """The event's stamp: virtual ns, or the number of the clock `counter`."""
    cpu: int
    ip: int
    """The address the event has, 0 for none."""
    nth: int = 0
    """How many events before it have all that too."""
    part: int = 0
    """Which of its lines, in the numbering of the text."""
