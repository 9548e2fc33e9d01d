"""The symbols of all loaded images: kernel, entry code, modules.

Each loaded image adds its symbol table and removes it when it is unloaded. Looking up many
addresses is one binary search, because a trace needs thousands.

A name may have several owners. Alone, it means the kernel's symbol, then the tracer's, then
that of the module loaded first; `name [module]` is the symbol of one module, or with `TRACER`
of the tracer. The tracer's symbols are shown that way only if the kernel has the same name.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..elf.symbols import Symbol, SymbolTable
from ..machine.symbols import TRACER
from ..memento import Restore, attributes


@dataclass(frozen=True, slots=True)
class _Merged:
    """Columns of the symbols of all tables, sorted by address."""

    start: NDArray[np.uint64]
    limit: NDArray[np.uint64]
    """End address of the section that contains each symbol."""
    name: NDArray[np.object_]
    function: NDArray[np.bool_]
    table: NDArray[np.intp]
    end: NDArray[np.uint64]
    """End address of each symbol: the next symbol, or its limit."""
    found: dict[int, Symbol] = field(default_factory=dict)
    """The symbols that were looked up, by row."""

    @classmethod
    def of(
        cls,
        start: NDArray[np.uint64],
        limit: NDArray[np.uint64],
        name: NDArray[np.object_],
        function: NDArray[np.bool_],
        table: NDArray[np.intp],
    ) -> _Merged:
        """Return columns that are sorted by `start`."""
        # A file may place a symbol after the end of its section: it has no size then.
        end = np.maximum(limit, start)
        end[:-1] = np.minimum(end[:-1], start[1:])
        return cls(start, limit, name, function, table, end)


class Kallsyms:
    """The symbol tables of what is loaded, in the order of loading."""

    def __init__(self) -> None:
        self._tables: list[tuple[str | None, SymbolTable]] = []
        self._merged: _Merged | None = None
        self._count = 0
        """Number of tables that are merged."""

    def add(self, table: SymbolTable, module: str | None = None) -> None:
        """Add a table whose addresses are final.

        `module` is None for the kernel's own, `TRACER` for the tracer's.
        """
        self._tables = [*self._tables, (module, table)]

    def remove(self, module: str) -> None:
        """Remove the tables of `module`."""
        self._tables = [(name, table) for name, table in self._tables if name != module]
        self._merged, self._count = None, 0

    def save(self) -> Restore:
        """Return a function that restores the tables."""
        return attributes(self, "_tables", "_merged", "_count")

    def address(self, name: str, module: str | None = None) -> int | None:
        """Return the address of `name` in the first table that has it, or in `module` only."""
        for owner, table in self._tables:
            if module is not None and owner != module:
                continue
            address = table.address_of(name)
            if address is not None:
                return address
        return None

    def addresses(self, name: str) -> list[int]:
        """Return the addresses of all symbols `name`, except the tracer's."""
        return [
            int(table.address[row])
            for owner, table in self._tables
            if owner != TRACER and table.address_of(name) is not None
            for row in table.by_address.tolist()
            if table.names[row] == name
        ]

    def lookup(self, address: int) -> Symbol | None:
        """Return the symbol that covers `address`, or None."""
        merged = self._all()
        row = int(merged.start.searchsorted(np.uint64(address), "right")) - 1
        if row < 0:
            return None
        symbol = merged.found.get(row)
        if symbol is None:
            start = int(merged.start[row])
            symbol = merged.found[row] = Symbol(
                name=merged.name[row],
                address=start,
                size=int(merged.end[row]) - start,
                module=self._module(merged.name[row], int(merged.table[row])),
                function=bool(merged.function[row]),
            )
        return symbol if address < symbol.address + symbol.size else None

    def names_of(self, addresses: NDArray[np.uint64]) -> list[str]:
        """Return the names that cover n addresses, without module; `0x…` for unknown addresses."""
        merged = self._all()
        addresses = np.asarray(addresses, np.uint64)
        if not len(merged.start):
            return [f"0x{address:x}" for address in addresses.tolist()]
        rows = np.searchsorted(merged.start, addresses, "right") - 1
        known = (rows >= 0) & (addresses < merged.end[np.maximum(rows, 0)])
        names: list[str] = merged.name[np.maximum(rows, 0)].tolist()
        for row in np.flatnonzero(~known).tolist():
            names[row] = f"0x{int(addresses[row]):x}"
        return names

    def starts_of(self, addresses: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return where the symbols that cover n addresses start; unknown addresses themselves."""
        merged = self._all()
        if not len(merged.start):
            return addresses.copy()
        rows = np.maximum(np.searchsorted(merged.start, addresses, "right") - 1, 0)
        start = merged.start[rows]
        return np.where((start <= addresses) & (addresses < merged.end[rows]), start, addresses)

    def format(self, address: int) -> str:
        """Return `name+0x5/0x80 [module]`, as the kernel prints an address; `0x…` if unknown."""
        symbol = self.lookup(address)
        if symbol is None:
            return f"0x{address:x}"
        text = f"{symbol.name}+0x{address - symbol.address:x}/0x{symbol.size:x}"
        return text if symbol.module is None else f"{text} [{symbol.module}]"

    def name(self, address: int) -> str:
        """Return `name [module]` (`%ps`); `0x…` if unknown."""
        symbol = self.lookup(address)
        if symbol is None:
            return f"0x{address:x}"
        return symbol.name if symbol.module is None else f"{symbol.name} [{symbol.module}]"

    def functions(self) -> list[Symbol]:
        """Return every function, sorted by address."""
        merged = self._all()
        rows = np.flatnonzero(merged.function)
        return [
            Symbol(name, start, end - start, self._module(name, table))
            for name, start, end, table in zip(
                merged.name[rows].tolist(),
                merged.start[rows].tolist(),
                merged.end[rows].tolist(),
                merged.table[rows].tolist(),
                strict=True,
            )
        ]

    def text(self, pointer_size: int) -> str:
        """Return the content of /proc/kallsyms: `address type name`, and the module if any.

        Types are those of `SymbolTable.letters`.
        """
        merged = self._all()
        width, lines = 2 * pointer_size, []
        columns = (merged.start, self._letters(), merged.name, merged.table)
        for start, letter, name, table in zip(*(c.tolist() for c in columns), strict=True):
            module = self._module(name, table)
            of = "" if module is None else f"\t[{module}]"
            lines.append(f"{start:0{width}x} {letter} {name}{of}\n")
        return "".join(lines)

    def _letters(self) -> NDArray[np.str_]:
        """Return the type of each merged symbol."""
        tables = [table for _, table in self._tables]
        if not tables:
            return np.empty(0, "U1")
        start = np.concatenate([table.address[table.by_address] for table in tables])
        letters = np.concatenate([table.letters[table.by_address] for table in tables])
        return letters[np.argsort(start, kind="stable")]

    def _module(self, name: str, table: int) -> str | None:
        """Return the module to show with `name` of the table with number `table`."""
        owner = self._tables[table][0]
        if owner != TRACER:
            return owner
        kernel = (found for known, found in self._tables if known is None)
        return owner if any(found.row_of(name) is not None for found in kernel) else None

    def _all(self) -> _Merged:
        """Return the merged columns, with the tables that were added since."""
        if self._merged is None or self._count < len(self._tables):
            new = self._merge(self._count)
            self._merged = new if self._merged is None else _both(self._merged, new)
            self._count = len(self._tables)
        return self._merged

    def _merge(self, first: int) -> _Merged:
        """Return the columns of the tables from number `first` on."""
        starts, limits, names, functions, owners = [], [], [], [], []
        for owner, (_, table) in enumerate(self._tables[first:], first):
            rows = table.by_address
            starts.append(table.address[rows])
            limits.append(table.limit[rows])
            names.append(np.array(table.names, object)[rows])
            functions.append(table.functions[rows])
            owners.append(np.full(len(rows), owner, np.intp))
        if not starts:
            empty = np.empty(0, np.uint64)
            nothing = np.empty(0, np.bool_)
            return _Merged.of(empty, empty, np.empty(0, object), nothing, np.empty(0, np.intp))
        start = np.concatenate(starts)
        order = np.argsort(start, kind="stable")
        return _Merged.of(
            start[order],
            np.concatenate(limits)[order],
            np.concatenate(names)[order],
            np.concatenate(functions)[order],
            np.concatenate(owners)[order],
        )


def _both(old: _Merged, new: _Merged) -> _Merged:
    """Return the columns of `old` and `new`; of equal addresses, those of `old` come first."""
    at = np.searchsorted(old.start, new.start, "right")
    return _Merged.of(
        np.insert(old.start, at, new.start),
        np.insert(old.limit, at, new.limit),
        np.insert(old.name, at, new.name),
        np.insert(old.function, at, new.function),
        np.insert(old.table, at, new.table),
    )
