"""The registers that a hit of an fprobe saved."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from ..trace.text.fieldkinds import FieldKind, joined
from ..trace.text.tracetext import TraceText

_BEFORE = (
    *(FieldKind.TASK, FieldKind.CPU, FieldKind.FLAGS, FieldKind.TIME),
    *(FieldKind.OVERHEAD, FieldKind.DURATION),
)
"""Kinds of the fields before the event's own text."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One hit of an fprobe."""

    head: str
    """Task, CPU and time, as in its row of the trace."""
    what: str
    """The rest of that row."""
    parent: int
    """Return address of the function."""
    registers: tuple[int, ...]
    """Values in the order of `Abi.pt_regs`."""


def hit_at(text: TraceText, event: int) -> Hit:
    """Return the hit that is event `event` of the table."""
    table = text.table
    hit = table.details.hits[table.events["parent"][event]]
    fields = text.event_fields(event)
    before = list(takewhile(lambda field: field[0] in _BEFORE, fields))
    head = joined(before).strip().removesuffix(":")
    what = joined(fields[len(before) :]).strip()
    return Hit(head, what, int(hit["parent"]), tuple(hit["regs"].tolist()))
