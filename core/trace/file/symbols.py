"""Names of addresses, from a recorded /proc/kallsyms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_CODE = frozenset("tTwW")
"""Types of symbols that are code."""

_LAST = 1 << 16
"""Bytes that belong to the last symbol, whose size is not recorded."""


class RecordedSymbols:
    """The code symbols of a recorded kernel; a symbol ends where the next one begins."""

    def __init__(self, kallsyms: bytes) -> None:
        """`kallsyms` has lines `ADDRESS TYPE NAME [MODULE]`; others are left out."""
        found: dict[int, str] = {}
        bounds = dict.fromkeys(("__irqentry_text_start", "__irqentry_text_end", "_etext"), 0)
        for line in kallsyms.decode("utf-8", "backslashreplace").splitlines():
            parts = line.split(None, 2)
            if len(parts) == 3 and parts[1] in _CODE and len(parts[0]) <= 16:
                try:
                    address = int(parts[0], 16)
                except ValueError:
                    continue
                if parts[2] in bounds:
                    bounds[parts[2]] = address
                elif address > 0:  # hidden from users without privileges
                    found.setdefault(address, parts[2].replace("\t", " "))
        first, end, last = bounds.values()
        # A list with only one name for each address may lack the first of these two.
        self.irq_text = range(first, end or last) if first else range(0)
        """Addresses of the entry points of interrupts; empty if they are not recorded."""
        starts = np.array(list(found), np.uint64)
        order = np.argsort(starts)
        self._starts = starts[order]
        self._names = np.array([*found.values(), ""], object)[order]

    def _row(self, address: int) -> int | None:
        row = int(self._starts.searchsorted(np.uint64(address), "right")) - 1
        return row if row >= 0 and address - int(self._starts[row]) < self._size(row) else None

    def _size(self, row: int) -> int:
        last = row + 1 == len(self._starts)
        return _LAST if last else int(self._starts[row + 1] - self._starts[row])

    def names_of(self, addresses: NDArray[np.uint64]) -> list[str]:
        """Return the symbol that contains each address, without module, or `0x…`."""
        return [self.name(address).partition(" ")[0] for address in addresses.tolist()]

    def name(self, address: int) -> str:
        """Return `name [module]`, or `0x…`."""
        row = self._row(address)
        return f"0x{address:x}" if row is None else str(self._names[row])

    def place(self, address: int) -> str:
        """Return `name+0x5/0x80 [module]`, or `0x…`."""
        row = self._row(address)
        if row is None:
            return f"0x{address:x}"
        name, space, module = str(self._names[row]).partition(" ")
        offset = address - int(self._starts[row])
        return f"{name}+0x{offset:x}/0x{self._size(row):x}{space}{module}"

    format = place
