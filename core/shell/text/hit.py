"""The registers that a hit of an fprobe saved, as plain text: what `regs hit` prints."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from ...facts import Abi
from ...kernel.kallsyms import Kallsyms
from ...trace.text.columns import Column, joined
from ...views.hit import Hit
from ...views.toned import Span, Toned

_BEFORE = (
    *(Column.TASK, Column.CPU, Column.FLAGS, Column.TIME),
    *(Column.OVERHEAD, Column.DURATION),
)
"""Kinds of the fields before the event's own text."""


def hit_lines(hit: Hit, abi: Abi, pointer_size: int, kallsyms: Kallsyms) -> Sequence[str]:
    """Return a line for each register, with the symbol if it holds an address of code."""
    names = [register.name for register in abi.pt_regs]
    width, digits = max(map(len, names)), 2 * pointer_size
    before = list(takewhile(lambda field: field[0] in _BEFORE, hit.fields))
    head = joined(before).strip().removesuffix(":")
    what = joined(hit.fields[len(before) :]).strip()
    lines: list[str] = [head, what, f"called from {kallsyms.format(hit.parent)}"]
    for name, value in zip(names, hit.registers, strict=False):
        symbol = kallsyms.lookup(value)
        place = f"  {kallsyms.format(value)}" if symbol is not None and symbol.function else ""
        lines.append(Toned("  ", *register_spans(name, width, value, digits), place))
    return lines


def register_spans(name: str, width: int, value: int, digits: int) -> tuple[Span, Span]:
    """Return a register and its value in hex, of `width` and `digits` columns; 0 is faint."""
    return (f"{name:>{width}} ", "accent"), (f"{value:0{digits}x}", "" if value else "dim")
