"""Events of fprobes: their definitions, and the text of a hit.

    f[:[GRP/][EVENT]] SYM [[NAME=]FETCHARG[:TYPE]]...

By default the group is `fprobes` and the event `SYM__entry`. A FETCHARG is `$argN`, the
register of argument N, counted from 1, or `%REG`, a register by its name in the ABI. A TYPE
is u8 to u64, s8 to s64, x8 to x64 (hexadecimal; the width of a long is the default), or
`symbol`.

The kernel has more kinds of arguments and types, and allows `%REG` only for kprobes.
Anything else is refused with a message of the kernel's error_log. Source:
Documentation/trace/fprobetrace.rst, kernel/trace/trace_probe.h and trace_fprobe.c, 6.5.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import CommandError
from ..facts import Abi

GROUP = "fprobes"
"""Group of events whose definition names none."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_GROUP_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_HEAD = re.compile(r"f(?P<active>\d*)(?::(?:(?P<group>[^/]*)/)?(?P<event>[^/]*))?")
_TYPE = re.compile(r"(?P<kind>[xus])(?P<bits>8|16|32|64)")
_SYMBOL = "symbol"
_LETTERS = {"x": "x", "u": "u", "s": "d"}
_MOST_ARGUMENTS = 128
_NAME_LENGTH, _ARGUMENT_LENGTH = 64, 32
_RESERVED = {
    *("common_type", "common_flags", "common_preempt_count", "common_pid"),
    *("common_tgid", "__probe_ip", "__probe_ret_ip", "__probe_func"),
}


@dataclass(frozen=True, slots=True)
class FetchArg:
    """An argument of an event: a value to fetch and its format."""

    name: str
    fetch: str
    """Source and type of the value, as written in the definition."""
    row: int
    """Row of the register in `Abi.pt_regs`."""
    kind: str
    """Format of the value: `x`, `u`, `s` or `symbol`."""
    bits: int

    def text(self, registers: Sequence[int], format_address: Callable[[int], str]) -> str:
        """Return the text of the value, given all registers of a hit."""
        value = registers[self.row] & ((1 << self.bits) - 1)
        if self.kind == _SYMBOL:
            return format_address(value)
        if self.kind == "x":
            return f"0x{value:x}"
        return str(
            value - (1 << self.bits) if self.kind == "s" and value >> self.bits - 1 else value
        )

    @property
    def conversion(self) -> str:
        """The printf conversion that the kernel uses for the type."""
        if self.kind not in _LETTERS:
            return "%pS"
        prefix = "0x" if self.kind == "x" else ""
        return f"{prefix}%{'L' if self.bits == 64 else ''}{_LETTERS[self.kind]}"

    def expression(self, register: str, bits: int) -> str:
        """Return the value as C, for an event REC whose `register` has `bits` bits."""
        if self.kind not in _LETTERS:
            return f"(void *)REC->{register}"
        if self.bits == bits and self.kind != "s":
            return f"REC->{register}"
        return f"({'s' if self.kind == 's' else 'u'}{self.bits})REC->{register}"


@dataclass(frozen=True, slots=True)
class Fprobe:
    """The definition of an event at the entry of a function."""

    group: str
    event: str
    symbol: str
    arguments: tuple[FetchArg, ...] = ()

    @property
    def name(self) -> str:
        """Group and event, separated by a slash."""
        return f"{self.group}/{self.event}"

    @property
    def line(self) -> str:
        """The definition as the file dynamic_events lists it."""
        arguments = [f" {each.name}={each.fetch}" for each in self.arguments]
        return f"f:{self.name} {self.symbol}{''.join(arguments)}"

    def values(
        self, place: str, registers: Sequence[int], format_address: Callable[[int], str]
    ) -> str:
        """Return the text of a hit at `place`, which follows the event's name in its row."""
        values = [f" {arg.name}={arg.text(registers, format_address)}" for arg in self.arguments]
        return f" ({place}){''.join(values)}"

    def print_fmt(self, registers: Sequence[str], bits: int) -> str:
        """Return the C code that prints an event REC with `registers` of `bits` bits."""
        formats = [f" {arg.name}={arg.conversion}" for arg in self.arguments]
        values = [arg.expression(registers[arg.row], bits) for arg in self.arguments]
        joined = ", ".join(["REC->__probe_ip", *values])
        return f'"(%lx){"".join(formats)}", {joined}'


