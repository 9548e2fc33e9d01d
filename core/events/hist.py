"""Histograms of events: their definition, and the text of their content.

    hist:keys=FIELD[.MOD][,…][:vals=FIELD[,…]][:sort=FIELD[.descending][,…]][:size=N]

A key can have a modifier: hex, sym, sym-offset, execname, syscall, log2, buckets=N or usecs.
Source: Documentation/trace/histogram.rst, hist_trigger_print_key() and hist_trigger_show() in
kernel/trace/trace_events_hist.c, 6.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..abi import HIST_KEY_SIZE, HIST_KEYS_MAX, HIST_STACK, HIST_VALS_MAX, FilterKind, HistKind
from .fields import Field
from .filter import find_field

HITCOUNT = "hitcount"
STACKTRACE = "stacktrace"
TIMESTAMP = "common_timestamp"

_LONGEST_STRING = 64
_DEFAULT_SIZE = 2048
_SIZES = (1 << 7, 1 << 17)
_MOST_SORT_KEYS = 2
_MODIFIERS = ("hex", "sym", "sym-offset", "execname", "syscall", "log2", "usecs")
_ALIASES = {"key": "keys", "val": "vals", "values": "vals"}


@dataclass(frozen=True, slots=True)
class HistField:
    """A key or a value."""

    name: str
    kind: FilterKind | HistKind
    offset: int = 0
    size: int = 8
    signed: bool = False
    modifier: str = ""
    buckets: int = 0
    """Size of a range; 0 without the modifier `buckets`."""

    @property
    def text(self) -> str:
        """The field as the definition shows it."""
        if self.buckets:
            return f"{self.name}.buckets={self.buckets}"
        return f"{self.name}.{self.modifier}" if self.modifier else self.name

    @property
    def is_string(self) -> bool:
        """Whether it is a text."""
        return self.kind in (FilterKind.STRING, FilterKind.DYN_STRING, FilterKind.COMM)

    @property
    def key_size(self) -> int:
        """Bytes in a key, a multiple of 8."""
        if self.kind == HistKind.STACK:
            return 8 * HIST_STACK
        if not self.is_string:
            return 8
        size = self.size if self.kind == FilterKind.STRING else _LONGEST_STRING
        size = 16 if self.kind == FilterKind.COMM else min(size, _LONGEST_STRING)
        return -(-size // 8) * 8


@dataclass(frozen=True, slots=True)
class Hist:
    """The definition of a histogram."""

    keys: tuple[HistField, ...]
    vals: tuple[HistField, ...] = ()
    """The values without the number of hits, which always comes first."""
    sort: tuple[tuple[str, bool], ...] = ((HITCOUNT, False),)
    """Names of keys or values, and whether the largest comes first."""
    size: int = _DEFAULT_SIZE
    action: str = field(default="", compare=False)
    """`pause`, `cont` or `clear`, if the definition says so."""

    @property
    def key_size(self) -> int:
        """Bytes of a whole key."""
        return sum(each.key_size for each in self.keys)

    @property
    def text(self) -> str:
        """The definition, as the file `trigger` shows it."""
        keys = ",".join(each.text for each in self.keys)
        vals = ",".join([HITCOUNT, *(each.text for each in self.vals)])
        sort = ",".join(f"{name}{'.descending' if down else ''}" for name, down in self.sort)
        return f"hist:keys={keys}:vals={vals}:sort={sort}:size={self.size}"


def parse_hist(text: str, fields: Sequence[Field]) -> Hist:
    """Parse what follows `hist:`. Raises `ValueError` with the reason."""
    attributes: dict[str, str] = {}
    action = ""
    for part in text.split(":"):
        name, equals, value = part.partition("=")
        name = _ALIASES.get(name, name)
        if part in ("pause", "cont", "continue", "clear"):
            action = "cont" if part == "continue" else part
        elif equals and value and name in ("keys", "vals", "sort", "size"):
            attributes[name] = value
        else:
            raise ValueError(f"unknown part of a histogram: {part or 'nothing'}")
    if "keys" not in attributes:
        raise ValueError("a histogram needs keys=")
    keys = tuple(_field(word, fields, True) for word in attributes["keys"].split(","))
    if len(keys) > HIST_KEYS_MAX:
        raise ValueError(f"a histogram has at most {HIST_KEYS_MAX} keys")
    words = attributes.get("vals", HITCOUNT).split(",")
    vals = tuple(_field(word, fields, False) for word in words if word != HITCOUNT)
    if len(vals) >= HIST_VALS_MAX:
        raise ValueError(f"a histogram has less than {HIST_VALS_MAX} values")
    known = {HITCOUNT, *(each.name for each in (*keys, *vals))}
    sort = tuple(_sort_key(word, known) for word in attributes.get("sort", HITCOUNT).split(","))
    if len(sort) > _MOST_SORT_KEYS:
        raise ValueError(f"a histogram has at most {_MOST_SORT_KEYS} sort keys")
    hist = Hist(keys, vals, sort, _size(attributes.get("size")), action)
    if hist.key_size > HIST_KEY_SIZE:
        raise ValueError("the keys of a histogram are too long")
    return hist


def _size(word: str | None) -> int:
    if word is None:
        return _DEFAULT_SIZE
    if not re.fullmatch("[0-9]{1,9}", word) or not _SIZES[0] <= int(word) <= _SIZES[1]:
        raise ValueError(f"the size of a histogram is {_SIZES[0]} to {_SIZES[1]}")
    return 1 << (int(word) - 1).bit_length()


def _sort_key(word: str, known: set[str]) -> tuple[str, bool]:
    name, _, order = word.partition(".")
    if name not in known or order not in ("", "ascending", "descending"):
        raise ValueError(f"a histogram cannot be sorted by {word}")
    return name, order == "descending"


def _field(word: str, fields: Sequence[Field], key: bool) -> HistField:
    name, _, modifier = word.partition(".")
    buckets = 0
    if modifier.startswith(("buckets=", "bucket=")):
        number = modifier.partition("=")[2]
        buckets = int(number) if re.fullmatch("[0-9]{1,9}", number) else 0
        if not buckets:
            raise ValueError(f"buckets need a size: {word}")
        modifier = "buckets"
    elif modifier and modifier not in _MODIFIERS:
        raise ValueError(f"unknown modifier: {word}")
    if not key and modifier not in ("", "hex"):
        raise ValueError(f"only keys have the modifier of {word}")
    if name == STACKTRACE and key:
        return HistField(name, HistKind.STACK)
    if name == TIMESTAMP:
        return HistField(name, HistKind.TIMESTAMP, modifier=modifier, buckets=buckets)
    found = find_field(name, fields)
    if found is None:
        raise ValueError(f"Couldn't find field: {name}")
    if not isinstance(found, Field):
        made = HistField(name, found, modifier=modifier, buckets=buckets)
    else:
        kind = FilterKind.NUMBER
        if found.is_string:
            kind = FilterKind.DYN_STRING if found.dynamic else FilterKind.STRING
        place = (found.offset, found.size, found.signed)
        made = HistField(name, kind, *place, modifier=modifier, buckets=buckets)
    if made.is_string and (modifier or not key):
        raise ValueError(f"a string has no modifier and is no value: {word}")
    if made.kind == FilterKind.NUMBER and made.size not in (1, 2, 4, 8):
        raise ValueError(f"an array is no key and no value: {word}")
    return made


@dataclass(frozen=True, slots=True)
class Row:
    """An entry: its keys, and its values with the number of hits first."""

    keys: tuple[int | str | tuple[int, ...], ...]
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Content:
    """What a histogram has counted."""

    rows: Sequence[Row]
    hits: int
    drops: int
    paused: bool


@dataclass(frozen=True, slots=True)
class Names:
    """Names for the modifiers."""

    symbol: Callable[[int, bool], str]
    """Of an address, with its offset if the second argument is true."""
    comms: Mapping[int, str]
    """Of tasks by pid."""
    syscalls: Mapping[int, str]
    """Of system calls by number."""


def hist_text(hist: Hist, line: str, content: Content, names: Names) -> Iterator[str]:
    """Yield the file `hist` of one histogram; `line` is its line of the file `trigger`."""
    yield f"# event histogram\n#\n# trigger info: {line}\n#\n\n"
    for row in _sorted(hist, content.rows):
        pairs = zip(hist.keys, row.keys, strict=True)
        keys = ", ".join(_key_text(key, value, names) for key, value in pairs)
        end = "" if hist.keys[-1].kind == HistKind.STACK else " "
        yield f"{{ {keys}{end}}} hitcount: {row.values[0]:10d}"
        for each, value in zip(hist.vals, row.values[1:], strict=True):
            yield f"  {each.name}: {value:10{'x' if each.modifier == 'hex' else 'd'}}"
        yield "\n"
    yield f"\nTotals:\n    Hits: {content.hits}\n    Entries: {len(content.rows)}\n"
    yield f"    Dropped: {content.drops}\n"


def _sorted(hist: Hist, rows: Sequence[Row]) -> list[Row]:
    """Return the rows in order; those that are equal by their keys."""
    ordered = sorted(rows, key=lambda row: row.keys)
    keys = [each.name for each in hist.keys]
    values = [HITCOUNT, *(each.name for each in hist.vals)]
    for name, down in reversed(hist.sort):
        if name in values:
            column = values.index(name)
            ordered.sort(key=lambda row, at=column: row.values[at], reverse=down)  # type: ignore[misc]
        else:
            column = keys.index(name)
            ordered.sort(key=lambda row, at=column: row.keys[at], reverse=down)  # type: ignore[misc]
    return ordered


def _key_text(key: HistField, value: int | str | tuple[int, ...], names: Names) -> str:
    if isinstance(value, tuple):
        calls = "".join(f"{'':17}{names.symbol(call, True)}\n" for call in value if call)
        return f"{key.name}:\n{calls}"
    if isinstance(value, str):
        return f"{key.name}: {value:<50}"
    match key.modifier:
        case "hex":
            shown = f"{value:x}"
        case "sym":
            shown = f"[{value:x}] {names.symbol(value, False):<45}"
        case "sym-offset":
            shown = f"[{value:x}] {names.symbol(value, True):<55}"
        case "execname":
            shown = f"{names.comms.get(value, '<...>') if value else '<idle>':<16}[{value:10d}]"
        case "syscall":
            shown = f"{names.syscalls.get(value, 'unknown_syscall'):<30}[{value:3d}]"
        case "log2":
            shown = f"~ 2^{value:<2d}"
        case "buckets":
            shown = f"~ {value}-{value + key.buckets - 1}"
        case "usecs":
            shown = f"{value // 1000:10d}"
        case _:
            shown = f"{value:10d}"
    return f"{key.name}: {shown}"
