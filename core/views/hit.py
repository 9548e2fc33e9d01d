"""The registers that a hit of an fprobe saved."""

from __future__ import annotations

from dataclasses import dataclass

from ..trace.text.columns import Fields
from ..trace.text.tracetext import TraceText


@dataclass(frozen=True, slots=True)
class Hit:
    """One hit of an fprobe."""

    fields: Fields
    """Its row of the trace."""
    parent: int
    """Return address of the function."""
    registers: tuple[int, ...]
    """Values in the order of `Abi.pt_regs`."""


def hit_at(text: TraceText, event: int) -> Hit:
    """Return the hit that is event `event` of the table."""
    table = text.table
    hit = table.details.hits[table.events["parent"][event]]
    return Hit(text.event_fields(event), int(hit["parent"]), tuple(hit["regs"].tolist()))
