"""Function probes: the commands of set_ftrace_filter, executed when a function is called.

Each command of a trace array has one probe without counts and one with counts. A probe has a
slot in the guest's `struct trace_array` and an ftrace_ops of its own. The function of that
ops looks up the call site in the slot's table, decrements its count, and asks the machine for
what it cannot do itself (arches/guest/tracer/trace_probe.c). The guest keeps the counts. They
are read on demand, and copied when a table is rewritten, while no CPU is in the tracer.
Source: register_ftrace_function_probe() and similar functions in kernel/trace/ftrace.c.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .. import abi
from ..abi import ProbeCommand
from ..arch import Addresses
from ..errors import DynftraceError, MissingSymbolError, TracefsError
from ..machine.machine import Machine
from ..memento import Restore, attributes, in_order
from .ftrace import Ftrace
from .guestarray import GuestArray
from .ops import FtraceHash, FtraceOps
from .settle import settle

FUNCTION = "function_trace_probe_call"
"""The guest function of the probes' ops."""

PART = 4
"""The top array's probes' part of the area for the sites of hashes."""

Counts = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class FunctionProbe:
    """A command at one or more functions."""

    command: ProbeCommand
    counted: bool
    ops: FtraceOps
    ips: Addresses
    """Its call sites, ascending, as in its table in the guest."""
    place: int = 0
    """Guest address of their counts."""
    files: Addresses = field(default_factory=lambda: np.empty(0, np.uint64))
    """For commands of events, the address of each site's `struct trace_event_file`; else zeros."""


class TableArea(Protocol):
    """Guest memory for tables, written while a vCPU may still read the previous ones."""

    def write(self, hashes: Sequence[Addresses]) -> list[int]:
        """Write all tables; return the address of each."""
        ...

    def save(self) -> Restore:
        """Return a function that restores which memory is in use."""
        ...


