"""Where one has been in the console, to go back to."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.trace.rowkey import RowKey

MOST = 100
"""Places remembered."""


@dataclass(frozen=True, slots=True)
class Place:
    """A pane, the function under the cursor of the list, and the event under the trace's.

    `function` is its rec.ip; `event` is None while the trace is followed.
    """

    pane: int
    function: int | None = None
    event: RowKey | None = None


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
