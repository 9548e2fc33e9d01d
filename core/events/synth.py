"""Synthetic events: events that the actions of histograms generate from variables.

    NAME TYPE FIELD[;] …

Source: Documentation/trace/histogram.rst, __create_synth_event(), parse_synth_field() and
synth_event_define_fields() in kernel/trace/trace_events_synth.c, 6.1.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from dataclasses import dataclass

from ..abi import HIST_PARAMS_MAX, HIST_STRING, FilterKind
from .fields import COMMON_SIZE, Field

GROUP = "synthetic"
"""System of these events."""

SUBSYSTEM = "synthetic_events"
"""Name of the parser in error_log."""

BAD_NAME = "Illegal name"
INVALID_CMD = "Command must be of the form: <name> field[;field] ..."
INVALID_DYN_CMD = "Command must be of the form: s or -:[synthetic/]<name> field[;field] ..."
EVENT_EXISTS = "Event already exists"
_TOO_MANY_FIELDS = "Too many fields"
_INCOMPLETE_TYPE = "Incomplete type"
_INVALID_TYPE = "Invalid type"
_INVALID_FIELD = "Invalid field"
_INVALID_ARRAY_SPEC = "Invalid array specification"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

_FORMATS = {
    **dict.fromkeys(("s32", "s16", "s8", "char", "int", "bool", "pid_t"), "%d"),
    **dict.fromkeys(("u32", "u16", "u8", "unsigned char", "unsigned int"), "%u"),
    **{"s64": "%lld", "u64": "%llu", "long": "%ld", "unsigned long": "%lu", "gfp_t": "%x"},
}
_SIZES = {
    **dict.fromkeys(("s64", "u64"), 8),
    **dict.fromkeys(("s32", "u32", "int", "unsigned int", "pid_t", "gfp_t"), 4),
    **dict.fromkeys(("s16", "u16"), 2),
    **dict.fromkeys(("s8", "u8", "char", "unsigned char", "bool"), 1),
}


class SynthError(ValueError):
    """An invalid definition: the kernel's reason, and the text at which error_log points."""

    def __init__(self, reason: str, word: str = "", number: int = errno.EINVAL) -> None:
        super().__init__(reason)
        self.reason = reason
        self.word = word
        self.number = number


@dataclass(frozen=True, slots=True)
class SynthField:
    """A field: its type as written, with the length of an array, and its name."""

    ctype: str
    name: str
    size: int
    """Bytes of the number or string; 8 for `__data_loc`."""
    dynamic: bool = False
    """Whether its characters are at the end of the event."""

    @property
    def is_string(self) -> bool:
        """Whether it is a text."""
        return "char[" in self.ctype

    @property
    def is_stack(self) -> bool:
        """Whether it is a stack trace."""
        return "long[" in self.ctype

    @property
    def signed(self) -> bool:
        """Whether it is a signed number."""
        return not self.ctype.startswith("u") and self.ctype != "gfp_t"

    @property
    def kind(self) -> FilterKind:
        """Kind of the field in `struct synth_field`."""
        if not self.is_string and not self.is_stack:
            return FilterKind.NUMBER
        return FilterKind.DYN_STRING if self.dynamic else FilterKind.STRING

    @property
    def words(self) -> int:
        """Number of u64 that it takes in the event."""
        return HIST_STRING // 8 if self.kind is FilterKind.STRING else 1

    @property
    def conversion(self) -> str:
        """The printf conversion of its type."""
        return _FORMATS.get(self.ctype, "%s" if self.is_string or self.is_stack else "%llu")


