"""A trace as text: the files trace and trace_pipe, and the rows of a list.

An *event* is a record of the ring buffer. A *row* is a row of the text: most events
have one, some have more. Rows are formatted only when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..buffer.events import EventTable
from .columns import Fields
from .graphrows import GraphRows
from .labels import Labels
from .rowmap import RowMap
from .textcontext import TextContext

_BLOCK = 4096
"""Rows formatted at once."""


class Formatter(Protocol):
    """Formats rows of a table, each given by its event and its part (see `RowMap.of`)."""

    @property
    def table(self) -> EventTable: ...

    @property
    def context(self) -> TextContext: ...

    @property
    def labels(self) -> Labels: ...

    @property
    def header(self) -> Sequence[str]:
        """The comment lines above the events."""
        ...

    @property
    def titles(self) -> Fields:
        """The titles among them, one for each column; () for rows without these columns."""
        ...

    def texts(self, events: NDArray[np.intp], parts: NDArray[np.intp]) -> list[str]:
        """Return the text of n rows; a marker's text can contain line ends."""
        ...

    def fields(self, events: NDArray[np.intp], parts: NDArray[np.intp]) -> list[Fields]:
        """Return the fields of n rows; their texts join to that of `texts`."""
        ...


class TraceText:
    """The text of a table of events: its rows, and the text of each row."""

    def __init__(self, rows: RowMap | GraphRows, formatter: Formatter) -> None:
        self.rows = rows
        self.formatter = formatter
        self.table = formatter.table
        self.context = formatter.context

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    @property
    def header(self) -> Sequence[str]:
        """The comment lines above the events."""
        return self.formatter.header

    @property
    def titles(self) -> Fields:
        """The titles among them, one for each column; () for rows without these columns."""
        return self.formatter.titles

    def texts(self, start: int, stop: int) -> list[str]:
        """Return the text of rows `start` to `stop` (exclusive), as many as there are."""
        return self.texts_at(np.arange(start, min(stop, len(self))))

    def texts_at(self, rows: NDArray[np.intp]) -> list[str]:
        """Return the text of the given rows, with control characters escaped."""
        return [escaped(text) for text in self.formatter.texts(*self.rows.of(rows))]

    def fields_at(self, rows: NDArray[np.intp]) -> list[Fields]:
        """Return the fields of the given rows, with control characters escaped."""
        return [_escaped(fields) for fields in self.formatter.fields(*self.rows.of(rows))]

    def event_fields(self, event: int) -> Fields:
        """Return the fields of an event's own row, shown or not."""
        own = np.array([self.rows.OWN])
        return _escaped(self.formatter.fields(np.array([event]), own)[0])

    def file(self) -> Iterator[str]:
        """Generate the file `trace` in pieces: the header, then the events."""
        yield "\n".join([*self.header, ""])
        yield from self.body()

    def body(self, lost: Mapping[int, int] | None = None) -> Iterator[str]:
        """Generate the events in pieces; `lost` counts, by CPU, events that were overwritten."""
        notes = {self.rows.row_of(event): note for event, note in self._notes(lost or {}).items()}
        for start in range(0, len(self), _BLOCK):
            stop = min(start + _BLOCK, len(self))
            texts = self.formatter.texts(*self.rows.of(np.arange(start, stop)))
            for row in [row for row in notes if start <= row < stop]:
                texts[row - start] = notes[row] + texts[row - start]
            texts.append("")
            yield "\n".join(texts)

    def _notes(self, lost: Mapping[int, int]) -> dict[int, str]:
        """Return the note before the first event of each CPU, by the number of that event."""
        options = self.context.options
        annotates = options.annotate and not (options.raw or options.hex)
        cpus, first = np.unique(self.table.events["cpu"], return_index=True)
        notes: dict[int, str] = {}
        for event, count in self.context.lost.items():
            said = f"LOST {count} EVENTS" if count >= 0 else "EVENTS DROPPED"
            notes[event] = f"CPU:{self.table.events['cpu'][event]} [{said}]\n"
        for cpu, event in zip(cpus.tolist(), first.tolist(), strict=True):
            note = f"CPU:{cpu} [LOST {lost[cpu]} EVENTS]\n" if lost.get(cpu) else ""
            # The kernel does not announce the CPU of the very first event.
            if event and self.context.overran and annotates:
                note += f"##### CPU {cpu} buffer started ####\n"
            if note:
                notes[event] = note
        return notes


def _escaped(fields: Fields) -> Fields:
    return tuple((column, escaped(text)) for column, text in fields)


def escaped(text: str) -> str:
    """Return `text` with control characters and line ends as escape sequences."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
