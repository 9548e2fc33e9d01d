"""The symbols of one image as numpy columns.

A kernel has 130,000 symbols, so nothing here makes an object of each. The table keeps columns,
names are cut from the string table in one pass, and an address is found by binary search. As in
the kernel's kallsyms, the size of a symbol is the distance to the next one, because labels in
assembly have no size of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .structs import (
    SHN_ABS,
    SHN_LORESERVE,
    SHN_UNDEF,
    STB_GLOBAL,
    STB_LOCAL,
    STB_WEAK,
    STT_FILE,
    STT_FUNC,
    STT_NOTYPE,
    STT_OBJECT,
    STT_SECTION,
)

KSYM_NAME_LEN = 512
"""Limit for a symbol name, in bytes; the same as the kernel's."""


class Symbol(NamedTuple):
    """A named address; `module` is None for the kernel."""

    name: str
    address: int
    size: int
    """Bytes to the next symbol, or to the end of its section."""
    module: str | None = None
    function: bool = True


_MAPPING = frozenset({"$a", "$d", "$t", "$x"})
"""Names of mapping symbols up to the first dot (AAELF64, 5.6.4)."""


@dataclass(frozen=True)
class SymbolTable:
    """Columns of a symbol table, n symbols in the file's order.

    Addresses are those of the loaded image. `limit` is the end address of each symbol's
    section, or 0 if it has no loaded section.
    """

    names: list[str]
    address: NDArray[np.uint64]
    size: NDArray[np.uint64]
    kind: NDArray[np.uint8]
    binding: NDArray[np.uint8]
    shndx: NDArray[np.uint16]
    limit: NDArray[np.uint64]
    text: NDArray[np.bool_]
    """Whether the symbol's section contains code."""
    listed: bool = False
    """Whether the order is that of kallsyms: Linux shows the first symbol at an address."""

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def of_labels(cls, labels: Mapping[str, int], end: int) -> SymbolTable:
        """Return a table of the `labels` (addresses by name) of assembled code up to `end`."""
        names = list(labels)
        count = len(names)
        return cls(
            names=names,
            address=np.array([labels[name] for name in names], np.uint64),
            size=np.zeros(count, np.uint64),
            kind=np.full(count, STT_FUNC, np.uint8),
            binding=np.full(count, STB_GLOBAL, np.uint8),
            shndx=np.full(count, SHN_ABS, np.uint16),
            limit=np.full(count, end, np.uint64),
            text=np.ones(count, np.bool_),
        )

    @cached_property
    def defined(self) -> NDArray[np.bool_]:
        """Mask of the symbols in loaded sections, without names of sections and files.

        Mapping symbols of Arm's ABIs (`$x`, `$d`) are left out too: they mark where code and
        data begin, so most functions have one.
        """
        marker = (self.kind == STT_SECTION) | (self.kind == STT_FILE)
        mask: NDArray[np.bool_] = ~marker & (self.limit > 0)
        local = np.flatnonzero(mask & (self.kind == STT_NOTYPE) & (self.binding == STB_LOCAL))
        names = self.names
        mapping = [row for row in local.tolist() if names[row].partition(".")[0] in _MAPPING]
        mask[mapping] = False
        return mask

    @cached_property
    def functions(self) -> NDArray[np.bool_]:
        """Mask of the functions: symbols of code, not of function descriptors (`Toc`)."""
        mask: NDArray[np.bool_] = self.defined & self.text & (self.kind != STT_OBJECT)
        return mask

    @property
    def letters(self) -> NDArray[np.str_]:
        """The type of each symbol as nm(1) prints it: T or D, in lower case if it is local, W or V.

        All data is D, whether it can be written or not.
        """
        local, weak = self.binding == STB_LOCAL, self.binding == STB_WEAK
        code = np.where(local, "t", np.where(weak, "W", "T"))
        data = np.where(local, "d", np.where(weak, "V", "D"))
        letters: NDArray[np.str_] = np.where(self.functions, code, data)
        return letters

    @cached_property
    def _index(self) -> dict[str, int]:
        """Row by name; of equal names a global one wins, then a weak one, then the first."""
        rows = np.flatnonzero(self.shndx != SHN_UNDEF)
        binding = self.binding[rows]
        rank = 2 * (binding == STB_GLOBAL) + (binding == STB_WEAK)
        names = self.names
        return {names[row]: row for row in rows[np.lexsort((-rows, rank))].tolist()}

    def address_of(self, name: str) -> int | None:
        """Return the address of the symbol `name`, or None if it is not defined."""
        row = self.row_of(name)
        return None if row is None else int(self.address[row])

    def row_of(self, name: str) -> int | None:
        """Return the row of the symbol `name`, or None if it is not defined."""
        return self._index.get(name)

    @cached_property
    def by_address(self) -> NDArray[np.intp]:
        """Rows sorted by address, one symbol for each address.

        Of several symbols at one address, the first one of kallsyms wins. In other tables,
        functions win over data, those of type FUNC over plain labels, global over local ones, those
        with fewer leading underscores, and then the first in the file.
        """
        rows = np.flatnonzero(self.defined)
        rows = rows[self._order(rows)]
        first = np.ones(len(rows), np.bool_)
        first[1:] = self.address[rows[1:]] != self.address[rows[:-1]]
        return rows[first]

    def _order(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the order of `rows` by address, with the symbol to show first."""
        if self.listed:
            return np.argsort(self.address[rows], kind="stable")
        names = self.names
        underscores = np.fromiter(
            (len(name) - len(name.lstrip("_")) for name in map(names.__getitem__, rows.tolist())),
            np.int64,
            len(rows),
        )
        return np.lexsort(
            (
                underscores,
                self.binding[rows] != STB_GLOBAL,
                self.kind[rows] != STT_FUNC,
                ~self.functions[rows],
                self.address[rows],
            )
        )


def special(shndx: NDArray[np.uint16]) -> NDArray[np.bool_]:
    """Return a mask of the section numbers that do not stand for a section of the file."""
    mask: NDArray[np.bool_] = (shndx == SHN_UNDEF) | (shndx >= SHN_LORESERVE)
    return mask


def cut_names(
    table: NDArray[np.uint8], offsets: NDArray[np.uint32], most: int = 1 << 24
) -> list[str]:
    """Return the names at `offsets` of a string table that ends in NUL.

    Each name is truncated to `KSYM_NAME_LEN`, and names after the first `most` bytes in all
    are empty: names may share bytes, so a small file could claim a lot of memory. Names are
    UTF-8. Because they go to terminals, everything that cannot be printed becomes `?`.
    """
    clean = np.where((table > 0x20) & (table != 0x7F) | (table == 0), table, np.uint8(ord("?")))
    stops = np.flatnonzero(clean == 0)
    starts = offsets.astype(np.int64)
    ends = np.minimum(stops[np.searchsorted(stops, starts)], starts + KSYM_NAME_LEN)
    ends[np.cumsum(ends - starts) > most] = 0
    raw = clean.tobytes()
    cuts = zip(starts.tolist(), ends.tolist(), strict=True)
    if raw.isascii():
        text = raw.decode("ascii")
        return [text[start:end] for start, end in cuts]
    return [_printable(raw[start:end]) for start, end in cuts]


def _printable(name: bytes) -> str:
    """Return `name`, which has no ASCII control characters, as text that can be printed."""
    if name.isascii():
        return name.decode("ascii")
    text = name.decode("utf-8", "replace").replace("\N{REPLACEMENT CHARACTER}", "?")
    return "".join(mark if mark.isprintable() else "?" for mark in text)
