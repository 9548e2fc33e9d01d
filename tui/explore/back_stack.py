"""The history of locations in the console."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.trace.select.rowkey import RowKey

MOST = 100
"""Largest number of locations in the history."""


@dataclass(frozen=True, slots=True)
class Place:
    """A location: a pane, the function under the list's cursor, the event under the trace's.

    `ip` is the rec.ip of the function; `event` is None while the trace is followed.
    """

    pane: int
    ip: int | None = None
    event: RowKey | None = None


class Places:
    """A stack of locations, the most recent one on top."""

    def __init__(self) -> None:
        self._places: list[Place] = []

    def __len__(self) -> int:
        return len(self._places)

    def leave(self, place: Place) -> None:
        """Remember `place`, which the user is leaving."""
        if not self._places or self._places[-1] != place:
            self._places.append(place)
            del self._places[:-MOST]

    def back(self) -> Place | None:
        """Remove and return the previous location; None if the history is empty."""
        return self._places.pop() if self._places else None
