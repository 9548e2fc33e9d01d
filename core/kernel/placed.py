"""Where the segments of a kernel's file go in memory.

A segment goes where it is linked, except for per-CPU data that is linked at 0, so that an
address in it is an offset into the CPU's own copy. The part in the file is the copy that CPU 0
begins with. Linux loads it by its physical address; its virtual one is `__per_cpu_load`.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    placed = [piece for each in image.segments if each.memsz for piece in _pieces(image, each)]
    for start, end, code, data in sorted(placed):
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


def _pieces(image: Image, segment: Segment) -> Iterator[tuple[int, int, bool, bool]]:
    """Yield start, end, and whether code and data are there, of the pages of `segment`.

    Some kernels have their init code in a segment of data, and make it executable as they boot.
    Such a segment is cut where its sections with code begin and end.
    """
    address = address_of(image, segment)
    at, last = _pages(address, segment.memsz)
    code = [
        _pages(section.address - segment.address + address, section.size)
        for section in image.sections
        if section.loaded
        and section.executable
        and section.size
        and segment.address <= section.address
        and section.end <= segment.address + segment.memsz
    ]
    for start, end in [] if segment.executable else sorted(code):
        if at < start:
            yield at, start, False, segment.writable
        if at < end:
            yield max(at, start), end, True, segment.writable
            at = end
    if at < last:
        yield at, last, segment.executable, segment.writable


def _pages(start: int, size: int) -> tuple[int, int]:
    """Return start and end of the pages that contain [start, start + size)."""
    return start // PAGE_SIZE * PAGE_SIZE, -(-(start + size) // PAGE_SIZE) * PAGE_SIZE
