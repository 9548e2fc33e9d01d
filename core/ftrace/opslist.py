"""The guest's table of ftrace_ops, which ftrace_ops_list_func walks at each call.

tracer.o has `ftrace_ops_list` and `ftrace_ops_count`; the call sites of the hashes lie in
separate memory. A vCPU may have been interrupted while it walked the table. So new sites
are written to the half of that memory that is not in use, before the entries point there.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np

from .. import abi
from ..abi import FTRACE_OPS_MAX
from ..arch import Addresses
from ..facts import Facts
from ..machine.memory import PAGE_SIZE, Memory
from ..memento import Restore, attributes
from .entry import Entry
from .ops import FtraceHash, FtraceOps

PARTS = 16
"""Parts of the port's area for the sites of hashes; each `SiteArea` has its own part."""

INSTANCE_PARTS = range(9, PARTS)
"""The parts that instances take their memory from."""

_NOTHING = np.zeros(1, np.uint64)
"""A nonexistent site, for a filter that matches nothing: an empty list means all sites."""


class OpsList:
    """Writes the guest's table; `func` is the address of ftrace_ops_list_func."""

    def __init__(self, facts: Facts, entry: Entry, memory: Memory) -> None:
        self.func = entry["ftrace_ops_list_func"]
        self.table = entry["ftrace_ops_list"]
        self._count = entry["ftrace_ops_count"]
        self._memory = memory
        self._layout = abi.ftrace_ops_entry(facts.byteorder)
        self._area = SiteArea(facts, memory, "ftrace_hash", 0)

    def entry_of(self, number: int) -> int:
        """Return the guest address of the entry of the registered ops `number`."""
        return self.table + number * self._layout.itemsize

    def op_of(self, number: int, ops: FtraceOps) -> int:
        """Return the third argument for the function of `ops`, registered as `number`."""
        return self.entry_of(number) if ops.op is None else ops.op

    def save(self) -> Restore:
        """Return a function that restores the host's part of the table."""
        return self._area.save()

    def write(self, ops: Sequence[FtraceOps], pid_func: int | None, undo: ExitStack) -> None:
        """Make ftrace_ops_list_func call `ops`, at most `FTRACE_OPS_MAX`.

        Ops that obey pids are called through `pid_func`, unless it is None. `undo` restores the old
        table.
        """
        memory = self._memory
        before = memory.read(self.table, FTRACE_OPS_MAX * self._layout.itemsize)
        undo.callback(self._area.save())
        undo.callback(memory.write, self._count, memory.read(self._count, 4))
        undo.callback(memory.write, self.table, before)
        hashes = [sites_of(each.filter_hash) for each in ops]
        hashes += [sites_of(each.notrace_hash) for each in ops]
        places = self._area.write(hashes)
        rows = np.zeros(len(ops), self._layout)
        for number, each in enumerate(ops):
            filter_at, notrace_at = places[number], places[number + len(ops)]
            rows[number] = (
                *(called_func(each, pid_func), self.op_of(number, each)),
                *(filter_at, len(hashes[number])),
                *(notrace_at, len(hashes[number + len(ops)])),
                each.func if each.pid else 0,
            )
        self._memory.write(self.table, rows.tobytes())
        self._memory.write_int(self._count, len(ops), 4)


def area_part(facts: Facts, part: int) -> range:
    """Return the addresses of one part of the port's area."""
    size = (facts.map.hashes_end - facts.map.hashes) // PARTS
    start = facts.map.hashes + part * size
    return range(start, start + size)


def called_func(ops: FtraceOps, pid_func: int | None) -> int:
    """Return the function to call for `ops`: `pid_func` if it is set and `ops` obeys pids."""
    return ops.func if pid_func is None or not ops.pid else pid_func


class SiteArea:
    """Guest memory for the sites of hashes: a part of the port's area, in two halves.

    Each write goes to the half that is not in use: a vCPU may be reading the other.
    """

    def __init__(self, facts: Facts, memory: Memory, name: str, part: int) -> None:
        self._memory = memory
        self._name = name
        self._half = (facts.map.hashes_end - facts.map.hashes) // (2 * PARTS)
        self._base = facts.map.hashes + 2 * part * self._half
        self._used = 0  # the half that was written last

    def save(self) -> Restore:
        """Return a function that restores which half is in use; the machine saves its contents."""
        return attributes(self, "_used")

    def write(self, hashes: Sequence[Addresses]) -> list[int]:
        """Write the sites of all hashes one after the other; return the address of each."""
        sites = np.concatenate([*hashes, _NOTHING[:0]])
        self._used = 1 - self._used
        base = self._base + self._used * self._half
        name = f"{self._name}{self._used}"
        present = self._memory.region_at(base)
        if len(sites) and (present is None or present.size < sites.nbytes):
            if present is not None:
                self._memory.unmap(name)
            self._memory.map(
                base, -(-sites.nbytes // PAGE_SIZE) * PAGE_SIZE, name, executable=False
            )
        order = "<" if self._memory.byteorder == "little" else ">"
        if len(sites):
            self._memory.write(base, sites.astype(f"{order}u8").tobytes())
        starts = np.cumsum([0] + [each.nbytes for each in hashes])[:-1]
        return [base + start for start in starts.tolist()]


def sites_of(chosen: FtraceHash) -> Addresses:
    """Return the sites of a hash as ftrace_ops_list_func reads them."""
    return _NOTHING if not chosen.empty and not len(chosen) else chosen.ips
