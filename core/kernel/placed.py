"""Where the segments of a kernel's file go in memory.

A segment goes where it is linked, except for per-CPU data that is linked at 0, so that an
address in it is an offset into the CPU's own copy. The part in the file is the copy that CPU 0
begins with. Linux loads it by its physical address; its virtual one is `__per_cpu_load`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..elf.headers import Segment
from ..elf.image import Image
from ..machine.memory import PAGE_SIZE

LOAD, START, END = "__per_cpu_load", "__per_cpu_start", "__per_cpu_end"
"""Symbols of the per-CPU data in the image."""


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive pages of a kernel, with the permissions of the segments in them."""

    start: int
    end: int
    executable: bool
    writable: bool


def address_of(image: Image, segment: Segment) -> int:
    """Return the address at which `segment` is loaded."""
    symbols = image.symbols
    load, start = symbols.address_of(LOAD), symbols.address_of(START)
    if load is None or start is None or segment.address != start:
        return segment.address
    return load


def spans(image: Image) -> list[Span]:
    """Return the pages that the segments of `image` touch, by address; none overlap."""
    found: list[Span] = []
    placed = [(address_of(image, each), each) for each in image.segments if each.memsz]
    for address, segment in sorted(placed, key=lambda each: each[0]):
        start = address // PAGE_SIZE * PAGE_SIZE
        end = -(-(address + segment.memsz) // PAGE_SIZE) * PAGE_SIZE
        code, data = segment.executable, segment.writable
        last = found[-1] if found else None
        same = last is not None and (last.end, last.executable, last.writable) == (
            start,
            code,
            data,
        )
        if last is not None and (start < last.end or same):
            code, data = code or last.executable, data or last.writable
            found[-1] = Span(last.start, max(end, last.end), code, data)
        else:
            found.append(Span(start, end, code, data))
    return found
