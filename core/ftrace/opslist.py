"""The guest's table of ftrace_ops, which ftrace_ops_list_func walks at each call.

tracer.o holds `ftrace_ops_list` and `ftrace_ops_count`; the call sites of the
hashes lie in memory of their own. A vCPU may have been interrupted while it
walked the table, so the sites are written where nobody looks, in the area not
in use, before the entries point there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import abi
from ..arch import Addresses
from ..facts import Facts
from ..machine.memory import PAGE_SIZE, Memory
from .entry import Entry
from .ops import FtraceHash, FtraceOps

PARTS = 16
"""Of the port's area for the sites of hashes; each `SiteArea` has one of its own."""

_NOTHING = np.zeros(1, np.uint64)
"""A filter that matches nothing has one site that does not exist: none would mean all."""


class OpsList:
    """Writes the table; `func` is the address of ftrace_ops_list_func."""

    def __init__(self, facts: Facts, entry: Entry, memory: Memory) -> None:
        self.func = entry["ftrace_ops_list_func"]
        self.table = entry["ftrace_ops_list"]
        self._count = entry["ftrace_ops_count"]
        self._memory = memory
        self._layout = abi.ftrace_ops_entry(facts.byteorder)
        self._area = SiteArea(facts, memory, "ftrace_hash", 0)

    def entry_of(self, number: int) -> int:
        """Guest address of the entry of the registered ops `number`."""
        return self.table + number * self._layout.itemsize

    def op_of(self, number: int, ops: FtraceOps) -> int:
        """What the function of `ops`, registered as `number`, gets as its third argument."""
        return self.entry_of(number) if ops.op is None else ops.op

    def write(self, ops: Sequence[FtraceOps], pid_func: int | None = None) -> None:
        """Have the list function call `ops`, at most `FTRACE_OPS_MAX`.

        Those that obey pids by way of `pid_func`, where there is one.
        """
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
    """The addresses of one part of the port's area, for one who needs all of it."""
    size = (facts.map.hashes_end - facts.map.hashes) // PARTS
    start = facts.map.hashes + part * size
    return range(start, start + size)


def called_func(ops: FtraceOps, pid_func: int | None) -> int:
    """What a call for `ops` goes to: where tasks are chosen by pid, `pid_func` comes first."""
    return ops.func if pid_func is None or not ops.pid else pid_func


class SiteArea:
    """Guest memory for the sites of hashes: a part of the port's area, in two halves.

    Each writing goes to the half that is not in use: a vCPU may be looking at the other.
    """

    def __init__(self, facts: Facts, memory: Memory, name: str, part: int) -> None:
        self._memory = memory
        self._name = name
        self._half = (facts.map.hashes_end - facts.map.hashes) // (2 * PARTS)
        self._base = facts.map.hashes + 2 * part * self._half
        self.used = 0
        """The half that was written last."""

    def write(self, hashes: Sequence[Addresses]) -> list[int]:
        """Write the sites of all hashes one behind the other; the address of each."""
        sites = np.concatenate([*hashes, _NOTHING[:0]])
        self.used = 1 - self.used
        base = self._base + self.used * self._half
        name = f"{self._name}{self.used}"
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
    """The sites as the list function is told of them."""
    return _NOTHING if not chosen.empty and not len(chosen) else chosen.ips
