"""Symbols of kernels without a symbol table: from kallsyms, or from a System.map beside the file.

kallsyms may have functions only (CONFIG_KALLSYMS_ALL), a System.map has all symbols. With both, the
System.map is used if it has each symbol of kallsyms at the same address. Otherwise it belongs to
another build.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .headers import Section
from .structs import (
    SHN_ABS,
    STB_GLOBAL,
    STB_LOCAL,
    STB_WEAK,
    STT_FUNC,
    STT_NOTYPE,
    STT_OBJECT,
)
from .symbols import SymbolTable

MAX_MAP = 64 << 20
"""Limit for a System.map, in bytes; a large kernel's has 10 MB."""

_FEW = 64
"""A System.map with fewer symbols is a stub: some packages have a note in its place."""

_LINE = re.compile(rb"^([0-9a-f]{8,16}) (\S) (\S+)", re.M)

_ENDS = frozenset({"_etext", "_einittext"})
"""Symbols that end code."""

Rows = tuple[list[str], NDArray[np.uint8], NDArray[np.uint64]]
"""Names, letters of nm and addresses of n symbols."""


def system_map(kernel: Path) -> tuple[Path, Rows] | None:
    """Return path and symbols of the System.map beside `kernel`; None without one."""
    version = kernel.name.partition("-")[2]
    path = kernel.with_name(f"System.map-{version}" if version else "System.map")
    try:
        if not path.is_file() or path.stat().st_size > MAX_MAP:
            return None
        found = _LINE.findall(path.read_bytes())
    except OSError:
        return None
    if len(found) < _FEW:
        return None
    names = [
        name.decode("ascii", "replace").replace("\N{REPLACEMENT CHARACTER}", "?")
        for _, _, name in found
    ]
    kind = np.frombuffer(b"".join(letter for _, letter, _ in found), np.uint8)
    address = np.array([int(each, 16) for each, _, _ in found], np.uint64)
    return path, (names, kind, address)


def completed(known: Rows, rows: Rows) -> Rows | None:
    """Return `known`, the symbols of kallsyms, and after them the other symbols of `rows`.

    None if `rows` does not have each symbol of `known` at the same address.
    """
    first = dict.fromkeys(zip(known[0], known[2].tolist(), strict=True))
    every = list(zip(rows[0], rows[2].tolist(), strict=True))
    if not first.keys() <= set(every):
        return None
    new = [row for row, each in enumerate(every) if each not in first]
    return (
        [*known[0], *(rows[0][row] for row in new)],
        np.concatenate((known[1], rows[1][new])),
        np.concatenate((known[2], rows[2][new])),
    )


def table_of(
    names: list[str],
    kind: NDArray[np.uint8],
    address: NDArray[np.uint64],
    sections: Sequence[Section],
    *,
    listed: bool,
) -> SymbolTable:
    """Return a table of n symbols that have a letter of nm as `kind`, and no size.

    With `listed`, they are in the order of kallsyms.
    """
    # The first range is empty, for symbols outside all sections.
    loaded = sorted((s for s in sections if s.loaded), key=lambda each: each.address)
    start = np.array([0, *(s.address for s in loaded)], np.uint64)
    end = np.array([0, *(s.end for s in loaded)], np.uint64)
    code = np.array([False, *(s.executable for s in loaded)], np.bool_)
    row = np.searchsorted(start, address, "right") - 1
    row = np.where(address < end[row], row, 0)
    # These end a section; the bytes after them belong to another one.
    row[[number for number, name in enumerate(names) if name in _ENDS]] = 0
    inside = row > 0
    lower = kind | np.uint8(0x20)
    of_code = np.isin(lower, np.frombuffer(b"tw", np.uint8))
    plain = np.isin(lower, np.frombuffer(b"an?-", np.uint8))
    weak = np.isin(lower, np.frombuffer(b"wv", np.uint8))
    shared = ((kind & 0x20) == 0) | (kind == ord("u"))
    return SymbolTable(
        names=names,
        address=address,
        size=np.zeros(len(names), np.uint64),
        kind=np.where(of_code, STT_FUNC, np.where(plain, STT_NOTYPE, STT_OBJECT)).astype(np.uint8),
        binding=np.where(weak, STB_WEAK, np.where(shared, STB_GLOBAL, STB_LOCAL)).astype(np.uint8),
        shndx=np.full(len(names), SHN_ABS, np.uint16),
        limit=np.where(inside, end[row], 0).astype(np.uint64),
        text=inside & code[row],
        listed=listed,
    )
