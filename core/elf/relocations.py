"""Relocation tables, and the relocations that a movable kernel applies to itself.

A movable kernel is linked like a shared library (ET_DYN). Each word that depends on its load
address has an entry in a loaded relocation table, `.rela.dyn`. The words themselves, the list
of call sites included, may be zeros in the file. Such an image is loaded at the address it is
linked for, so the value of a relocation is its addend. No symbols are resolved: types that
need one are refused.

Source: System V ABI, chapter 4 "Relocation", chapter 5 "Dynamic linking".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import ImageError
from ..facts import FileFacts
from .fields import store
from .headers import Section, Segment

NONE = 0
"""Relocation type that changes nothing, in every ABI."""


@dataclass(frozen=True, slots=True)
class RelocationTable:
    """The n relocations of section `target`, in the file's order.

    `offset` counts bytes from the start of `target`. In a linked image it is an address, and
    if the table relocates the whole image, `target` is section 0. `symbol` indexes
    `Image.symbols`. `addend` is None for REL tables, whose addends are in the fields.
    """

    section: Section
    target: Section
    offset: NDArray[np.uint64]
    kind: NDArray[np.uint32]
    symbol: NDArray[np.uint32]
    addend: NDArray[np.int64] | None


def relocated(
    path: str,
    facts: FileFacts,
    raw: NDArray[np.uint8],
    segments: Sequence[Segment],
    tables: Sequence[RelocationTable],
) -> NDArray[np.uint8]:
    """Return a relocated copy of the file `raw` up to the end of its last segment.

    Raises `ImageError` for a type other than `facts.relative`, and for a word outside the file.
    """
    end = max((segment.offset + segment.filesz for segment in segments), default=0)
    loaded = raw[:end].copy()
    for table in tables:
        _check_kinds(path, facts, table)
        offset = _offsets(path, facts.pointer_size, segments, table)
        if table.addend is not None:
            found = table.kind != NONE
            addend = table.addend[found]
            store(loaded, offset[found], addend, facts.pointer_size, facts.byteorder)
    loaded.flags.writeable = False
    return loaded


def _check_kinds(path: str, facts: FileFacts, table: RelocationTable) -> None:
    """Raise `ImageError` for the first entry that is neither `facts.relative` nor `NONE`."""
    allowed = [NONE] if facts.relative is None else [NONE, facts.relative]
    bad = ~np.isin(table.kind, allowed)
    if bad.any():
        row = int(np.argmax(bad))
        raise ImageError(
            path,
            f"relocation {row} has type {int(table.kind[row])}, which a kernel of "
            f"{facts.name} cannot apply to itself",
            section=table.section.name,
        )


def _offsets(
    path: str, width: int, segments: Sequence[Segment], table: RelocationTable
) -> NDArray[np.uint64]:
    """Return the file offset of each relocated word of `width` bytes. Raises `ImageError`."""
    offset = np.zeros(len(table.offset), np.uint64)
    inside = table.kind == NONE
    for segment in segments:
        if segment.filesz < width:
            continue
        start = np.uint64(segment.address)
        here = (table.offset >= start) & (table.offset - start <= np.uint64(segment.filesz - width))
        offset[here] = table.offset[here] - start + np.uint64(segment.offset)
        inside |= here
    if not inside.all():
        row = int(np.argmin(inside))
        raise ImageError(
            path,
            f"relocation {row} is for the word at {int(table.offset[row]):#x}, which is not in "
            "the file",
            section=table.section.name,
        )
    return offset
