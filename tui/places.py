"""Where one has been in the console, to go back to."""

from __future__ import annotations

from dataclasses import dataclass

from .view import Trace

MOST = 100
"""Places remembered."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the trace, which is found again however the buffer turns."""

    time: int
    text: str

    @classmethod
    def at(cls, trace: Trace, row: int) -> Event:
        """The event in row `row`."""
        return cls(trace.time(row), trace.lines(row, row + 1)[0])

    def row(self, trace: Trace) -> int | None:
        """Its row in `trace`, None where it is no longer there."""
        low, high = 0, len(trace)
        while low < high:
            middle = (low + high) // 2
            if trace.time(middle) < self.time:
                low = middle + 1
            else:
                high = middle
        while low < len(trace) and trace.time(low) == self.time:
            if trace.lines(low, low + 1)[0] == self.text:
                return low
            low += 1
        return None


@dataclass(frozen=True, slots=True)
class Place:
    """A pane, the function under the cursor of the list, and the event under the trace's.

    `function` is its rec.ip; `event` is None while the trace is followed.
    """

    pane: int
    function: int | None = None
    event: Event | None = None


class Places:
    """A stack of places, the last of which one came from."""

    def __init__(self) -> None:
        self._places: list[Place] = []

    def __len__(self) -> int:
        return len(self._places)

    def leave(self, place: Place) -> None:
        """One goes away from `place`."""
        if not self._places or self._places[-1] != place:
            self._places.append(place)
            del self._places[:-MOST]

    def back(self) -> Place | None:
        """Where one came from, None at the first place."""
        return self._places.pop() if self._places else None
