"""Relocations of a file, and those that a linked image which can be moved does by itself.

A kernel that may be loaded anywhere is linked like a shared library (ET_DYN), and
each word that depends on where it is has an entry in a loaded relocation table,
`.rela.dyn`. The words themselves may well be zeros in the file, and those of the
list of call sites with them. Such an image is used at the address it is linked
for, so what a relocation means is its addend. There is nobody to resolve symbols:
types that need one are refused.

Source: System V ABI, chapter 4 "Relocation", chapter 5 "Dynamic linking".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import ImageError
from ..facts import Facts
from .fields import store
from .headers import Section, Segment

NONE = 0
"""The type that changes nothing, in every ABI."""


@dataclass(frozen=True, slots=True)
class RelocationTable:
    """The relocations of section `target`, n of them in the file's order.

    `offset` counts from the start of that section; in a linked image it is an address,
    and where a table is that of the image itself `target` is section 0, which is none.
    `symbol` indexes `Image.symbols`. `addend` is None for REL tables, whose addends stand
    in the fields.
    """

    section: Section
    target: Section
    offset: NDArray[np.uint64]
    kind: NDArray[np.uint32]
    symbol: NDArray[np.uint32]
    addend: NDArray[np.int64] | None


def relocated(
    path: str,
    facts: Facts,
    raw: NDArray[np.uint8],
    segments: Sequence[Segment],
    tables: Sequence[RelocationTable],
) -> NDArray[np.uint8]:
    """The file `raw` to the end of its last segment, as it is once loaded: a copy.

    Raises `ImageError` for a type that is not `facts.relative`, and for a word
    that is not in the file.
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


def _check_kinds(path: str, facts: Facts, table: RelocationTable) -> None:
    """Raise `ImageError` for the first entry that is neither relative nor nothing."""
    allowed = [NONE] if facts.relative is None else [NONE, facts.relative]
    bad = ~np.isin(table.kind, allowed)
    if bad.any():
        row = int(np.argmax(bad))
        raise ImageError(
            path,
            f"relocation {row} is of type {int(table.kind[row])}, which nobody does when a "
            f"kernel of {facts.name} is loaded",
            section=table.section.name,
        )


def _offsets(
    path: str, width: int, segments: Sequence[Segment], table: RelocationTable
) -> NDArray[np.uint64]:
    """Where in the file each word of `width` bytes is. Raises `ImageError`."""
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
            f"relocation {row} is of a word at {int(table.offset[row]):#x}, which is not in the "
            "file",
            section=table.section.name,
        )
    return offset
