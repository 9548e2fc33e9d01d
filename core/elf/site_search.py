"""Finds the list of call sites in a kernel whose symbols do not say where it is.

The list is the longest run of pointers that all lead to text like that of every call site
(`CallSites.patterns`). Other tables of pointers to functions are much shorter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..facts import FileFacts, SitePattern
from . import structs as elf

LEAST = 32
"""Entries of the shortest run that is a list: pointers to functions, such as the system calls,
have runs of dozens, but also functions without a site between them."""

Piece = tuple[int, NDArray[np.uint8]]
"""Address and bytes of a part of a loaded kernel."""


def find_list(
    facts: FileFacts, pieces: Sequence[Piece], code: Sequence[Piece]
) -> tuple[int, int] | None:
    """Return address and size in bytes of the list in `pieces` of sites in `code`, or None."""
    width = facts.pointer_size
    word = elf.layouts(width, facts.byteorder).word
    best = (0, 0)
    for address, raw in pieces:
        skip = -address % width
        words = raw[skip : skip + (len(raw) - skip) // width * width].view(word)
        marks = leads(facts, words, code)
        marks[1:] &= words[1:] != words[:-1]  # a table of one handler is not a list
        start, size = _longest(marks)
        if size > best[1]:
            best = (address + skip + start * width, size)
    return (best[0], best[1] * width) if best[1] >= LEAST else None


def leads(
    facts: FileFacts, words: NDArray[np.unsignedinteger], code: Sequence[Piece]
) -> NDArray[np.bool_]:
    """Return which of n words lead to text like that of a site, shape (n,)."""
    found = np.zeros(len(words), np.bool_)
    for start, text in code:
        end = start + len(text)
        rows = np.flatnonzero((words >= start) & (words < end))
        at = (words[rows].astype(np.uint64) - np.uint64(start)).astype(np.int64)
        fits = np.zeros(len(rows), np.bool_)
        for pattern in facts.sites.patterns:
            fits |= _like(text, at, pattern)
        found[rows] = fits & (at % facts.insn_align == 0)
    return found


def _like(
    text: NDArray[np.uint8], at: NDArray[np.int64], pattern: SitePattern
) -> NDArray[np.bool_]:
    """Return which of the offsets `at` in `text` have the pattern."""
    size = len(pattern.value)
    place = at + pattern.offset
    inside: NDArray[np.bool_] = (place >= 0) & (place + size <= len(text))
    rows = np.flatnonzero(inside)
    for byte in range(size):
        mask = np.uint8(pattern.mask[byte])
        if mask:
            same = text[place[rows] + byte] & mask == np.uint8(pattern.value[byte] & int(mask))
            inside[rows[~same]] = False
            rows = rows[same]
    return inside


def _longest(marks: NDArray[np.bool_]) -> tuple[int, int]:
    """Return start and length of the longest run of True."""
    edges = np.flatnonzero(np.diff(marks.view(np.int8), prepend=0, append=0))
    starts, sizes = edges[::2], edges[1::2] - edges[::2]
    if not len(starts):
        return 0, 0
    row = int(np.argmax(sizes))
    return int(starts[row]), int(sizes[row])
