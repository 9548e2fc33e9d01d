"""Events that a user defines: dynamic_events, and events/ with a switch for each.

A group has a directory while it has an event. Source: kernel/trace/trace_dynevent.c,
kernel/trace/trace_events.c; the files' formats in Documentation/trace/events.rst.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..facts import Facts
from ..trace.fprobe import FetchArg
from .array import TraceArray
from .fprobes import FprobeEvent, Fprobes
from .number import switch
from .tree import Directory, File, Node

_COMMON = (
    ("unsigned short", "common_type", 2),
    ("unsigned char", "common_flags", 1),
    ("unsigned char", "common_preempt_count", 1),
    ("int", "common_pid", 4),
)


class DynamicEvents(File):
    """The definitions; each line written makes one, or takes one away."""

    mode = 0o640

    def __init__(self, fprobes: Fprobes) -> None:
        self._fprobes = fprobes

    def read(self) -> str:
        """A definition a line."""
        return "".join(f"{event.fprobe.line}\n" for event in self._fprobes)

    def write(self, text: str) -> None:
        """Commands, one a line, up to the first that is refused."""
        for line in text.split("\n"):
            self._fprobes.command(line)

    def truncate(self) -> None:
        """Take all away."""
        self._fprobes.clear()


class Enable(File):
    """The switch of some events."""

    mode = 0o640

    def __init__(self, fprobes: Fprobes, events: Sequence[FprobeEvent]) -> None:
        self._fprobes = fprobes
        self._events = events

    def read(self) -> str:
        """1 for all on, 0 for none, X for some, ? where there is none."""
        states = {event.on for event in self._events}
        return "X\n" if len(states) > 1 else f"{int(states.pop())}\n" if states else "?\n"

    def write(self, text: str) -> None:
        """1 or 0."""
        on = switch(text)
        for event in self._events:
            self._fprobes.switch(event, on)


class Id(File):
    """The type of an event in the ring buffer."""

    def __init__(self, event: FprobeEvent) -> None:
        self._event = event

    def read(self) -> str:
        """The number."""
        return f"{self._event.number}\n"


class Format(File):
    """Where the fields of an event lie in the ring buffer, and how they are printed.

    An event holds all registers; its arguments are read off them.
    """

    def __init__(self, event: FprobeEvent, facts: Facts) -> None:
        self._event = event
        self._facts = facts

    def read(self) -> str:
        """The name, the number, the fields, the print format."""
        fprobe, long = self._event.fprobe, self._facts.pointer_size
        fields, offset = [], 0
        for kind, name, size in _COMMON:
            fields.append(_field(kind, name, offset, size, kind == "int"))
            offset += size
        fields.append("")
        registers = [register.name for register in self._facts.abi.pt_regs]
        for name in ("__probe_ip", "__parent_ip", *registers):
            fields.append(_field("unsigned long", name, offset, long, False))
            offset += long
        formats = [f" {arg.name}={_conversion(arg)}" for arg in fprobe.arguments]
        values = [_value(arg, registers[arg.row], 8 * long) for arg in fprobe.arguments]
        joined = ", ".join(["REC->__probe_ip", *values])
        return "\n".join(
            [
                *(f"name: {fprobe.event}", f"ID: {self._event.number}", "format:", *fields),
                *("", f'print fmt: "(%lx){"".join(formats)}", {joined}', ""),
            ]
        )


def _field(kind: str, name: str, offset: int, size: int, signed: bool) -> str:
    place = f"offset:{offset};\tsize:{size};\tsigned:{int(signed)};"
    return f"\tfield:{kind} {name};\t{place}"


def _conversion(argument: FetchArg) -> str:
    """printf's, as the kernel has it for the type."""
    if argument.kind not in _LETTERS:
        return "%pS"
    prefix = "0x" if argument.kind == "x" else ""
    return f"{prefix}%{'L' if argument.bits == 64 else ''}{_LETTERS[argument.kind]}"


_LETTERS = {"x": "x", "u": "u", "s": "d"}


def _value(argument: FetchArg, register: str, bits: int) -> str:
    """The argument in C, of an event REC."""
    if argument.kind not in _LETTERS:
        return f"(void *)REC->{register}"
    if argument.bits == bits and argument.kind != "s":
        return f"REC->{register}"
    return f"({'s' if argument.kind == 's' else 'u'}{argument.bits})REC->{register}"


class _Events(Directory):
    """A switch, and a directory of each group."""

    def __init__(self, array: TraceArray) -> None:
        super().__init__({})
        self._fprobes = array.fprobes
        self._facts = array.machine.port.facts

    @property
    def entries(self) -> Mapping[str, Node]:
        """As the definitions are now."""
        groups = sorted({event.fprobe.group for event in self._fprobes})
        return {
            "enable": Enable(self._fprobes, list(self._fprobes)),
            **{group: self._group(group) for group in groups},
        }

    def _group(self, group: str) -> Directory:
        events = [event for event in self._fprobes if event.fprobe.group == group]
        return Directory(
            {
                "enable": Enable(self._fprobes, events),
                **{
                    event.fprobe.event: Directory(
                        {
                            "enable": Enable(self._fprobes, [event]),
                            "format": Format(event, self._facts),
                            "id": Id(event),
                        }
                    )
                    for event in events
                },
            }
        )


def files(array: TraceArray) -> Mapping[str, Node]:
    """This file's files by name."""
    return {"dynamic_events": DynamicEvents(array.fprobes), "events": _Events(array)}
