"""Commands of set_ftrace_filter: `FUNCTION:COMMAND[:COUNT]`, and `!` to remove one.

A command is executed when one of its functions is called: traceon, traceoff, stacktrace,
snapshot, dump, cpudump, and `enable_event:GROUP:EVENT` or `disable_event:GROUP:EVENT`. A write
takes effect at once, even if the filter is refused. As in the kernel, dump is executed once and
cpudump at every call; neither takes a count. Source: ftrace_trace_probe_callback() and similar
functions in kernel/trace/trace_functions.c, ftrace_trace_snapshot_callback() and ftrace_dump() in
kernel/trace/trace.c, event_enable_func() in kernel/trace/trace_events.c.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

import numpy as np

from ..abi import ProbeCommand
from ..arch import Addresses
from ..errors import TracefsError
from ..ftrace.filter import FilterWord, select
from ..ftrace.ftrace import Ftrace
from ..ftrace.guestarray import GuestArray
from ..ftrace.probes import FunctionProbes, TableArea
from ..machine.machine import Machine
from ..memento import Restore, attributes, in_order
from ..trace.text.latencyformat import DASHES, EMPTY, HEAD
from .event import TraceEvent
from .functions import FunctionTable
from .number import kstrtoul
from .snapshot import Snapshot

COMMANDS = MappingProxyType({command.name.lower(): command for command in ProbeCommand})
"""The commands by name."""

_NAMES = frozenset(COMMANDS)
_DUMP_ORIG = 2
_OF_EVENTS = (ProbeCommand.ENABLE_EVENT, ProbeCommand.DISABLE_EVENT)
_UNCOUNTED = (ProbeCommand.DUMP, ProbeCommand.CPUDUMP)


class Recording(Protocol):
    """A trace array, as far as the commands need it."""

    @property
    def events(self) -> Sequence[TraceEvent]:
        """All events that exist now."""
        ...

    def set_tracing_on(self, on: bool) -> None:
        """Start or stop recording."""
        ...

    def dump(self, cpu: int | None = None) -> Iterator[str]:
        """Take the events of one CPU or of all out of the buffers, in the kernel log's form."""
        ...