@dataclass(frozen=True, slots=True)
class SynthEvent:
    """The definition of a synthetic event."""

    name: str
    synth_fields: tuple[SynthField, ...]

    @property
    def line(self) -> str:
        """The definition as the file synthetic_events lists it."""
        return (
            f"{self.name}\t{'; '.join(f'{each.ctype} {each.name}' for each in self.synth_fields)}"
        )

    @property
    def fields(self) -> tuple[Field, ...]:
        """Its fields, with their offsets in the event."""
        found, at = [], COMMON_SIZE
        for each in self.synth_fields:
            kind, bracket, length = each.ctype.partition("[")
            name = each.name + bracket + length
            if each.dynamic:
                kind, name = f"__data_loc {each.ctype}", each.name
            found.append(Field(kind, name, at, each.size, each.signed or each.dynamic))
            at += 8 * each.words
        return tuple(found)

    @property
    def print_fmt(self) -> str:
        """Its print format, as the file `format` shows it."""
        return self._print_fmt(", ")

    @property
    def shown_fmt(self) -> str:
        """Its print format in the trace (`print_synth_event`)."""
        return self._print_fmt(" ")

    def _print_fmt(self, between: str) -> str:
        text = between.join(f"{each.name}={each.conversion}" for each in self.synth_fields)
        values = [_value(each) for each in self.synth_fields]
        return f'"{text}"{"".join(f", {value}" for value in values)}'


def _value(field: SynthField) -> str:
    if not field.dynamic:
        return f"REC->{field.name}"
    return f"__get_{'str' if field.is_string else 'stacktrace'}({field.name})"


def check_command(text: str) -> None:
    """Refuse a definition without a field before its first semicolon. Raises `SynthError`."""
    first = text.partition(";")[0]
    if not first.startswith("!") and len(first.split()) < 3:
        raise SynthError(INVALID_CMD)


def parse_synth(name: str, text: str, long: int, taken: Callable[[str], bool]) -> SynthEvent:
    """Return the event `name` with the fields in `text`, if a long has `long` bytes.

    `taken` says if an event has the name. Raises `SynthError`.
    """
    if not name:
        raise SynthError(INVALID_CMD)
    if not _NAME.fullmatch(name):
        raise SynthError(BAD_NAME, name)
    if taken(name):
        raise SynthError(EVENT_EXISTS, name, errno.EEXIST)
    fields: list[SynthField] = []
    for part in text.split(";"):
        words = part.split()
        while words:
            field, words = _field(words, long)
            if len(fields) == HIST_PARAMS_MAX:
                raise SynthError(_TOO_MANY_FIELDS)
            fields.append(field)
    if not fields:
        raise SynthError(INVALID_CMD)
    return SynthEvent(name, tuple(fields))


def _field(words: list[str], long: int) -> tuple[SynthField, list[str]]:
    """Return the field at the start of `words`, and the words after it."""
    prefix, kind, rest = "", words[0], words[1:]
    if kind == "unsigned":
        if len(words) < 3:
            raise SynthError(_INCOMPLETE_TYPE, kind)
        prefix, kind, rest = "unsigned ", words[1], words[2:]
    if not rest:
        raise SynthError(_INVALID_FIELD, kind)
    declared, rest = rest[0], rest[1:]
    name, bracket, length = declared.partition("[")
    if not _NAME.fullmatch(name):
        raise SynthError(BAD_NAME, declared)
    ctype = f"{prefix}{kind}{bracket}{length}"
    size = _size(ctype, long)
    if size is None:
        raise (
            SynthError(_INVALID_ARRAY_SPEC, declared)
            if bracket
            else SynthError(_INVALID_TYPE, kind)
        )
    if not size and not ("char[" in ctype or "long[" in ctype):
        raise SynthError(_INVALID_TYPE, kind)
    return SynthField(ctype, name, size or 8, not size), rest


def _size(ctype: str, long: int) -> int | None:
    """Return the bytes of a type: 0 if unknown or of any length, None for an invalid array."""
    if ctype in ("long", "unsigned long"):
        return long
    if "char[" not in ctype:
        return _SIZES.get(ctype, 0)
    found = re.search(r"char\[([^\]]{0,3})\]$", ctype)
    if found is None:
        return None
    text = found[1]
    if not text:
        return 0
    if not re.fullmatch("0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*", text):
        return None
    size = int(text, 16 if "x" in text.lower() else 8 if text[0] == "0" else 10)
    return size if size <= HIST_STRING else None
