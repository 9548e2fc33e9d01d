"""Arguments of probe events: their syntax, and the steps by which the guest fetches them.

    [NAME=]FETCHARG[:TYPE]

    %REG  $stackN  $stack  $retval  $comm  $argN  @ADDR  @SYM[+|-OFFS]  +|-[u]OFFS(FETCHARG)
    \\IMM  \\"STRING"; in event probes $FIELD

A TYPE is u8 to u64, s8 to s64, x8 to x64, symbol, string, ustring, or a bit field
b<width>@<offset>/<container>; `[N]` after a type makes an array of values in memory. The guest has
one address space, so user memory is read like kernel memory. Errors and their positions are the
kernel's. Source: kernel/trace/trace_probe.c, 6.1.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..abi import PROBE_EVENT_SIZE, THREAD_SIZE, FetchOp
from .fields import Field
from .printfmt import PROBE_STRING

_MOST_CHARACTERS = 63
_MOST_NAME = 32
_MOST_ELEMENTS = 64
_MOST_STEPS = 15
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NUMBER = re.compile(r"(?P<sign>[+-]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|(?P<digits>[0-9]+))", re.ASCII)
_BITFIELD = re.compile(r"b(?P<width>\w+)@(?P<offset>\w+)/(?P<container>\w+)", re.ASCII)
_RESERVED = {
    *("common_type", "common_flags", "common_preempt_count", "common_pid"),
    *("common_tgid", "__probe_ip", "__probe_ret_ip", "__probe_func"),
}


class FetchError(ValueError):
    """An invalid argument: the kernel's `reason`, and its position in the word."""

    def __init__(self, reason: str, at: int, number: int = errno.EINVAL) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at
        self.errno = number


@dataclass(frozen=True, slots=True)
class FetchType:
    """A type of arguments."""

    name: str
    kind: str
    """Its C type in the file `format`."""
    size: int
    conversion: str
    """Conversion of printk."""
    signed: bool = False

    @property
    def is_string(self) -> bool:
        """Whether the event has only the location of the characters, which are at its end."""
        return self.kind.startswith("__data_loc")


def _types() -> Iterator[FetchType]:
    for name in ("string", "ustring"):
        yield FetchType(name, "__data_loc char[]", 4, '\\"%s\\"', True)
    for size in (1, 2, 4, 8):
        bits, long = 8 * size, "L" if size == 8 else ""
        yield FetchType(f"u{bits}", f"u{bits}", size, f"%{long}u")
        yield FetchType(f"s{bits}", f"s{bits}", size, f"%{long}d", True)
        yield FetchType(f"x{bits}", f"u{bits}", size, f"0x%{long}x")


_TYPES = {each.name: each for each in _types()}


@dataclass(frozen=True, slots=True)
class Step:
    """A step before the value is stored."""

    op: FetchOp
    value: int = 0
    symbol: str = ""
    """Symbol of the value, with an offset; looked up when the probe is registered."""
    data: bytes = b""
    """A string whose address is the value."""
    name: str = ""
    """Name of a field."""


