"""Call-site records: `struct dyn_ftrace` as a numpy table.

Records have the kernel's order: first the kernel's own by ip, then each module's in the
order of loading. If no table lists the sites, records have the order in which the sites
were found. available_filter_functions has the same order. `flags` has the kernel's
layout; its low bits count the ftrace_ops that want the record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import IntFlag

import numpy as np
from numpy.typing import NDArray

from ..arch import Addresses, Bytes, ModuleStub, Sites
from ..distinct import distinct
from ..memento import Restore, attributes, in_order
from .entry import CALLER, REGS_CALLER, TRAMPOLINE

KERNEL = -1
"""Value of `module` in the kernel's own records."""

PAGE_SIZE = 4096

COUNT_MASK = 0x0007_FFFF
"""Bits of `flags` that count the ftrace_ops that want the record."""


INVALID_FUNCTION = "__ftrace_invalid_address__"
"""Start of the names of records in dead code (`FTRACE_INVALID_FUNCTION`)."""


class Flag(IntFlag):
    """Bits of `flags`, numbered as in the kernel's include/linux/ftrace.h."""

    TOUCHED = 1 << 20
    """The record was enabled at least once."""
    DISABLED = 1 << 25
    """The site is in no function, so the record is never enabled (`test_for_valid_rec`)."""
    TRAMP_EN = 1 << 27
    """The site calls the trampoline of the only ftrace_ops that wants it."""
    TRAMP = 1 << 28
    """Only one ftrace_ops wants the record, and it has its own trampoline."""
    REGS_EN = 1 << 29
    """The site calls ftrace_regs_caller, which saves registers."""
    REGS = 1 << 30
    """An ftrace_ops that wants the record wants registers."""
    ENABLED = 1 << 31
    """The site holds a call."""


RECORD = np.dtype(
    [
        ("ip", "u8"),
        ("flags", "u4"),
        ("module", "i4"),
        ("mod", "u8"),
        ("tramp", "u8"),
        ("tramp_en", "u8"),
        ("failed", "?"),
        ("raw", "?"),
    ]
)
"""One call site; `module` is a number that `Records` assigns, or `KERNEL`.

`mod` is the guest address of the `struct module` whose stub the site calls, 0 without a stub:
`rec->arch.mod` in the kernel, which the first make_nop stores and make_call reads.

With TRAMP the site should call the trampoline `tramp`, with TRAMP_EN it calls `tramp_en`.
In a `failed` record the text was not what ftrace expected; a `raw` one never became a nop.
"""