class FunctionProbes:
    """The probes of one trace array, newest first, as in the kernel."""

    def __init__(
        self, machine: Machine, ftrace: Ftrace, array: GuestArray | None, area: TableArea
    ) -> None:
        """`array` has their slots; None for a kernel that cannot be traced."""
        facts = machine.port.facts
        self._machine = machine
        self._memory = machine.memory
        self._ftrace = ftrace
        self._layout = abi.func_probe(facts.byteorder)
        self._counts = np.dtype("i8").newbyteorder("<" if facts.byteorder == "little" else ">")
        self._array = array
        self._area = area
        self._probes: list[FunctionProbe] = []

    def __iter__(self) -> Iterator[FunctionProbe]:
        return iter(self._probes)

    def counts(self, probe: FunctionProbe) -> Counts | None:
        """Return how often `probe` will still act at each of its `ips`; None without counts."""
        if not probe.counted:
            return None
        data = self._memory.read(probe.place, 8 * len(probe.ips))
        return np.frombuffer(data, self._counts).astype(np.int64)

    def command_at(self, address: int) -> ProbeCommand | None:
        """Return the command of the probe whose slot is at guest address `address`."""
        if self._array is None:
            return None
        slots = range(self._table, self._table + 2 * len(ProbeCommand) * self._layout.itemsize)
        if address not in slots:
            return None
        return ProbeCommand((address - self._table) // self._layout.itemsize // 2 + 1)

    def add(self, command: ProbeCommand, ips: Addresses, count: int | None, file: int = 0) -> None:
        """Execute `command` at the call sites `ips`, `count` times each (None: unlimited).

        For a command of an event, `file` is the address of its `struct trace_event_file`.

        Sites that have the command already stay as they are. Raises `TracefsError` (EINVAL
        if all of `ips` have it, EBUSY with too many users, ENODEV if ftrace is off or the
        guest lacks probes) and `FtraceBug`, after which nothing has been added.
        """
        self._check()
        probe = self._find(command, count is not None)
        known = np.empty(0, np.uint64) if probe is None else probe.ips
        new = np.setdiff1d(ips, known)
        if not len(new):
            raise TracefsError(errno.EINVAL)
        probe = probe or self._make(command, count is not None)
        settle(self._machine)
        before = probe.ips, self.counts(probe), probe.files
        counts = np.concatenate([_of(before[1], known), np.full(len(new), count or 0, np.int64)])
        files = np.concatenate([probe.files, np.full(len(new), file, np.uint64)])
        joined = np.concatenate([known, new])
        order = np.argsort(joined)
        try:
            self._change(probe, joined[order], counts[order], files[order])
        except DynftraceError:
            self._tables(probe, *before)
            if not len(probe.ips):
                self._probes.remove(probe)
            raise

    def remove(self, command: ProbeCommand, counted: bool, ips: Addresses | None) -> None:
        """Remove `command` from the sites `ips` (None: from all) that have it.

        Raises `TracefsError` (ENODEV if the probe does not exist or ftrace is off, EINVAL
        if none of `ips` has it) and `FtraceBug`.
        """
        self._check()
        probe = self._find(command, counted)
        if probe is None:
            raise TracefsError(errno.ENODEV)
        gone = probe.ips if ips is None else np.intersect1d(probe.ips, ips)
        if not len(gone):
            raise TracefsError(errno.EINVAL)
        self._drop(probe, gone)

    def forget(self, ips: Addresses) -> None:
        """Remove call sites that no longer exist from all probes. Raises `FtraceBug`."""
        for probe in list(self._probes):
            gone = np.intersect1d(probe.ips, ips)
            if len(gone):
                self._drop(probe, gone)

    def save(self) -> Restore:
        """Return a function that restores the probes; the machine saves their tables."""
        parts = [attributes(self, "_probes"), self._area.save()]
        parts += [attributes(each, "ips", "place", "files") for each in self._probes]
        return in_order(*parts, *(each.ops.save() for each in self._probes))

    def _check(self) -> None:
        """Raise `TracefsError` (ENODEV) if functions cannot be probed."""
        self._ftrace.check()
        if self._symbol(FUNCTION) is None:
            raise TracefsError(errno.ENODEV)

    def _symbol(self, name: str) -> int | None:
        """Return the address of a symbol of the tracer; None if the kernel cannot be traced."""
        try:
            return self._ftrace.entry.symbols.get(name)
        except MissingSymbolError:
            return None

    @property
    def _table(self) -> int:
        assert self._array is not None
        return self._array.at("probes")

    def _slot(self, command: ProbeCommand, counted: bool) -> int:
        return self._table + (2 * (command - 1) + counted) * self._layout.itemsize

    def _find(self, command: ProbeCommand, counted: bool) -> FunctionProbe | None:
        wanted = (command, counted)
        found = (each for each in self._probes if (each.command, each.counted) == wanted)
        return next(found, None)

    def _make(self, command: ProbeCommand, counted: bool) -> FunctionProbe:
        name = f"{command.name.lower()}{'_count' if counted else ''}_probe_ops"
        function = self._ftrace.entry[FUNCTION]
        ops = FtraceOps(name, function, op=self._slot(command, counted))
        probe = FunctionProbe(command, counted, ops, np.empty(0, np.uint64))
        self._probes.insert(0, probe)
        return probe

    def _change(
        self, probe: FunctionProbe, ips: Addresses, counts: Counts | None, files: Addresses
    ) -> None:
        """Move `probe` to `ips`: change its table first, then the text."""
        before = probe.ops.filter_hash
        self._tables(probe, ips, counts, files)
        try:
            self._follow(probe, FtraceHash(ips))
        except DynftraceError:
            probe.ops.filter_hash = before
            raise

    def _drop(self, probe: FunctionProbe, gone: Addresses) -> None:
        """Remove `probe` from `gone`: change the text first, then its table."""
        left = ~np.isin(probe.ips, gone)
        ips = probe.ips[left]
        if not self._ftrace.disabled:
            self._follow(probe, FtraceHash(ips))
        settle(self._machine)
        counts = self.counts(probe)
        self._tables(probe, ips, None if counts is None else counts[left], probe.files[left])
        if not len(ips):
            self._probes.remove(probe)

    def _follow(self, probe: FunctionProbe, chosen: FtraceHash) -> None:
        """Make the text follow `chosen`; unregister the probe if that is empty."""
        if not len(chosen):
            self._ftrace.unregister(probe.ops)
        elif probe.ops in self._ftrace.ops:
            self._ftrace.set_hashes(probe.ops, chosen)
        else:
            probe.ops.filter_hash = chosen
            self._ftrace.register(probe.ops)

    def _tables(
        self, changed: FunctionProbe, ips: Addresses, counts: Counts | None, files: Addresses
    ) -> None:
        """Write all tables, with `changed`, to memory not in use; then point the slots there."""
        assert self._array is not None
        kept = {each: (each.ips, self.counts(each), each.files) for each in self._probes}
        kept[changed] = ips, counts, files
        arrays = [
            array
            for sites, left, events in kept.values()
            for array in (sites, _of(left, sites).view(np.uint64), events)
        ]
        places = iter(self._area.write(arrays))
        table = np.zeros(2 * len(ProbeCommand), self._layout)
        for probe, (sites, _, events) in kept.items():
            sites_at, probe.place, files_at = next(places), next(places), next(places)
            probe.ips, probe.files = sites, events
            table[2 * (probe.command - 1) + probe.counted] = (
                *(probe.command, probe.counted, sites_at, probe.place, len(sites)),
                *(files_at, self._array.address),
            )
        self._memory.write(self._table, table.tobytes())


def _of(counts: Counts | None, ips: Addresses) -> Counts:
    """Return a count for each site; zeros without counts."""
    return np.zeros(len(ips), np.int64) if counts is None else counts