@dataclass(frozen=True, slots=True)
class Source:
    """The sources from which the arguments of a probe can be fetched."""

    pointer_size: int
    registers: Mapping[str, int] = field(default_factory=dict)
    """Numbers in struct pt_regs, by name."""
    arguments: tuple[int, ...] = ()
    """Numbers of the registers with the arguments of a call."""
    pushed: bool = False
    """Whether a call pushes the return address; other arguments are above it."""
    entry: bool = False
    """Whether the probe is at the entry of a function."""
    returns: bool = False
    """Whether the probe is at the return of a function."""
    fields: Mapping[str, Field] | None = None
    """Fields of the attached event, for an event probe."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument."""

    name: str
    text: str
    """FETCHARG and TYPE, as written."""
    type: FetchType
    offset: int
    """Offset in the arguments of the event, in bytes."""
    long: int
    """Size of a pointer in bytes."""
    steps: tuple[Step, ...]
    store: FetchOp
    at: int = 0
    """Offset to add to the address when the value is stored from memory."""
    count: int = 0
    """Elements of an array, else 0."""
    shift: int | None = None
    """Shift of a bit field, as in `fetch_insn.shift`; None for other types."""

    @property
    def size(self) -> int:
        """Bytes in the event, without strings."""
        return self.type.size * max(self.count, 1)

    def field(self, head: int) -> Field:
        """Return its field in an event whose arguments begin at `head`."""
        name = f"{self.name}[{self.count}]" if self.count else self.name
        return Field(self.type.kind, name, head + self.offset, self.size, self.type.signed)

    @property
    def conversion(self) -> str:
        """Its part of a format string."""
        if not self.count:
            return self.type.conversion
        return "{" + ",".join([self.type.conversion] * self.count) + "}"

    def values(self, string: str = "__get_str") -> list[str]:
        """Return C code of its values; `string` is the function for strings."""
        if self.type.is_string:
            separator = "[{}]" if string == "__get_str" else ", {}"
            numbers = [separator.format(row) for row in range(self.count)] or [""]
            return [f"{string}({self.name}{number})" for number in numbers]
        if self.count:
            return [f"REC->{self.name}[{row}]" for row in range(self.count)]
        return [f"REC->{self.name}"]

    def same_type(self, other: Argument) -> bool:
        """Return whether both have the same name, type and length."""
        mine, theirs = ((each.name, each.type, each.count) for each in (self, other))
        return mine == theirs

    def compiled(
        self, head: int, address: Callable[[str], int], place: Callable[[bytes], int]
    ) -> Iterator[tuple[int, ...]]:
        """Yield the rows of `fetch_insn`.

        `address` finds a symbol, `place` stores a string in the guest.
        """
        dest = head + self.offset
        size, last = self.type.size, self.steps[-1]
        if self.store == FetchOp.ST_STRING and self.count and last.op == FetchOp.DEREF:
            for row in range(self.count):
                moved = Step(FetchOp.DEREF, last.value + row * self.long)
                yield from self._load((*self.steps[:-1], moved), address, place)
                yield (FetchOp.ST_STRING, 4, dest + 4 * row, 0, 0)
            return
        yield from self._load(self.steps, address, place)
        for row in range(max(self.count, 1)):
            at = (self.at + row * size) % (1 << 64)
            yield (self.store, size, dest + row * size, 0, at)
            if self.shift is not None:
                yield (FetchOp.MOD_BF, size, dest + row * size, self.shift, 0)

    def _load(
        self,
        steps: Iterable[Step],
        address: Callable[[str], int],
        place: Callable[[bytes], int],
    ) -> Iterator[tuple[int, ...]]:
        yield (FetchOp.ARG, 0, 0, 0, 0)
        for step in steps:
            value, size, signed = step.value, 0, 0
            if step.symbol:
                value = address(step.symbol)
            elif step.data:
                value = place(step.data)
            if step.op == FetchOp.FIELD:
                size, signed, value = value >> 32, value >> 31 & 1, value & 0x7FFF_FFFF
            yield (step.op, size, 0, signed, value % (1 << 64))


