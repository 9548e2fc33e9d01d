"""The registers that a hit of an fprobe saved."""

from __future__ import annotations

from dataclasses import dataclass

from ..trace.tracetext import TraceText


@dataclass(frozen=True, slots=True)
class Hit:
    """One hit of an fprobe."""

    head: str
    """Task, CPU and time, as in its line of the trace."""
    what: str
    """The rest of that line."""
    parent: int
    """Return address of the function."""
    registers: tuple[int, ...]
    """Values in the order of `Abi.pt_regs`."""


def hit_at(text: TraceText, row: int) -> Hit:
    """Return the hit that is event `row` of the table."""
    table = text.table
    hit = table.details.hits[table.events["parent"][row]]
    shown = text.row_of(row)
    (line,) = text.lines(shown, shown + 1)
    head, _, what = line.strip().partition(": ")
    return Hit(head, what, int(hit["parent"]), tuple(hit["regs"].tolist()))
