"""The functions that can be traced, and what ftrace has done to them.

available_filter_functions and its variant with addresses, enabled_functions,
touched_functions, dyn_ftrace_total_info, ftraced_enabled. Source: t_show() in
kernel/trace/ftrace.c and tracing_read_dyn_info() in kernel/trace/trace.c, 6.13.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence

import numpy as np

from ..arch import Addresses
from ..errors import TracefsError
from ..ftrace.filter import FunctionNames, Rows
from ..ftrace.ftraced import Ftraced
from ..ftrace.records import Flag
from .array import TraceArray
from .number import boolean
from .tree import File, Handle, Node


class FunctionTable:
    """The records by name, laid out anew only when records come or go."""

    def __init__(self, array: TraceArray) -> None:
        self.array = array
        self._generation = -1
        self._lines: list[str] = []
        self._names: FunctionNames | None = None

    def lines(self) -> list[str]:
        """`name` or `name [module]` of every record, in order."""
        self._refresh()
        return self._lines

    def names(self) -> FunctionNames:
        """The records, for matching."""
        self._refresh()
        assert self._names is not None
        return self._names

    def ips(self, rows: Rows) -> Addresses:
        """rec.ip of some records."""
        ips: Addresses = self.array.ftrace.records.table["ip"][rows]
        return ips

    def lines_of(self, ips: Addresses) -> list[str]:
        """The lines of the records at `ips`, in the order of the table."""
        rows = self.array.ftrace.records.rows_of(ips)
        lines = self.lines()
        return [lines[row] for row in np.sort(rows[rows >= 0]).tolist()]

    def _refresh(self) -> None:
        records = self.array.ftrace.records
        if self._generation == records.generation:
            return
        owners = records.module_names()
        loaded = sorted({owner for owner in owners if owner is not None})
        number = {name: at for at, name in enumerate(loaded)}
        indices = np.fromiter(
            (-1 if owner is None else number[owner] for owner in owners), np.int32, len(owners)
        )
        prefix = self.array.ftrace.port.facts.abi.text_prefix
        self._names = FunctionNames(records.names, indices, loaded, prefix)
        self._lines = [
            name if owner is None else f"{name} [{owner}]"
            for name, owner in zip(records.names, owners, strict=True)
        ]
        self._generation = records.generation


class _FunctionFile(File):
    """A file about records; ENODEV once ftrace is off."""

    def __init__(self, functions: FunctionTable) -> None:
        self._functions = functions
        self._array = functions.array

    def open(self, *, write: bool = False, truncate: bool = False) -> Handle:
        """Open it."""
        if self._array.ftrace.disabled:
            raise TracefsError(errno.ENODEV)
        return super().open(write=write, truncate=truncate)


class AvailableFilterFunctions(_FunctionFile):
    """Every function with a call site."""

    def read(self) -> str:
        """`name` or `name [module]`."""
        return _text(self._functions.lines())


class AvailableFilterFunctionsAddrs(_FunctionFile):
    """The same with the address of each call site."""

    def read(self) -> str:
        """`address name [module]`, the address in hex."""
        ips = self._array.ftrace.records.table["ip"].tolist()
        lines = self._functions.lines()
        return _text([f"{ip:x} {line}" for ip, line in zip(ips, lines, strict=True)])


class EnabledFunctions(File):
    """The functions whose site holds a call now, or (`touched`) ever did.

    How many ftrace_ops want each, then letters for what they ask of it: saved
    registers R; of changing ip I, direct call D, own ops O, was ever modified M
    nothing here does any. Last what ftrace_caller calls now, or, of a site that calls the
    trampoline of its only ops, that, the ops' function, and what the trampoline calls.
    """

    def __init__(self, functions: FunctionTable, touched: bool) -> None:
        self._functions = functions
        self._array = functions.array
        self._touched = touched

    def read(self) -> str:
        """`name (users)`, columns of letters, `tramp: trampoline (function)`, `->function`."""
        records = self._array.ftrace.records
        shown = records.flagged(Flag.ENABLED)
        if self._touched:
            shown = shown | records.flagged(Flag.TOUCHED)
        rows = np.flatnonzero(shown)
        lines, users = self._functions.lines(), records.users
        letters = np.where(records.flagged(Flag.REGS), " R", "").tolist()
        shared = self._arrow(self._array.ftrace.call_target)
        own = np.where(records.flagged(Flag.TRAMP_EN), records.table["tramp_en"], 0)
        ends = {
            each: self._trampoline(each) if each else shared for each in np.unique(own).tolist()
        }
        return _text(
            [
                f"{lines[row]} ({users[row]}){letters[row]:<11}{ends[target]}"
                for row, target in zip(rows.tolist(), own[rows].tolist(), strict=True)
            ]
        )

    def _trampoline(self, address: int) -> str:
        """What is said of a record that calls the trampoline at `address`."""
        trampolines = self._array.ftrace.trampolines
        assert trampolines is not None
        return trampolines.text(address) + self._arrow(trampolines.calls(address))

    def _arrow(self, target: int | None) -> str:
        """What a slot that calls `target` is shown as."""
        return "" if target is None else f" ->{self._array.kallsyms.format(target)}"


class DynFtraceTotalInfo(File):
    """How many records there are and what they take.

    Text is changed between two moments of virtual time, so the times are 0. Where
    ftraced finds the sites it is the number alone, as in 2008: it grows.
    """

    def __init__(self, array: TraceArray) -> None:
        self._array = array

    def read(self) -> str:
        """Records, pages and groups of pages; then the two update times."""
        ftrace = self._array.ftrace
        records = ftrace.records
        if ftrace.ftraced is not None:
            return f"{records.converted}\n"
        return (
            f"{len(records)} pages:{records.pages} groups: {records.groups}\n"
            "ftrace boot update time = 0 (ns)\n"
            "ftrace module total update time = 0 (ns)\n"
        )


class FtracedEnabled(File):
    """Whether ftraced makes nops of what is found; the file of 2008."""

    mode = 0o644

    def __init__(self, ftraced: Ftraced) -> None:
        self._ftraced = ftraced

    def read(self) -> str:
        """`enabled`, `disabled`, or `suspended` while functions are traced."""
        if self._ftraced.stopped:
            return "disabled\n"
        return "suspended\n" if self._ftraced.suspended else "enabled\n"

    def write(self, text: str) -> None:
        """`enable`, `disable`, or a number: 0 disables it. ENODEV once ftrace is off."""
        words = {"enable": True, "disable": False}
        word = text.strip()
        on = words[word] if word in words else boolean(text)
        if self._ftraced.off:
            raise TracefsError(errno.ENODEV)
        self._ftraced.stop(not on)


def _text(lines: Sequence[str]) -> str:
    return "\n".join([*lines, ""]) if lines else ""


def files(array: TraceArray, functions: FunctionTable) -> Mapping[str, Node]:
    """This file's files by name."""
    ftraced = array.ftrace.ftraced
    found = {} if ftraced is None else {"ftraced_enabled": FtracedEnabled(ftraced)}
    return {
        "available_filter_functions": AvailableFilterFunctions(functions),
        "available_filter_functions_addrs": AvailableFilterFunctionsAddrs(functions),
        "enabled_functions": EnabledFunctions(functions, touched=False),
        "touched_functions": EnabledFunctions(functions, touched=True),
        "dyn_ftrace_total_info": DynFtraceTotalInfo(array),
        **found,
    }