def number(text: str, bits: int = 64, signed: bool = False) -> int | None:
    """Return a number as kstrtoul and kstrtol with base 0 read it; None if it is not one."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    digits = match["digits"]
    if digits is None:
        value = int(match["hex"], 16)
    elif digits.startswith("0") and len(digits) > 1:
        if not re.fullmatch("[0-7]+", digits):
            return None
        value = int(digits, 8)
    else:
        value = int(digits)
    if match["sign"] == "-":
        value = -value
    low, high = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
    return value if low <= value < high else None


def split_symbol(text: str) -> tuple[str, int] | None:
    """Split `SYM+OFFS` or `SYM-OFFS`; None if the offset is not a number."""
    found = re.search(r"[+-]", text)
    if found is None:
        return text, 0
    offset = number(text[found.start() :], signed=True)
    return None if offset is None else (text[: found.start()], offset)


def parse_argument(word: str, before: Sequence[Argument], source: Source) -> Argument:
    """Parse the argument that follows those in `before`. Raises `FetchError`."""
    used = before[-1].offset + before[-1].size if before else 0
    name, equals, body = word.partition("=")
    if equals:
        if len(name) > _MOST_NAME - 1:
            raise FetchError("Argument name is too long", 0)
        if not name:
            raise FetchError("Argument name is not specified", 0)
    else:
        name, body = f"arg{len(before) + 1}", word
    if not _NAME.fullmatch(name):
        raise FetchError("Argument name must follow the same rules as C identifiers", 0)
    if name in _RESERVED or any(name == each.name for each in before):
        raise FetchError("This argument name is already used", 0)
    return _parse_body(name, body, len(word) - len(body), used, source)


def _parse_body(name: str, body: str, at: int, used: int, source: Source) -> Argument:
    if len(body) > _MOST_CHARACTERS:
        raise FetchError("Argument expression is too long", at)
    if not body:
        raise FetchError("No argument expression", at)
    text, colon, type_text = body.partition(":")
    type_at = at + len(text) + 1 if colon else at
    type_name, elements = _array(type_text, type_at) if colon else (None, 0)
    event_probe = source.fields is not None
    if not event_probe and (text in ("$comm", "$COMM") or text.startswith('\\"')):
        if elements or type_name not in (None, "string"):
            raise FetchError("Unknown type is specified", type_at)
        type_name = "string"
    kind = _type(type_name, source.pointer_size)
    if kind is None:
        raise FetchError("Unknown type is specified", type_at)
    align = min(kind.size, source.pointer_size)
    offset = -(-used // align) * align  # the guest reads no unaligned field
    if offset + kind.size * max(elements, 1) > PROBE_EVENT_SIZE:
        raise FetchError("Event too big (too many fields?)", at, errno.E2BIG)
    steps = _Parser(source).steps(text, at)
    store, where = FetchOp.ST_RAW, 0
    last = steps[-1].op
    if kind.is_string:
        if last not in _STRINGS:
            raise FetchError("String accepts only memory argument", type_at)
        store = FetchOp.ST_STRING
        if last == FetchOp.DEREF and not elements:
            where = steps.pop().value
    elif last == FetchOp.DEREF:
        store, where = FetchOp.ST_MEM, steps.pop().value
    shift = None if type_name is None else _bitfield(type_name, kind, type_at)
    if elements and store == FetchOp.ST_RAW:
        raise FetchError("String accepts only memory argument", type_at)
    long = source.pointer_size
    return Argument(name, body, kind, offset, long, tuple(steps), store, where, elements, shift)


_STRINGS = (
    *(FetchOp.DEREF, FetchOp.IMM, FetchOp.COMM),
    *(FetchOp.FIELD, FetchOp.FIELD_AT, FetchOp.FIELD_DYN),
)
"""Last steps whose value can be the address of a string."""


def _array(text: str, at: int) -> tuple[str, int]:
    """Split a type and the number of its elements, 0 for no array."""
    name, bracket, rest = text.partition("[")
    if not bracket:
        return text, 0
    count, close, after = rest.partition("]")
    at += len(name) + 1
    if not close:
        raise FetchError("Array is not closed", at + len(rest))
    if after:
        raise FetchError("Array has wrong suffix", at + len(count) + 1)
    elements = number(count, 32)
    if not elements:
        raise FetchError("Invalid array size", at)
    if elements > _MOST_ELEMENTS:
        raise FetchError("Array number is too big", at)
    return name, elements


def _type(name: str | None, pointer_size: int) -> FetchType | None:
    """Return the type `name`, by default a long in hexadecimal; None if it does not exist."""
    bits = 8 * pointer_size
    if name is None:
        return _TYPES[f"x{bits}"]
    if name == "symbol":
        return FetchType("symbol", f"u{bits}", pointer_size, "%pS")
    if name.startswith("b"):
        container = number(name.partition("/")[2])
        return _TYPES.get(f"u{container}") if container else None
    return _TYPES.get(name)


def _bitfield(name: str, kind: FetchType, at: int) -> int | None:
    """Return the shift of a bit field; None for another type."""
    if not name.startswith("b"):
        return None
    match = _BITFIELD.fullmatch(name)
    width, offset = (number(match[each]) for each in ("width", "offset")) if match else (0, 0)
    if not width or offset is None or width + offset > 8 * kind.size:
        raise FetchError("Invalid bitfield", at)
    return (8 * kind.size - width - offset) << 8 | (8 * kind.size - width)


class _Parser:
    """Parses the fetching part of one argument."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._steps: list[Step] = []
        self._used = 0

    def steps(self, text: str, at: int) -> list[Step]:
        """Return the steps. Raises `FetchError`."""
        self._parse(text, at)
        return self._steps

    def _add(self, step: Step) -> None:
        self._steps.append(step)

    def _count(self, at: int, more: int = 1) -> None:
        self._used += more
        if self._used >= _MOST_STEPS:
            raise FetchError("Dereference is too much nested", at)

    def _parse(self, text: str, at: int) -> None:
        first = text[:1]
        if first == "$":
            self._variable(text[1:], at)
        elif first == "%" and self._source.fields is None:
            row = self._source.registers.get(text[1:])
            if row is None:
                raise FetchError("Invalid register name", at)
            if self._source.returns:
                reason = "Registers are not known at returns, only $retval and $stack"
                raise FetchError(reason, at, errno.EOPNOTSUPP)
            self._add(Step(FetchOp.REG, row))
        elif first == "@":
            self._memory(text[1:], at)
        elif first and first in "+-":
            self._dereference(text, at)
        elif first == "\\":
            self._immediate(text[1:], at)
        else:
            raise FetchError("Invalid fetch argument", at)

    def _variable(self, name: str, at: int) -> None:
        source = self._source
        if source.fields is not None:
            self._field(name, at)
        elif name == "retval":
            if not source.returns:
                raise FetchError("$retval is not available on probe", at)
            self._add(Step(FetchOp.RETVAL))
        elif name == "stack":
            self._add(Step(FetchOp.STACKP))
        elif match := re.fullmatch(r"stack([0-9]{1,19})", name, re.ASCII):
            if int(match[1]) > THREAD_SIZE // source.pointer_size:
                raise FetchError("Invalid stack number", at)
            self._add(Step(FetchOp.STACK, int(match[1])))
        elif name in ("comm", "COMM"):
            self._add(Step(FetchOp.COMM))
        elif source.entry and not source.returns and name.startswith("arg"):
            self._argument(name[3:], at)
        else:
            raise FetchError("Invalid $-variable specified", at)

    def _argument(self, text: str, at: int) -> None:
        source = self._source
        if not re.fullmatch("[0-9]{1,19}", text, re.ASCII):
            raise FetchError("Invalid $-variable specified", at)
        row = int(text) - 1
        if not 0 <= row < THREAD_SIZE // source.pointer_size:
            raise FetchError("Invalid argument number", at)
        if row < len(source.arguments):
            self._add(Step(FetchOp.REG, source.arguments[row]))
        elif source.pushed:
            self._add(Step(FetchOp.STACK, row - len(source.arguments) + 1))
        else:
            self._add(Step(FetchOp.IMM, 0))

    def _field(self, name: str, at: int) -> None:
        assert self._source.fields is not None
        found = self._source.fields.get(name)
        if found is None:
            if name not in ("comm", "COMM"):
                raise FetchError("Attached event does not have this field", 0, errno.ENOENT)
            self._add(Step(FetchOp.COMM, name=name))
        elif found.dynamic:
            self._add(Step(FetchOp.FIELD_DYN, found.offset, name=name))
        elif found.array:
            self._add(Step(FetchOp.FIELD_AT, found.offset, name=name))
        else:
            packed = found.size << 32 | int(found.signed) << 31 | found.offset
            self._add(Step(FetchOp.FIELD, packed, name=name))

    def _memory(self, text: str, at: int) -> None:
        if text[:1].isdigit():
            address = number(text, 8 * self._source.pointer_size)
            if address is None:
                raise FetchError("Invalid memory address", at)
            self._add(Step(FetchOp.IMM, address))
        elif text.startswith("+"):
            raise FetchError("File offset is not available with kprobe", at)
        else:
            self._count(at)
            self._add(Step(FetchOp.IMM, symbol=text or " "))
        self._count(at)
        self._add(Step(FetchOp.DEREF))

    def _dereference(self, text: str, at: int) -> None:
        inner = text
        if text[1:2] == "u":
            inner = text[0] + text[2:]
        inner = inner.removeprefix("+")
        offset_text, brace, rest = inner.partition("(")
        if not brace:
            raise FetchError("Dereference needs a brace", at)
        offset = number(offset_text, signed=True)
        if offset is None:
            raise FetchError("Invalid dereference offset", at)
        at += len(offset_text) + 1 + (0 if inner.startswith("-") else 1)
        inside, close, _ = rest.rpartition(")")
        if not close:
            raise FetchError("Dereference brace is not closed", at + len(rest))
        self._parse(inside, at)
        if self._steps[-1].op == FetchOp.COMM or self._steps[-1].data:
            raise FetchError("$comm can not be dereferenced", at)
        self._count(at)
        self._add(Step(FetchOp.DEREF, offset))

    def _immediate(self, text: str, at: int) -> None:
        if text.startswith('"'):
            if len(text) < 2 or not text.endswith('"'):
                raise FetchError("String is not closed with '\"'", at + 1 + len(text))
            data = text[1:-1].encode("utf-8", "surrogateescape") + b"\0"
            self._add(Step(FetchOp.IMM, data=data))
            return
        bits = 8 * self._source.pointer_size
        signed = text[:1] in ("+", "-")
        value = number(text, bits, signed=signed)
        if value is None:
            raise FetchError("Invalid immediate value", at + 1)
        self._add(Step(FetchOp.IMM, value % (1 << bits)))


def print_fmt(arguments: Iterable[Argument], head: str, values: Iterable[str]) -> str:
    """Return the C code that prints an event REC; `head` is the format of `values` before them."""
    arguments = tuple(arguments)
    formats = "".join(f" {each.name}={each.conversion}" for each in arguments)
    code = [*values, *(value for each in arguments for value in each.values())]
    return f'"{head}{formats}"' + "".join(f", {each}" for each in code)


def shown_fmt(arguments: Iterable[Argument], head: str, values: Iterable[str]) -> str:
    """Return the C code that shows an event in the trace: `print_fmt`, with faults marked."""
    arguments = tuple(arguments)
    code = [*values, *(value for each in arguments for value in each.values(PROBE_STRING))]
    formats = "".join(f" {each.name}={each.conversion}" for each in arguments)
    formats = formats.replace('\\"%s\\"', "%s")
    return f'"{head}{formats}"' + "".join(f", {each}" for each in code)
