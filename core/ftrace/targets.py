"""What each call site calls now, and what it should call.

A site without users is a nop. A site with a single user calls that user's trampoline, if
it has one (trampolines.py). Any other site calls ftrace_caller, or ftrace_regs_caller if
one of its users wants registers. So what a site should call follows from its users
(`ftrace_get_addr_new`). What it calls now is stored in its record (`ftrace_get_addr_curr`),
since its users may have changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arch import Addresses, Edit, Port
from ..errors import FtraceBugType
from ..memento import Restore
from .entry import CALLER, REGS_CALLER
from .ops import FtraceOps
from .records import COUNT_MASK, Flag, Records, consecutive

NOP = 0
"""Stands in for the address that a disabled site calls."""

_EN = np.uint32(Flag.ENABLED | Flag.REGS_EN | Flag.TRAMP_EN)


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A set of records whose sites change in the same way."""

    rows: NDArray[np.intp]
    edit: Edit
    type: FtraceBugType
    old: int
    """The address that their calls reach before, `NOP` for none."""
    new: int
    """The address that their calls reach afterwards, `NOP` for none."""

    @property
    def target(self) -> int:
        """The address that a report about these sites names."""
        return self.old or self.new


class Targets:
    """What the calls of `records` reach; `callers` are shared by users, by name."""

    def __init__(self, records: Records, callers: Mapping[str, int]) -> None:
        self._records = records
        self._callers = callers

    def save(self) -> Restore:
        """Return a function that restores what the sites call and should call.

        Records added since then stay as they are.
        """
        names = ["flags", "tramp", "tramp_en"]
        kept = {name: self._records.table[name].copy() for name in names}

        def restore() -> None:
            table = self._records.table
            for name, column in kept.items():
                count = min(len(column), len(table))
                table[name][:count] = column[:count]

        return restore

    def count(self, ops: Sequence[FtraceOps], trampolines: Sequence[int]) -> None:
        """Set in each record the number of `ops` that want it, REGS, and its trampoline.

        Records with the flag `DISABLED` count no ops. `trampolines` has the address of each ops'
        own trampoline, 0 for none.
        """
        table = self._records.table
        count = np.zeros(len(table), np.uint32)
        only = np.zeros(len(table), np.uint64)
        alive = ~self._records.flagged(Flag.DISABLED)
        for each, trampoline in zip(ops, trampolines, strict=True):
            wanted = each.matches(table["ip"]) & alive
            count += wanted
            only[wanted] = trampoline
            if each.save_regs:
                count |= np.where(wanted, np.uint32(Flag.REGS), np.uint32(0))
        only[(count & np.uint32(COUNT_MASK)) != 1] = 0
        count |= np.where(only != 0, np.uint32(Flag.TRAMP), np.uint32(0))
        kept = table["flags"] & ~np.uint32(COUNT_MASK | Flag.REGS | Flag.TRAMP)
        table["flags"] = kept | count
        table["tramp"] = only

    def wanted(self) -> Addresses:
        """Return what each record should call, shape (n,)."""
        records = self._records
        shared = self._shared(records.flagged(Flag.REGS))
        own = np.where(records.flagged(Flag.TRAMP), records.table["tramp"], shared)
        return np.where(records.users > 0, own, np.uint64(NOP))

    def current(self) -> Addresses:
        """Return what each record calls, shape (n,)."""
        records = self._records
        shared = self._shared(records.flagged(Flag.REGS_EN))
        own = np.where(records.flagged(Flag.TRAMP_EN), records.table["tramp_en"], shared)
        return np.where(records.flagged(Flag.ENABLED), own, np.uint64(NOP))

    def of(self, row: int) -> int:
        """Return what record `row` calls, or would call if it were enabled now."""
        flags = int(self._records.table["flags"][row])
        if flags & Flag.ENABLED and flags & Flag.TRAMP_EN:
            return int(self._records.table["tramp_en"][row])
        return self._callers[self._records.caller_of(row)]

    def changes(self, port: Port) -> list[Change]:
        """Return the changes the text needs: new calls first, then other calls, then nops."""
        now, shall = self.current(), self.wanted()
        left = np.flatnonzero(now != shall)
        found: dict[tuple[int, int], NDArray[np.intp]] = {}
        while len(left):
            old, new = now[left[0]], shall[left[0]]
            same = (now[left] == old) & (shall[left] == new)
            found[int(old), int(new)] = left[same]
            left = left[~same]
        return [self._change(port, found[pair], *pair) for pair in sorted(found, key=self._order)]

    def done(self, change: Change) -> None:
        """Update the records after `change` was written."""
        table, rows = self._records.table, consecutive(change.rows)
        flags = table["flags"][rows] & ~_EN
        own = 0
        if change.new != NOP:
            flags |= np.uint32(Flag.ENABLED | Flag.TOUCHED)
            flags |= np.where(flags & np.uint32(Flag.REGS), np.uint32(Flag.REGS_EN), np.uint32(0))
            if change.new not in self._callers.values():
                own, flags = change.new, flags | np.uint32(Flag.TRAMP_EN)
        table["flags"][rows] = flags
        table["tramp_en"][rows] = own

    def _shared(self, regs: NDArray[np.bool_]) -> Addresses:
        """Return the shared caller of each record; `regs` says which need registers."""
        plain = self._callers[CALLER]
        saving = self._callers.get(REGS_CALLER, plain)
        return np.where(regs, np.uint64(saving), np.uint64(plain))

    def _order(self, pair: Sequence[int]) -> tuple[int, int, int]:
        """Return the sort key of a change from `pair[0]` to `pair[1]`."""
        known = [NOP, *self._callers.values()]
        old, new = (known.index(each) if each in known else each for each in pair)
        return (0 if old == NOP else 1 if new != NOP else 2), old, new

    def _change(self, port: Port, rows: NDArray[np.intp], old: int, new: int) -> Change:
        sites = self._records.sites(rows)
        if old == NOP:
            type, edit = FtraceBugType.CALL, port.make_call(sites, new)
        elif new == NOP:
            type, edit = FtraceBugType.NOP, port.make_nop(sites, old)
        else:
            type, edit = FtraceBugType.UPDATE, port.modify_call(sites, old, new)
        return Change(rows, edit, type, old, new)
