"""The key of a row of the trace, which does not change when the ring buffer wraps.

A key has plain numbers, so that a saved session can be read before numpy is loaded.
"""

from __future__ import annotations

from typing import NamedTuple


class RowKey(NamedTuple):
    """Identifies a row as long as its event is in the buffer."""

    time: int
    """The event's time stamp: virtual ns, or a number for the clock `counter`."""
    cpu: int
    ip: int
    """The event's address, 0 for an event without one."""
    nth: int = 0
    """Number of earlier events with the same time, CPU and address."""
    part: int = 0
    """The row's part of its event, as the row map numbers parts."""
