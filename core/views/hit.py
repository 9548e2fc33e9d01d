"""The registers that a hit of an fprobe saved, as front ends show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from ..facts import Abi
from ..kallsyms import Kallsyms
from ..trace.rowfields import FieldKind, joined
from ..trace.tracetext import TraceText

_BEFORE = (
    *(FieldKind.TASK, FieldKind.CPU, FieldKind.FLAGS, FieldKind.TIME),
    *(FieldKind.OVERHEAD, FieldKind.DURATION),
)
"""Kinds of the fields before what the event tells."""


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


def hit_at(text: TraceText, event: int) -> Hit:
    """Return the hit that is event `event` of the table."""
    table = text.table
    hit = table.details.hits[table.events["parent"][event]]
    fields = text.event_fields(event)
    before = list(takewhile(lambda field: field[0] in _BEFORE, fields))
    head = joined(before).strip().removesuffix(":")
    what = joined(fields[len(before) :]).strip()
    return Hit(head, what, int(hit["parent"]), tuple(hit["regs"].tolist()))


def hit_lines(hit: Hit, abi: Abi, pointer_size: int, kallsyms: Kallsyms) -> Sequence[str]:
    """A line for each register, with the symbol where it holds an address of code."""
    names = [register.name for register in abi.pt_regs]
    width, digits = max(map(len, names)), 2 * pointer_size
    lines = [hit.head, hit.what, f"called from {kallsyms.format(hit.parent)}"]
    for name, value in zip(names, hit.registers, strict=False):
        symbol = kallsyms.lookup(value)
        place = f"  {kallsyms.format(value)}" if symbol is not None and symbol.function else ""
        lines.append(f"  {name:>{width}} {value:0{digits}x}{place}")
    return lines
