"""The system calls of a guest: their names and arguments, and the text of their events.

The kernel's symbol `syscalls_metadata` is an array of pointers to `struct
syscall_metadata`, indexed by the number of the system call and terminated by a null pointer
(arches/guest/include/tracepoint.h). The array is not trusted: an invalid entry is ignored,
so that its call has no events.
Source: kernel/trace/trace_syscalls.c, include/trace/syscall.h.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import abi
from ..errors import MemoryFault
from ..machine.memory import Memory

PREFIX = "sys_"

_NAME = re.compile(r"sys_[A-Za-z0-9_]{1,48}", re.ASCII)
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}", re.ASCII)
_TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_ *]{0,47}", re.ASCII)
_WIDTH = "%08lx"
_LONGEST = 64
"""Maximum bytes of a string, including its zero byte."""


@dataclass(frozen=True, slots=True)
class Syscall:
    """A system call."""

    nr: int
    name: str
    """Name, including `sys_`."""
    arguments: tuple[tuple[str, str], ...] = ()
    """C type and name of each argument."""


@dataclass(frozen=True, slots=True)
class SyscallEvent:
    """The entry of a system call, or its exit."""

    syscall: Syscall
    exit: bool
    number: int
    """Type of the events in the ring buffer."""

    @property
    def name(self) -> str:
        """Name of the event."""
        side = "exit" if self.exit else "enter"
        return f"{PREFIX}{side}_{self.syscall.name.removeprefix(PREFIX)}"

    @property
    def values(self) -> int:
        """Number of longs in an event: the arguments, or the return value."""
        return 1 if self.exit else len(self.syscall.arguments)

    def text(self, values: Sequence[int], verbose: bool = False) -> str:
        """Return the text that follows the call's name in its row.

        With `verbose`, arguments have their types.
        """
        if self.exit:
            return f" -> 0x{values[0]:x}"
        arguments = [
            f"{kind + ' ' if verbose else ''}{name}: {value:x}"
            for (kind, name), value in zip(self.syscall.arguments, values, strict=False)
        ]
        return f"({', '.join(arguments)})"

    @property
    def print_fmt(self) -> str:
        """C code that prints the fields of an event REC."""
        if self.exit:
            return '"0x%lx", REC->ret'
        names = [name for _, name in self.syscall.arguments]
        formats = ", ".join(f"{name}: 0x{_WIDTH}" for name in names)
        return f'"{formats}"' + "".join(f", ((unsigned long)(REC->{name}))" for name in names)


def events_of(syscalls: Sequence[Syscall]) -> tuple[SyscallEvent, ...]:
    """Return both events of each system call; their types depend only on the call's number."""
    return tuple(
        SyscallEvent(call, leaves, abi.FIRST_SYSCALL_ID + 2 * call.nr + leaves)
        for call in syscalls
        for leaves in (False, True)
    )


def read_syscalls(memory: Memory, table: int) -> tuple[Syscall, ...]:
    """Return the calls in the table at address `table` with valid entries and distinct names."""
    found: dict[str, Syscall] = {}
    layout = abi.syscall_metadata(memory.byteorder, memory.pointer_size)
    for nr in range(abi.SYSCALLS_MAX):
        try:
            entry = memory.read_int(table + nr * memory.pointer_size)
            if not entry:
                break
            row = np.frombuffer(memory.read(entry, layout.itemsize), layout)[0]
        except MemoryFault:
            continue
        call = _syscall(memory, nr, row)
        if call is not None:
            found.setdefault(call.name, call)
    return tuple(found.values())


def _syscall(memory: Memory, nr: int, row: np.void) -> Syscall | None:
    """Return the call that an entry describes, or None if the entry is invalid."""
    count = int(row["nb_args"])
    if not 0 <= count <= abi.SYSCALL_ARGS_MAX:
        return None
    name = _string(memory, int(row["name"]), _NAME)
    types = [_string(memory, int(at), _TYPE) for at in row["types"][:count]]
    names = [_string(memory, int(at), _ARGUMENT) for at in row["args"][:count]]
    arguments = [(kind, each) for kind, each in zip(types, names, strict=True) if kind and each]
    if name is None or len(arguments) != count or len(set(names)) != count:
        return None
    return Syscall(nr, name, tuple(arguments))


def _string(memory: Memory, address: int, pattern: re.Pattern[str]) -> str | None:
    """Return the string at `address` if it matches `pattern`, or None."""
    region = memory.region_at(address)
    if region is None:
        return None
    raw = memory.read(address, min(_LONGEST, region.end - address))
    text, end, _ = raw.partition(b"\0")
    string = text.decode("ascii", "replace")
    return string if end and pattern.fullmatch(string) else None
