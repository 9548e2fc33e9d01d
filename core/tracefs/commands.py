"""Commands of set_ftrace_filter: `FUNCTION:COMMAND[:COUNT]`, and `!` to take one away.

A command is done when one of the functions is called: traceon, traceoff, stacktrace,
snapshot, dump, cpudump. A write of one acts at once, whatever becomes of the filter. As
in the kernel dump takes no count, as it is done once, and cpudump none at all. Source:
ftrace_trace_probe_callback() and its kin in kernel/trace/trace_functions.c,
ftrace_trace_snapshot_callback() and ftrace_dump() in kernel/trace/trace.c.
"""

from __future__ import annotations

import errno
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from ..abi import ProbeCommand
from ..arch import Addresses
from ..errors import TracefsError
from ..ftrace.filter import FilterWord, select
from ..ftrace.probes import FunctionProbes
from ..trace.dumptext import DASHES, EMPTY, HEAD
from .number import kstrtoul

if TYPE_CHECKING:
    from .array import TraceArray
    from .functions import FunctionTable

COMMANDS = MappingProxyType({command.name.lower(): command for command in ProbeCommand})
"""By the name that is written."""

_NAMES = frozenset(COMMANDS)


class Commands:
    """The commands of a trace array, and what they do to it."""

    def __init__(self, array: TraceArray) -> None:
        self._array = array
        self.probes = FunctionProbes(array.machine, array.ftrace)
        self._dumping = False

    def take(self, functions: FunctionTable, word: FilterWord) -> None:
        """Do what a word with a command says.

        Raises `TracefsError` (EINVAL: no such command, a bad count, functions that are not
        there or have it already; ERANGE; ENODEV: nothing of it to take away, or ftrace is
        off; EBUSY: too many) and `FtraceBug`.
        """
        command = COMMANDS.get(word.command or "")
        if command is None:
            raise TracefsError(errno.EINVAL)
        self._array.ftrace.check()
        counted = command is ProbeCommand.DUMP
        if command not in (ProbeCommand.DUMP, ProbeCommand.CPUDUMP):
            counted = word.parameter is not None
        if word.remove:
            self.probes.remove(command, counted, _taken_from(functions, word))
            return
        count = 1 if command is ProbeCommand.DUMP else self._count(word) if counted else None
        ips = functions.ips(select(functions.names(), word, _NAMES))
        if command is ProbeCommand.SNAPSHOT:
            self._array.snapshot.allocate()
        self.probes.add(command, ips, count)

    def _count(self, word: FilterWord) -> int:
        """The count of a word, a long."""
        bits = 8 * self._array.ftrace.port.facts.pointer_size
        number = (word.parameter or "").partition(":")[0]
        value = kstrtoul(number, bits, base=0) if number else (1 << bits) - 1
        return value - (value >> bits - 1 << bits)

    def lines(self, functions: FunctionTable) -> list[str]:
        """`FUNCTION:COMMAND:unlimited` or `…:count=N`, a line for each function."""
        shown = functions.lines()
        found = []
        for probe in self.probes:
            name, counts = probe.command.name.lower(), self.probes.counts(probe)
            rows = self._array.ftrace.records.rows_of(probe.ips)
            for at in np.argsort(rows, kind="stable").tolist():
                left = "unlimited" if counts is None else f"count={counts[at]}"
                found.append(f"{shown[rows[at]]}:{name}:{left}")
        return found

    def forget(self, ips: Addresses) -> None:
        """Take code that has gone away out of all of them. Raises `FtraceBug`."""
        self.probes.forget(ips)

    def dump(self, cpu: int, only: bool) -> None:
        """Print what is in the buffers, or `only` in that of `cpu`, and take it out.

        Into the kernel's log, at the time of `cpu`. Tracing is off from then on.
        """
        array, dmesg = self._array, self._array.machine.dmesg
        if self._dumping:
            return  # another CPU has come to it while this one waits
        self._dumping = True
        try:
            array.set_tracing_on(False)
            pieces = list(array.dump(cpu if only else None))
            ns = array.machine.vcpus[cpu].ticks
            dmesg.write(ns, HEAD)
            for piece in (DASHES, *pieces, DASHES) if pieces else (EMPTY,):
                dmesg.write(ns, piece)
        finally:
            self._dumping = False

    def control(self, cpu: int, probe: int, ip: int, parent_ip: int) -> int:
        """What the probe at that guest address is for, as `cpu` has called the function `ip`."""
        command = self.probes.command_at(probe)
        if command is None:
            return -errno.EINVAL
        if not ip or command in (ProbeCommand.TRACEON, ProbeCommand.TRACEOFF):
            self._array.set_tracing_on(bool(ip) and command is ProbeCommand.TRACEON)
        elif command in (ProbeCommand.DUMP, ProbeCommand.CPUDUMP):
            self.dump(cpu, only=command is ProbeCommand.CPUDUMP)
        elif self._array.snapshot.allocated:
            self._array.snapshot.swap()
        else:
            return -errno.ENOMEM
        return 0


def _taken_from(functions: FunctionTable, word: FilterWord) -> Addresses | None:
    """The call sites that a word with `!` speaks of; None for all."""
    if word.function in ("", "*"):
        return None
    if word.is_index:  # names alone are looked at
        return np.empty(0, np.uint64)
    return functions.ips(functions.names().match(word.function))
