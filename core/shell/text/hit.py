"""The registers that a hit of an fprobe saved, as plain text: what `regs hit` prints."""

from __future__ import annotations

from collections.abc import Sequence

from ...facts import Abi
from ...kernel.kallsyms import Kallsyms
from ...views.hit import Hit


def hit_lines(hit: Hit, abi: Abi, pointer_size: int, kallsyms: Kallsyms) -> Sequence[str]:
    """Return a line for each register, with the symbol if it holds an address of code."""
    names = [register.name for register in abi.pt_regs]
    width, digits = max(map(len, names)), 2 * pointer_size
    lines = [hit.head, hit.what, f"called from {kallsyms.format(hit.parent)}"]
    for name, value in zip(names, hit.registers, strict=False):
        symbol = kallsyms.lookup(value)
        place = f"  {kallsyms.format(value)}" if symbol is not None and symbol.function else ""
        lines.append(f"  {name:>{width}} {value:0{digits}x}{place}")
    return lines
