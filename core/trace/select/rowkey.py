"""The key of a row of the trace: what does not change when the ring buffer wraps.

Plain numbers without numpy, so that a saved session is read before numpy is loaded.
"""

from __future__ import annotations

from typing import NamedTuple


class RowKey(NamedTuple):
    """Identifies a row as long as its event is in the buffer."""

    time: int
    """The event's time stamp: virtual ns, or a number for the clock `counter`."""
    cpu: int
    ip: int
    """The address that the event has, 0 if it has none."""
    nth: int = 0
    """Number of earlier events with the same time, CPU and address."""
    part: int = 0
    """Which row of its event, in the numbering of the row map."""
