"""The registers that a hit of an fprobe saved, as front ends show them."""

from __future__ import annotations

from dataclasses import dataclass

from ..trace.tracetext import TraceText


@dataclass(frozen=True, slots=True)
class Hit:
    """One hit."""

    head: str
    """Who, where and when, as its line in the trace says."""
    what: str
    """What else that says."""
    parent: int
    """Where the function was called from."""
    registers: tuple[int, ...]
    """In the order of `Abi.pt_regs`."""


def hit_at(text: TraceText, row: int) -> Hit:
    """The hit that is event `row` of the table."""
    table = text.table
    hit = table.details.hits[table.events["parent"][row]]
    shown = text.row_of(row)
    (line,) = text.lines(shown, shown + 1)
    head, _, what = line.strip().partition(": ")
    return Hit(head, what, int(hit["parent"]), tuple(hit["regs"].tolist()))