def parse(words: Sequence[str], abi: Abi, pointer_size: int) -> Fprobe:
    """Parse a definition. Raises `TracefsError` (EINVAL) with the reason."""
    head = _HEAD.fullmatch(words[0])
    if head is None:
        raise refused("Invalid probe type", words[0])
    if head["active"]:
        raise refused("Max active is only for return probes", words[0])
    if len(words) < 2:
        raise refused("Probe point is not specified", words[0])
    symbol = words[1]
    if symbol.endswith("%return"):
        raise refused("Return probes are not known here", symbol, index=1)
    group, event = _names(head["group"], head["event"], words[0])
    if not event:
        event = re.sub(r"\W", "_", f"{symbol}__entry", flags=re.ASCII)
    if len(event) >= _NAME_LENGTH:
        raise refused("Event name is too long", event)
    if not _NAME.fullmatch(event):
        raise refused("Event name must follow the same rules as C identifiers", event)
    if len(words) - 2 > _MOST_ARGUMENTS:
        raise refused(
            "Too many arguments are specified",
            words[2 + _MOST_ARGUMENTS],
            index=2 + _MOST_ARGUMENTS,
        )
    arguments: list[FetchArg] = []
    for number, word in enumerate(words[2:], 1):
        argument = _argument(word, number, abi, pointer_size)
        if argument.name in _RESERVED or argument.name in {each.name for each in arguments}:
            raise refused("This argument name is already used", argument.name, index=number + 1)
        arguments.append(argument)
    return Fprobe(group, event, symbol, tuple(arguments))


def _names(group: str | None, event: str | None, word: str) -> tuple[str, str]:
    """Return group and event of a definition; the event may be empty."""
    if group is None:
        return GROUP, event or ""
    if not group:
        raise refused("Group name is not specified", word)
    if len(group) >= _NAME_LENGTH:
        raise refused("Group name is too long", group)
    if not _GROUP_NAME.fullmatch(group):
        raise refused("Group name must follow the same rules as C identifiers", group)
    return group, event or ""


def _argument(word: str, number: int, abi: Abi, pointer_size: int) -> FetchArg:
    name, equals, fetch = word.partition("=")
    index = number + 1
    if not equals:
        name, fetch = f"arg{number}", word
    if not _NAME.fullmatch(name):
        raise refused(
            "Argument name must follow the same rules as C identifiers", word, index=index
        )
    if len(name) >= _ARGUMENT_LENGTH:
        raise refused("Argument name is too long", name, index=index)
    if not fetch:
        raise refused("No argument expression", word, index=index)
    source, colon, type_name = fetch.partition(":")
    kind, bits = "x", 8 * pointer_size
    if colon:
        match = _TYPE.fullmatch(type_name)
        if match is None and type_name != _SYMBOL:
            raise refused("Unknown type is specified", fetch, index=index)
        kind, bits = (_SYMBOL, bits) if match is None else (match["kind"], int(match["bits"]))
    return FetchArg(name, fetch, _register(source, abi, index), kind, bits)


def _register(source: str, abi: Abi, index: int) -> int:
    """Return the row of `pt_regs` that `source` names."""
    names = [register.name for register in abi.pt_regs]
    if source[:1] == "%":
        if source[1:] not in names:
            raise refused("Invalid register name", source, index=index)
        return names.index(source[1:])
    if source[:1] != "$":
        raise refused("Invalid fetch argument", source, index=index)
    match = re.fullmatch(r"\$arg(?P<number>[0-9]{1,9})", source, re.ASCII)
    if match is None:
        raise refused("Invalid $-variable specified", source, index=index)
    number = int(match["number"])
    if not 1 <= number <= len(abi.arguments):
        raise refused(
            f"Only the first {len(abi.arguments)} arguments come in registers", source, index=index
        )
    return names.index(abi.arguments[number - 1].name)


def refused(reason: str, word: str, number: int = errno.EINVAL, *, index: int = 0) -> CommandError:
    """Return an error with the kernel's reason; `word`, in word `index`, caused it."""
    return CommandError(number, reason, word, index)