class Commands:
    """The commands of a trace array."""

    def __init__(
        self,
        machine: Machine,
        ftrace: Ftrace,
        snapshot: Snapshot,
        recording: Recording,
        array: GuestArray | None,
        area: TableArea,
        top: Commands | None = None,
    ) -> None:
        """`array` and `area` are for the tables of the guest; `top` dumps what an instance asks."""
        self._top = top or self
        self.probes = FunctionProbes(machine, ftrace, array, area)
        self._used: tuple[TraceEvent, ...] = ()
        """The events that commands switch."""
        self._machine = machine
        self._ftrace = ftrace
        self._snapshot = snapshot
        self._recording = recording
        self._dumping = False
        self.on_oops = 0
        """What is dumped after an oops: nothing, all CPUs, or the one that oopsed."""

    def save(self) -> Restore:
        """Return a function that restores the commands and what an oops dumps."""
        return in_order(attributes(self, "on_oops", "_used"), self.probes.save())

    def take(self, functions: FunctionTable, word: FilterWord) -> None:
        """Add or remove the command of a word.

        Raises `TracefsError` (EINVAL: no such command, a bad count, or functions that do
        not exist or already have it; ERANGE; ENODEV: no such command to remove, or ftrace
        is off; EBUSY: too many commands) and `FtraceBug`.
        """
        command = COMMANDS.get(word.command or "")
        if command is None:
            raise TracefsError(errno.EINVAL)
        self._ftrace.check()
        event = None
        if command in _OF_EVENTS:
            event, word = self._event(word)
        counted = command is ProbeCommand.DUMP
        if command not in _UNCOUNTED:
            counted = word.parameter is not None
        if word.remove:
            self.probes.remove(command, counted, _taken_from(functions, word))
            self._release_events()
            return
        if event is not None and word.parameter == "":
            raise TracefsError(errno.EINVAL)
        count = 1 if command is ProbeCommand.DUMP else self._count(word) if counted else None
        ips = functions.ips(select(functions.names(), word, _NAMES))
        if command is ProbeCommand.SNAPSHOT:
            self._snapshot.allocate()
        if event is None:
            self.probes.add(command, ips, count)
            return
        if event not in self._used:
            event.file.use(True)
            self._used += (event,)
        try:
            self.probes.add(command, ips, count, event.file.address)
        finally:
            self._release_events()

    def _event(self, word: FilterWord) -> tuple[TraceEvent, FilterWord]:
        """Return the event of a command, and the word with its count as the parameter."""
        group, _, rest = (word.parameter or "").partition(":")
        name, colon, count = rest.partition(":")
        for event in self._recording.events:
            if (event.group, event.name) == (group, name) and event.file.has:
                return event, replace(word, parameter=count if colon else None)
        raise TracefsError(errno.EINVAL)

    def _release_events(self) -> None:
        """Release the events that no command switches any more."""
        used = {int(file) for probe in self.probes for file in probe.files}
        gone = [event for event in self._used if event.file.address not in used]
        self._used = tuple(event for event in self._used if event not in gone)
        for event in gone:
            event.file.use(False)

    def _count(self, word: FilterWord) -> int:
        """Return the count of a word, as the kernel's long."""
        bits = 8 * self._ftrace.port.facts.pointer_size
        number = (word.parameter or "").partition(":")[0]
        value = kstrtoul(number, bits, base=0) if number else (1 << bits) - 1
        return value - (value >> bits - 1 << bits)

    def lines(self, functions: FunctionTable) -> list[str]:
        """Return `FUNCTION:COMMAND:unlimited` or `…:count=N`, a line for each function."""
        shown = functions.lines()
        events = {each.file.address: f":{each.group}:{each.name}" for each in self._used}
        found = []
        for probe in self.probes:
            name, counts = probe.command.name.lower(), self.probes.counts(probe)
            rows = self._ftrace.records.rows_of(probe.ips)
            for at in np.argsort(rows, kind="stable").tolist():
                event = events.get(int(probe.files[at]), "")
                unlimited = counts is None or (event and counts[at] == -1)
                left = "unlimited" if unlimited or counts is None else f"count={counts[at]}"
                found.append(f"{shown[rows[at]]}:{name}{event}:{left}")
        return found

    def forget(self, ips: Addresses) -> None:
        """Remove call sites that no longer exist from all commands. Raises `FtraceBug`."""
        self.probes.forget(ips)
        self._release_events()

    def clear(self) -> None:
        """Remove all commands. Raises `FtraceBug`."""
        for probe in list(self.probes):
            self.forget(probe.ips)

    def dump(self, cpu: int, only: bool) -> None:
        """Move the events of all CPUs to the kernel's log; with `only`, the events of `cpu`.

        The log entries have the time of `cpu`. Tracing is off afterwards.
        """
        dmesg = self._machine.dmesg
        if self._dumping:
            return  # another CPU reached a dump while this one waits
        self._dumping = True
        try:
            self._recording.set_tracing_on(False)
            pieces = list(self._recording.dump(cpu if only else None))
            ns = self._machine.vcpus[cpu].ticks
            dmesg.write(ns, HEAD)
            for piece in (DASHES, *pieces, DASHES) if pieces else (EMPTY,):
                dmesg.write(ns, piece)
        finally:
            self._dumping = False

    def dump_on_oops(self, cpu: int) -> None:
        """Dump the buffers of all CPUs (1), or of `cpu`, which has oopsed (2), if enabled.

        As in ftrace_dump() (kernel/trace/trace.c), any other number except 0 means 1.
        """
        if self.on_oops:
            self.dump(cpu, only=self.on_oops == _DUMP_ORIG)

    def control(self, cpu: int, probe: int, ip: int, parent_ip: int) -> int:
        """Execute the command of the guest's `probe`: `cpu` has called the function at `ip`.

        Returns 0 or a negative errno.
        """
        command = self.probes.command_at(probe)
        if command is None:
            return -errno.EINVAL
        if not ip or command in (ProbeCommand.TRACEON, ProbeCommand.TRACEOFF):
            self._recording.set_tracing_on(bool(ip) and command is ProbeCommand.TRACEON)
        elif command in (ProbeCommand.DUMP, ProbeCommand.CPUDUMP):
            self._top.dump(cpu, only=command is ProbeCommand.CPUDUMP)
        elif self._snapshot.holds_max:
            return -errno.EBUSY
        elif self._snapshot.allocated:
            self._snapshot.swap()
        else:
            return -errno.ENOMEM
        return 0


def _taken_from(functions: FunctionTable, word: FilterWord) -> Addresses | None:
    """Return the call sites that a word with `!` names; None for all."""
    if word.function in ("", "*"):
        return None
    if word.is_index:  # the kernel compares only names
        return np.empty(0, np.uint64)
    return functions.ips(functions.names().match(word.function))