class Records:
    """All call sites, each with the name of its function."""

    def __init__(
        self, site_size: int, record_size: int = 16, read_word: Callable[[int], int] | None = None
    ) -> None:
        """`record_size` is the size of the kernel's `struct dyn_ftrace` in bytes.

        `read_word` reads a pointer from guest memory; it is needed for modules with `tramps`.
        """
        self.table = np.empty(0, RECORD)
        self.names: list[str] = []
        self.compiled: Bytes = np.empty((0, site_size), np.uint8)
        """The text of each site before ftrace first changed it, shape (n, CallSites.size)."""
        self.generation = 0
        """Changes whenever records are added or removed."""
        self._record_size = record_size
        self._order: NDArray[np.intp]
        self._sorted: Addresses
        self._modules: dict[int, str] = {}
        self._stubs: dict[int, tuple[ModuleStub, ...]] = {}
        self._tramps: dict[int, Mapping[int, int]] = {}
        self._read_word = read_word
        self._groups: dict[int, list[int]] = {}
        self._next = 0
        self._changed()

    def __len__(self) -> int:
        return len(self.table)

    def add(
        self,
        ips: Addresses,
        names: Sequence[str],
        compiled: Bytes,
        module: str | None = None,
        stubs: Sequence[ModuleStub] = (),
        *,
        tramps: Mapping[int, int] | None = None,
        found: bool = False,
        dead: NDArray[np.bool_] | None = None,
    ) -> slice:
        """Append records of the kernel, or of `module` with its stubs; return their rows.

        Records that are `dead` get the flag `DISABLED`. Records that were `found` as the kernel ran
        keep their order, and may be added in several parts. `tramps` maps a target to the guest
        address of the word that holds the address of its stub.
        """
        number = self._number(module, stubs, found)
        self._tramps[number] = tramps or {}
        rows = np.zeros(len(ips), RECORD)
        rows["ip"] = ips
        rows["module"] = number
        if dead is not None:
            rows["flags"][dead] = Flag.DISABLED
        order = np.arange(len(ips)) if found else np.argsort(ips, kind="stable")
        start = len(self.table)
        self.table = np.concatenate((self.table, rows[order]))
        self.names = self.names + [names[row] for row in order.tolist()]
        self.compiled = np.concatenate((self.compiled, compiled[order]))
        count = int(np.count_nonzero(self.table["module"] == number))
        self._groups[number] = page_groups(count, self._record_size)
        self._changed()
        return slice(start, len(self.table))

    def remove(self, module: str) -> Addresses:
        """Remove the records of `module`; return their ips."""
        numbers = [number for number, name in self._modules.items() if name == module]
        gone = np.isin(self.table["module"], numbers)
        ips: Addresses = self.table["ip"][gone].copy()
        for number in numbers:
            del self._modules[number], self._stubs[number], self._groups[number]
            del self._tramps[number]
        self._keep(~gone)
        return ips

    def refuse(self, rows: slice, ip: int) -> None:
        """Remove the records `rows`, whose sites did not become nops; mark that of `ip` `raw`."""
        keep = np.ones(len(self.table), np.bool_)
        keep[rows] = self.table["ip"][rows] == np.uint64(ip)
        self.table["raw"][rows] = True
        self._keep(keep)

    def save(self) -> Restore:
        """Return a function that restores all records."""
        kept = ("table", "names", "compiled", "_modules", "_stubs", "_tramps", "_groups", "_next")
        return in_order(attributes(self, *kept), self._changed)

    def sites(self, rows: NDArray[np.intp] | slice) -> Sites:
        """Return the sites `rows` as a batch for a verb of the port."""
        rows = consecutive(rows)
        ips: Addresses = self.table["ip"][rows].copy()
        found: dict[int, Addresses] = {}
        for number, stubs in self._stubs.items():
            of_module = self.table["module"][rows] == number if stubs else np.zeros(0, np.bool_)
            if not of_module.any():
                continue
            for stub in stubs:
                column = found.setdefault(stub.target, np.zeros(len(ips), np.uint64))
                column[of_module] = self._address(number, stub)
        return Sites(ips, found, self.compiled[rows].copy())

    def _address(self, number: int, stub: ModuleStub) -> int:
        """Return the address of the stub to the target of `stub`, as the guest's module has it."""
        word = self._tramps[number].get(stub.target)
        return stub.address if word is None or self._read_word is None else self._read_word(word)

    def tramps(self, row: int) -> list[tuple[int, int]]:
        """Return the words of the record's module that hold stubs: address and value of each."""
        words = self._tramps[int(self.table["module"][row])].values()
        return [] if self._read_word is None else [(at, self._read_word(at)) for at in words]

    @property
    def stubs(self) -> tuple[ModuleStub, ...]:
        """The stubs of the kernel and of all modules that have call sites."""
        return tuple(stub for stubs in self._stubs.values() for stub in stubs)

    def set_stubs(self, module: str, stubs: Sequence[ModuleStub]) -> None:
        """Replace the stubs of `module`."""
        for number, name in self._modules.items():
            if name == module:
                self._stubs[number] = tuple(stubs)
        self._changed()

    def stubs_at(self, addresses: Addresses) -> list[ModuleStub]:
        """Return the stubs at `addresses`, each once, in ascending order."""
        known = {stub.address: stub for stub in self.stubs}
        for number, stubs in self._stubs.items():
            for stub in stubs:
                # The stub that the guest's module names must lead to the target, wherever it is.
                if stub.target in self._tramps[number]:
                    address = self._address(number, stub)
                    known[address] = replace(stub, address=address)
        known.pop(0, None)
        return [known[at] for at in distinct(addresses).tolist() if at in known]

    def rows_of(self, ips: Addresses) -> NDArray[np.intp]:
        """Return the row of each of n addresses, -1 if no site begins there."""
        if not len(self):
            return np.full(len(ips), -1, np.intp)
        at = np.searchsorted(self._sorted, ips)
        rows = self._order[np.minimum(at, len(self) - 1)]
        return np.where(self.table["ip"][rows] == ips, rows, -1)

    def rows_before(self, addresses: Addresses) -> NDArray[np.intp]:
        """Return the row of the last site before each of n addresses, -1 for none."""
        at = np.searchsorted(self._sorted, addresses) - 1
        if not len(self):
            return at
        return np.where(at < 0, -1, self._order[np.maximum(at, 0)])

    def ip_of(self, row: int) -> int:
        """Return the ip of record `row`."""
        return int(self.table["ip"][row])

    def find(self, ip: int) -> int | None:
        """Return the row of the site at `ip`; None if no site begins there."""
        row = int(self.rows_of(np.array([ip], np.uint64))[0])
        return None if row < 0 else row

    def module_of(self, row: int) -> str | None:
        """Return the module of the record; None for the kernel."""
        return self._modules.get(int(self.table["module"][row]))

    def module_names(self) -> list[str | None]:
        """Return the module of every record, in order; None for the kernel."""
        return [self._modules.get(number) for number in self.table["module"].tolist()]

    def _number(self, module: str | None, stubs: Sequence[ModuleStub], found: bool) -> int:
        """Return the number of `module`: a new one, unless this adds to its `found` sites."""
        if module is None:
            if stubs:
                self._stubs[KERNEL] = tuple(stubs)
            return KERNEL
        for number, name in self._modules.items():
            if found and name == module:
                return number
        number = self._next
        self._next += 1
        self._modules[number] = module
        self._stubs[number] = tuple(stubs)
        return number

    def _keep(self, rows: NDArray[np.bool_]) -> None:
        """Remove all records but `rows`."""
        self.table = self.table[rows]
        self.names = [self.names[row] for row in np.flatnonzero(rows).tolist()]
        self.compiled = self.compiled[rows]
        self._changed()

    def _changed(self) -> None:
        """Update the indexes after records were added or removed."""
        self.generation += 1
        self._order = np.argsort(self.table["ip"], kind="stable")
        self._sorted = self.table["ip"][self._order]

    @property
    def converted(self) -> int:
        """Number of sites that ftrace has turned into nops at least once."""
        return int(np.count_nonzero(~self.table["raw"]))

    @property
    def users(self) -> NDArray[np.uint32]:
        """Number of ftrace_ops that want each record."""
        count: NDArray[np.uint32] = self.table["flags"] & np.uint32(COUNT_MASK)
        return count

    def flagged(self, flag: Flag) -> NDArray[np.bool_]:
        """Return which records have `flag`."""
        mask: NDArray[np.bool_] = (self.table["flags"] & np.uint32(flag)) != 0
        return mask

    def caller_of(self, row: int) -> str:
        """Return the name of the function that the call of `row` reaches, or would reach."""
        flags = int(self.table["flags"][row])
        if flags & Flag.ENABLED and flags & Flag.TRAMP_EN:
            return TRAMPOLINE
        regs = Flag.REGS_EN if flags & Flag.ENABLED else Flag.REGS
        return REGS_CALLER if flags & regs else CALLER

    @property
    def pages(self) -> int:
        """Number of pages that the kernel would need for these records."""
        return sum(sum(groups) for groups in self._groups.values())

    @property
    def groups(self) -> int:
        """Number of groups of consecutive pages among them."""
        return sum(len(groups) for groups in self._groups.values())


def consecutive(rows: NDArray[np.intp] | slice) -> NDArray[np.intp] | slice:
    """Return consecutive `rows` as a slice, which numpy reads several times faster."""
    if isinstance(rows, slice) or not len(rows) or (rows[1:] - rows[:-1] != 1).any():
        return rows
    return slice(int(rows[0]), int(rows[-1]) + 1)


def page_groups(count: int, record_size: int) -> list[int]:
    """Return the sizes in pages of the groups that Linux 6.1 allocates for `count` records.

    Each group has the largest power of two of pages that the remaining records fill, until
    all records have a place. A page holds `PAGE_SIZE // record_size` records.
    """
    groups = []
    each = PAGE_SIZE // record_size
    while count > 0:
        pages = -(-count // each)
        groups.append(1 << (pages.bit_length() - 1))
        count -= groups[-1] * each
    return groups
