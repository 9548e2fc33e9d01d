"""The functions that can be traced, and the state of their call sites.

available_filter_functions and its variant with addresses, enabled_functions,
touched_functions, dyn_ftrace_total_info, ftraced_enabled. Source: t_show() in
kernel/trace/ftrace.c and tracing_read_dyn_info() in kernel/trace/trace.c, 6.13.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..arch import Addresses
from ..distinct import distinct
from ..errors import TracefsError
from ..ftrace.filter import FunctionNames, Rows
from ..ftrace.ftrace import Ftrace
from ..ftrace.ftraced import Ftraced
from ..ftrace.records import Flag
from .number import boolean
from .tree import File, Handle, Node


@dataclass(frozen=True, slots=True)
class _Listing:
    """The records by name, as of one generation of the records."""

    generation: int
    lines: list[str]
    names: FunctionNames


class FunctionTable:
    """The records by name; rebuilt only after records were added or removed."""

    def __init__(self, ftrace: Ftrace) -> None:
        self.ftrace = ftrace
        self._listing = self._list()

    def lines(self) -> list[str]:
        """Return `name` or `name [module]` of every record, in order."""
        return self._current().lines

    def names(self) -> FunctionNames:
        """Return the records for matching."""
        return self._current().names

    def ips(self, rows: Rows) -> Addresses:
        """Return the ips of the records `rows`."""
        ips: Addresses = self.ftrace.records.table["ip"][rows]
        return ips

    def lines_of(self, ips: Addresses) -> list[str]:
        """Return the lines of the records at `ips`, in the order of the table."""
        rows = self.ftrace.records.rows_of(ips)
        lines = self.lines()
        return [lines[row] for row in np.sort(rows[rows >= 0]).tolist()]

    def _current(self) -> _Listing:
        if self._listing.generation != self.ftrace.records.generation:
            self._listing = self._list()
        return self._listing

    def _list(self) -> _Listing:
        records = self.ftrace.records
        owners = records.module_names()
        loaded = sorted({owner for owner in owners if owner is not None})
        number = {name: at for at, name in enumerate(loaded)}
        indices = np.fromiter(
            (-1 if owner is None else number[owner] for owner in owners), np.int32, len(owners)
        )
        prefix = self.ftrace.port.facts.abi.text_prefix
        lines = [
            name if owner is None else f"{name} [{owner}]"
            for name, owner in zip(records.names, owners, strict=True)
        ]
        # match_records() passes over disabled records.
        hidden = np.flatnonzero(records.flagged(Flag.DISABLED))
        names = FunctionNames(records.names, indices, loaded, prefix, hidden)
        return _Listing(records.generation, lines, names)


class _FunctionFile(File):
    """A file about records; ENODEV once a bug has shut ftrace off."""

    def __init__(self, functions: FunctionTable) -> None:
        self._functions = functions
        self._ftrace = functions.ftrace

    def open(self, *, write: bool = False, truncate: bool = False) -> Handle:
        """Open the file."""
        if self._ftrace.disabled:
            raise TracefsError(errno.ENODEV)
        return super().open(write=write, truncate=truncate)


class AvailableFilterFunctions(_FunctionFile):
    """Every function with a call site."""

    def read(self) -> str:
        """Return `name` or `name [module]`, one a line."""
        return _text(self._functions.lines())


class AvailableFilterFunctionsAddrs(_FunctionFile):
    """Every function with a call site, and the address of the site."""

    def read(self) -> str:
        """Return `address name [module]`, one a line; the address is in hex."""
        ips = self._ftrace.records.table["ip"].tolist()
        lines = self._functions.lines()
        return _text([f"{ip:x} {line}" for ip, line in zip(ips, lines, strict=True)])


class EnabledFunctions(File):
    """The functions whose site holds a call now, or with `touched` ever held one.

    A line has the number of ftrace_ops that want the site, then R if one wants registers.
    The kernel's other letters (I, D, O, M) never occur. Last comes the function that
    ftrace_caller calls. A site that calls the trampoline of its only ops has the
    trampoline, the ops' function, and the function that the trampoline calls.
    """

    def __init__(self, functions: FunctionTable, touched: bool) -> None:
        self._functions = functions
        self._ftrace = functions.ftrace
        self._touched = touched

    def read(self) -> str:
        """Return `name (users)`, letters, `tramp: trampoline (function)` and `->function`."""
        records = self._ftrace.records
        shown = records.flagged(Flag.ENABLED)
        if self._touched:
            shown = shown | records.flagged(Flag.TOUCHED)
        rows = np.flatnonzero(shown)
        lines, users = self._functions.lines(), records.users
        letters = np.where(records.flagged(Flag.REGS), " R", "").tolist()
        shared = self._arrow(self._ftrace.call_target)
        own = np.where(records.flagged(Flag.TRAMP_EN), records.table["tramp_en"], 0)
        ends = {each: self._trampoline(each) if each else shared for each in distinct(own).tolist()}
        return _text(
            [
                f"{lines[row]} ({users[row]}){letters[row]:<11}{ends[target]}"
                for row, target in zip(rows.tolist(), own[rows].tolist(), strict=True)
            ]
        )

    def _trampoline(self, address: int) -> str:
        """Return the end of the line of a site that calls the trampoline at `address`."""
        trampolines = self._ftrace.trampolines
        if trampolines is None:
            return ""
        return trampolines.text(address) + self._arrow(trampolines.calls(address))

    def _arrow(self, target: int | None) -> str:
        """Return `->function` for the function that a slot calls."""
        return "" if target is None else f" ->{self._ftrace.kallsyms.format(target)}"


class DynFtraceTotalInfo(File):
    """The number of records and the memory they take.

    The times are virtual: of turning the kernel's sites and those of all modules into nops. If
    ftraced finds the sites, the file has only the number of converted sites, as in 2008.
    """

    def __init__(self, ftrace: Ftrace) -> None:
        self._ftrace = ftrace

    def read(self) -> str:
        """Return records, pages and groups of pages; then the two update times."""
        ftrace = self._ftrace
        records = ftrace.records
        if ftrace.ftraced is not None:
            return f"{records.converted}\n"
        return (
            f"{len(records)} pages:{records.pages} groups: {records.groups}\n"
            f"ftrace boot update time = {ftrace.update_times.boot} (ns)\n"
            f"ftrace module total update time = {ftrace.update_times.modules} (ns)\n"
        )


class FtracedEnabled(File):
    """Whether ftraced turns the sites it finds into nops; the file of 2008."""

    mode = 0o644

    def __init__(self, ftraced: Ftraced) -> None:
        self._ftraced = ftraced

    def read(self) -> str:
        """Return `enabled`, `disabled`, or `suspended` while functions are traced."""
        if self._ftraced.stopped:
            return "disabled\n"
        return "suspended\n" if self._ftraced.suspended else "enabled\n"

    def write(self, text: str) -> None:
        """Accept `enable`, `disable`, 0 (disable) or another number; ENODEV if ftrace is off."""
        words = {"enable": True, "disable": False}
        word = text.strip()
        on = words[word] if word in words else boolean(text)
        if self._ftraced.off:
            raise TracefsError(errno.ENODEV)
        self._ftraced.stop(not on)


def _text(lines: Sequence[str]) -> str:
    return "\n".join([*lines, ""]) if lines else ""


def files(functions: FunctionTable) -> Mapping[str, Node]:
    """Return the files of this module by name."""
    ftraced = functions.ftrace.ftraced
    found = {} if ftraced is None else {"ftraced_enabled": FtracedEnabled(ftraced)}
    return {
        "available_filter_functions": AvailableFilterFunctions(functions),
        "available_filter_functions_addrs": AvailableFilterFunctionsAddrs(functions),
        "enabled_functions": EnabledFunctions(functions, touched=False),
        "touched_functions": EnabledFunctions(functions, touched=True),
        "dyn_ftrace_total_info": DynFtraceTotalInfo(functions.ftrace),
        **found,
    }
