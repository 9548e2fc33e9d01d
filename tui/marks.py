"""Markers A and B and the bookmarks of a trace, by the places of their events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..core.trace.place import Place
    from .view import Trace

BOOKMARK = "◆"
"""The sign of a bookmark, in the first column of its row."""


class Marks:
    """Two letters and any number of bookmarks; which rows they are on is found once a trace."""

    def __init__(self) -> None:
        self.letters: dict[str, Place] = {}
        """Markers A and B, by their letters."""
        self._bookmarks: tuple[Place, ...] = ()
        self._trace: Trace | None = None
        self._rows: dict[Place, int] = {}

    @property
    def bookmarks(self) -> tuple[Place, ...]:
        """The bookmarks, in the order in which they were put."""
        return self._bookmarks

    @bookmarks.setter
    def bookmarks(self, places: Iterable[Place]) -> None:
        self._bookmarks = tuple(dict.fromkeys(places))
        self.look(self._trace)

    def look(self, trace: Trace | None) -> None:
        """Find the rows in `trace`."""
        self._trace = trace
        places = [*self.letters.values(), *self._bookmarks]
        rows = trace.rows_at(places) if trace is not None and places else ()
        self._rows = {
            place: row for place, row in zip(places, rows, strict=False) if row is not None
        }

    def put(self, letter: str, place: Place) -> None:
        """Put a marker."""
        self.letters[letter] = place
        self.look(self._trace)

    def clear(self) -> None:
        """Take both markers off."""
        self.letters.clear()
        self.look(self._trace)

    def toggle(self, place: Place) -> bool:
        """Put a bookmark or take it; whether it is there now."""
        there = place not in self._bookmarks
        rest = tuple(each for each in self._bookmarks if each != place)
        self.bookmarks = (*rest, place) if there else rest
        return there

    def row_of(self, letter: str) -> int | None:
        """The row of a marker; None where it is not set or its event is gone."""
        place = self.letters.get(letter)
        return None if place is None else self._rows.get(place)

    def bookmarked(self) -> list[int]:
        """The rows of bookmarks, rising."""
        return sorted({self._rows[place] for place in self._bookmarks if place in self._rows})

    def sign(self, row: int) -> str | None:
        """What to show in the first column of `row`."""
        for letter in self.letters:
            if self.row_of(letter) == row:
                return letter
        return BOOKMARK if row in self.bookmarked() else None

    @property
    def between(self) -> int | None:
        """From the stamp at marker A to that at B; None where one is missing."""
        if len(self.letters) < 2:
            return None
        return self.letters["B"].time - self.letters["A"].time
