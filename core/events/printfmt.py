"""The print format of a trace event: parsed once, then applied to any number of events.

A print format is C code, as the file `format` of an event shows it: a format string of printk,
and expressions over the event's fields (`REC->prev_pid`). The parser supports the output of the
macros of include/trace/: operators, casts, fields and their elements, `__print_flags()` and similar
functions. Anything else, such as a call of a kernel function, raises `PrintFmtError`; the caller
then shows the fields, as trace-cmd does. Formats and events are untrusted: nesting, widths, numbers
and the length of a text have limits. Source: Documentation/trace/events.rst,
include/trace/stages/stage3_trace_output.h, kernel/trace/trace_output.c and lib/vsprintf.c, 6.1.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address
from typing import TypeAlias

from ..abi import MAX_ERRNO
from ..errors import DynftraceError
from .fields import TYPES, Field, Layout, size_of

MOST_TEXT = 4096
"""Characters of the text of one event, as in a page of the kernel's `trace_seq`."""

_MOST_WIDTH = 512
_MOST_DEPTH = 100
_MOST_TOKENS = 20_000


FAULT = "(fault)"
"""What the trace shows for a string that could not be read (`FAULT_STRING`)."""

PROBE_STRING = "__get_probe_str"
"""Function of print formats of this project: a string of a probe event in quotes, or `FAULT`."""


class PrintFmtError(DynftraceError):
    """A print format or an event that cannot be evaluated."""


@dataclass(frozen=True, slots=True)
class Array:
    """Bytes in an event, seen as elements of `size` bytes."""

    data: bytes
    size: int = 1
    signed: bool = False

    @property
    def text(self) -> str:
        """The characters up to a zero byte."""
        return self.data.partition(b"\0")[0].decode("utf-8", "backslashreplace")


Value: TypeAlias = int | str | Array
Names: TypeAlias = Callable[[int, bool], str]
"""Returns the symbol at an address, with its offset if the second argument is true."""


@dataclass(frozen=True, slots=True)
class Record:
    """The bytes of one event, from `struct trace_entry` on, with their layout."""

    data: bytes
    layout: Layout
    names: Names
    ptr_key: bytes | None = None
    """Key of the hash that %p shows instead of an address; None to show the address."""

    def number(self, field: Field) -> int:
        """Return the value of a field of at most 8 bytes."""
        return self._number(field.offset, field.end, field.signed)

    def _number(self, start: int, end: int, signed: bool = False) -> int:
        if end > len(self.data):
            raise PrintFmtError("an event is too short")
        return self.layout.number(self.data[start:end], signed)

    def array(self, field: Field) -> Array:
        """Return the data of an array."""
        element = max(field.element(self.layout.pointer_size), 1)
        if field.dynamic:
            offset, size = self.place(field)
            data = self.data[offset : offset + size]
        elif field.size:
            data = self.data[field.offset : field.end]
        else:
            data = self.data[field.offset :]  # a flexible array: to the end of the event
        return Array(data, element, field.signed)

    def place(self, field: Field) -> tuple[int, int]:
        """Return offset and size of the data of a dynamic array, in bytes."""
        word = self._number(field.offset, field.offset + 4)
        return (word & 0xFFFF) + (field.end if field.dynamic == "rel" else 0), word >> 16

    def numbers(self, array: Array) -> list[int]:
        """Return the elements of `array` that are whole, as unsigned numbers."""
        data, size = array.data, array.size
        return [
            self.layout.number(data[at : at + size]) for at in range(0, len(data) - size + 1, size)
        ]


Expression: TypeAlias = Callable[[Record], Value]


class PrintFmt:
    """A parsed print format."""

    def __init__(
        self,
        text: str,
        fields: Sequence[Field],
        layout: Layout,
        names: Names,
        ptr_key: bytes | None = None,
    ) -> None:
        """Parse `text`; for `ptr_key` see `Record`. Raises `PrintFmtError`."""
        self._layout = layout
        self._names = names
        self._ptr_key = ptr_key
        parser = _Parser(text, fields, layout)
        self._format = FormatString(parser.string())
        self._arguments = parser.rest()
        if self._format.wanted > len(self._arguments):
            raise PrintFmtError("a print format has too few arguments")

    def text(self, record: bytes) -> str:
        """Return the text of one event, from its raw bytes. Raises `PrintFmtError`."""
        event = Record(record, self._layout, self._names, self._ptr_key)
        return self._format.text([each(event) for each in self._arguments], event)


# Parsing

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>0[xX][0-9a-fA-F]{1,16}[uUlL]*|\d{1,20}[uUlL]*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<char>'(?:[^'\\]|\\.)')
    |(?P<sign>->|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!<>?:(){}\[\],.])
    )""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}

_TYPE_WORDS = TYPES | {"unsigned", "signed", "long", "void", "const", "volatile"}
_UNSIGNED = ("unsigned", "bool", "gfp_t", "dev_t", "sector_t", "size_t")

_LEVEL = {
    sign: level
    for level, signs in enumerate(
        ("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %")
    )
    for sign in signs.split()
}
"""Precedence of the binary operators."""


def unescaped(text: str) -> str:
    """Return the characters of a C string, given without its quotes."""

    def one(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 8) & 0xFF)
        return chr(int(found[2], 16)) if found[2] else _ESCAPES.get(found[3], found[3])

    return _ESCAPE.sub(one, text)


class _Parser:
    """Turns C code into functions of an event.

    Each function calls those of its operands, so `_MOST_DEPTH` bounds both the parser's recursion
    and that of the functions.
    """

    def __init__(self, text: str, fields: Sequence[Field], layout: Layout) -> None:
        self._tokens = _tokens(text)
        self._fields = {each.plain_name: each for each in fields}
        self._layout = layout
        self._at = self._depth = 0

    def _peek(self, ahead: int = 0) -> tuple[str, str]:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else ("end", "")

    def take(self, sign: str) -> bool:
        """Take `sign` if it is next, and return whether it was."""
        if self._peek() != ("sign", sign):
            return False
        self._at += 1
        return True

    def need(self, sign: str) -> None:
        """Take `sign`."""
        if not self.take(sign):
            raise PrintFmtError(f"{sign!r} is missing in a print format")

    def _name(self) -> str:
        kind, text = self._peek()
        if kind != "name":
            raise PrintFmtError(f"a print format needs a name instead of {text!r}")
        self._at += 1
        return text

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise PrintFmtError("a print format is nested too deeply")

    def string(self) -> str:
        """Take a string, or several next to each other."""
        found = []
        while self._peek()[0] == "string":
            found.append(unescaped(self._peek()[1][1:-1]))
            self._at += 1
        if not found:
            raise PrintFmtError("a print format needs a string")
        return "".join(found)

    def rest(self) -> list[Expression]:
        """Take the arguments after the format string, up to the end."""
        found = []
        while self.take(","):
            found.append(self.expression())
        if self._peek()[0] != "end":
            raise PrintFmtError(f"unexpected {self._peek()[1]!r} in a print format")
        return found

    def expression(self) -> Expression:
        """Take an expression up to a comma or a bracket."""
        self._deeper()
        condition = self._binary(0)
        if self.take("?"):
            yes = condition if self._peek() == ("sign", ":") else self.expression()
            self.need(":")
            no = self.expression()
            self._depth -= 1
            return lambda record: yes(record) if _truth(condition(record)) else no(record)
        self._depth -= 1
        return condition

    def _binary(self, least: int) -> Expression:
        """Take operators of level `least` of `_LEVEL` or higher."""
        self._deeper()
        first = self._unary()
        steps: list[_Step] = []
        while self._peek()[0] == "sign" and _LEVEL.get(self._peek()[1], -1) >= least:
            sign = self._peek()[1]
            self._at += 1
            steps.append(_step(sign, self._binary(_LEVEL[sign] + 1)))
        self._depth -= 1
        if not steps:
            return first

        def chain(record: Record) -> Value:
            value = first(record)
            for step in steps:
                value = step(value, record)
            return value

        return chain

    def _unary(self) -> Expression:
        self._deeper()
        found = self._prefixed()
        self._depth -= 1
        return found

    def _prefixed(self) -> Expression:
        for sign, apply in _UNARY.items():
            if self.take(sign):
                inner = self._unary()
                return lambda record: apply(_int(inner(record)))
        if self.take("*"):
            inner = self._unary()
            return lambda record: _element(inner(record), 0, record)
        if self.take("&"):
            return self._unary()
        if self._peek() == ("sign", "(") and (cast := self._cast()) is not None:
            return cast
        return self._indexed(self._primary())

    def _cast(self) -> Expression | None:
        """Take a cast; None if the bracket begins something else."""
        words: list[str] = []
        stars = 0
        while self._peek(1 + len(words))[0] == "name":
            words.append(self._peek(1 + len(words))[1])
        while self._peek(1 + len(words) + stars) == ("sign", "*"):
            stars += 1
        end = 1 + len(words) + stars
        if not words or self._peek(end) != ("sign", ")"):
            return None
        after = self._peek(end + 1)
        if words[0] not in _TYPE_WORDS and not stars:
            if after[0] not in ("name", "number", "string") and after[1] != "(":
                return None
            if words[0] in ("struct", "union"):
                raise PrintFmtError(f"a print format casts to {' '.join(words)!r}")
        self._at += end + 1
        inner, long = self._unary(), self._layout.pointer_size
        size, signed = size_of(" ".join(words), long), _is_signed(words)
        if stars:
            return lambda record: _pointer(inner(record), size if stars == 1 else long)
        if words[-1] not in _TYPE_WORDS or words[-1] == "void":
            return inner  # an enum, or a type that is not known: the value as it is
        return lambda record: _resized(inner(record), size, signed)

    def _indexed(self, value: Expression) -> Expression:
        indices = []
        while self.take("["):
            indices.append(self.expression())
            self.need("]")
        if not indices:
            return value

        def element(record: Record) -> Value:
            found = value(record)
            for index in indices:
                found = _element(found, _int(index(record)), record)
            return found

        return element

    def _primary(self) -> Expression:
        kind, text = self._peek()
        if kind in ("number", "char"):
            self._at += 1
            number = _number(text) if kind == "number" else ord(unescaped(text[1:-1]))
            return lambda record: number
        if kind == "string":
            found = self.string()
            return lambda record: found
        if self.take("("):
            inner = self.expression()
            self.need(")")
            return inner
        name = self._name()
        if name == "REC":
            self.need("->")
            return _field_value(self.field())
        if name in ("true", "false"):
            return lambda record: int(name == "true")
        if name != "sizeof" and name not in _CALLS:
            raise PrintFmtError(f"a print format has {name!r}, which is not supported")
        self.need("(")
        made = self._sizeof() if name == "sizeof" else _CALLS[name](self)
        self.need(")")
        return made

    def field(self) -> Field:
        """Take the name of a field."""
        name = self._name()
        if name not in self._fields:
            raise PrintFmtError(f"a print format names the unknown field {name!r}")
        return self._fields[name]

    def _sizeof(self) -> Expression:
        if self._peek() == ("name", "REC"):
            self._name()
            self.need("->")
            size = self.field().size
        else:
            words = []
            while self._peek()[0] == "name":
                words.append(self._name())
            while self.take("*"):
                words.append("*")
            size = size_of(" ".join(words), self._layout.pointer_size)
        return lambda record: size

    # Arguments of the macros

    def arguments(self, count: int | None = None) -> list[Expression]:
        """Take `count` expressions that are separated by commas, or any number of them."""
        found = [self.expression()]
        while self.take(","):
            found.append(self.expression())
        if count is not None and len(found) != count:
            raise PrintFmtError(f"a macro of a print format has {len(found)} arguments")
        return found

    def constant(self) -> Value:
        """Take an expression that needs no event."""
        return self.expression()(Record(b"", self._layout, lambda address, offset: ""))

    def pairs(self, bits: int) -> list[tuple[int, str]]:
        """Take `, { number, "name" }`, any number of times; a number has `bits` bits."""
        found = []
        while self.take(","):
            self.need("{")
            number = _int(self.constant()) & ((1 << bits) - 1)
            self.need(",")
            found.append((number, _text_of(self.constant())))
            self.need("}")
        return found

    @property
    def long_bits(self) -> int:
        """Bits of a long."""
        return 8 * self._layout.pointer_size


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at, end = [], 0, len(text.rstrip())
    while at < end:
        token = _TOKEN.match(text, at)
        if token is None or token.lastgroup is None:
            raise PrintFmtError(f"cannot read a print format at {text[at : at + 16]!r}")
        found.append((token.lastgroup, token[token.lastgroup]))
        at = token.end()
        if len(found) > _MOST_TOKENS:
            raise PrintFmtError("a print format is too long")
    return found


def _number(text: str) -> int:
    digits = text.rstrip("uUlL")
    if digits[:2] in ("0x", "0X"):
        return int(digits, 16)
    octal = len(digits) > 1 and digits[0] == "0" and not set(digits) & set("89")
    return int(digits, 8 if octal else 10)


def _is_signed(words: Sequence[str]) -> bool:
    unsigned = words[-1].startswith(("u", "__u", "__le", "__be"))
    return not unsigned and not any(word in _UNSIGNED for word in words)


# Values


def _truth(value: Value) -> bool:
    return bool(value) if not isinstance(value, Array) else True


def _int(value: Value) -> int:
    if isinstance(value, int):
        return value
    raise PrintFmtError("a print format needs a number")


def _array(value: Value) -> Array:
    if isinstance(value, Array):
        return value
    raise PrintFmtError("a print format needs an array")


def _text_of(value: Value) -> str:
    if isinstance(value, Array):
        return value.text
    return value if isinstance(value, str) else "(null)" if value == 0 else f"({value:#x})"


def _field_value(field: Field) -> Expression:
    if field.array or field.size not in (1, 2, 4, 8):
        return lambda record: record.array(field)
    return lambda record: record.number(field)


def _pointer(value: Value, size: int) -> Value:
    return Array(value.data, max(size, 1), value.signed) if isinstance(value, Array) else value


def _resized(value: Value, size: int, signed: bool) -> Value:
    if not isinstance(value, int):
        return value  # the address of an array
    return _signed(value, size) if signed else value & ((1 << 8 * size) - 1)


def _signed(value: int, size: int) -> int:
    """Return the lowest `size` bytes of `value` as a signed number."""
    bits = 8 * size
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _element(value: Value, index: int, record: Record) -> Value:
    array = _array(value)
    start = index * array.size
    data = array.data[start : start + array.size] if index >= 0 else b""
    if len(data) < array.size:
        raise PrintFmtError("a print format reads beyond the end of an array")
    return record.layout.number(data, array.signed)


# Operators

_UNARY: dict[str, Callable[[int], int]] = {
    "!": lambda value: int(not value),
    "~": lambda value: ~value,
    "-": lambda value: -value,
    "+": lambda value: value,
}


def _divided(left: int, right: int) -> int:
    """Divide as C does, towards zero."""
    if not right:
        raise PrintFmtError("a print format divides by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "|": lambda left, right: left | right,
    "^": lambda left, right: left ^ right,
    "&": lambda left, right: left & right,
    "==": lambda left, right: int(left == right),
    "!=": lambda left, right: int(left != right),
    "<": lambda left, right: int(left < right),
    ">": lambda left, right: int(left > right),
    "<=": lambda left, right: int(left <= right),
    ">=": lambda left, right: int(left >= right),
    "<<": lambda left, right: left << (right & 63) & (1 << 64) - 1,
    ">>": lambda left, right: left >> (right & 63),
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": _divided,
    "%": lambda left, right: left - right * _divided(left, right),
}

_Step: TypeAlias = Callable[[Value, Record], Value]


def _step(sign: str, right: Expression) -> _Step:
    """Return a function that applies an operator and its right operand to the left operand."""
    if sign == "&&":
        return lambda left, record: int(_truth(left) and _truth(right(record)))
    if sign == "||":
        return lambda left, record: int(_truth(left) or _truth(right(record)))
    apply = _OPERATIONS[sign]

    def step(left: Value, record: Record) -> Value:
        value = apply(_int(left), _int(right(record)))
        return value if -(1 << 63) <= value < 1 << 64 else _signed(value, 8)

    return step


# Macros


def _flags(long: bool) -> Callable[[_Parser], Expression]:
    def parse(parser: _Parser) -> Expression:
        bits = parser.long_bits if long else 64
        value = parser.expression()
        parser.need(",")
        between = _text_of(parser.constant())
        pairs = parser.pairs(bits)

        def text(record: Record) -> str:
            left, found, length = _int(value(record)) & ((1 << bits) - 1), [], 0
            for mask, name in pairs:
                if not left or length > MOST_TEXT:
                    break
                if left & mask == mask:
                    found.append(name)
                    length += len(name) + len(between)
                    left &= ~mask
            if left:
                found.append(f"0x{left:x}")
            return between.join(found)

        return text

    return parse


def _symbolic(long: bool) -> Callable[[_Parser], Expression]:
    def parse(parser: _Parser) -> Expression:
        bits = parser.long_bits if long else 64
        value = parser.expression()
        names = dict(reversed(parser.pairs(bits)))

        def text(record: Record) -> str:
            number = _int(value(record)) & ((1 << bits) - 1)
            return names.get(number, f"0x{number:x}")

        return text

    return parse


def _hex(between: str) -> Callable[[_Parser], Expression]:
    def parse(parser: _Parser) -> Expression:
        value, size = parser.arguments(2)

        def text(record: Record) -> str:
            data = _array(value(record)).data[: max(_int(size(record)), 0)]
            return data.hex(between) if between else data.hex()

        return text

    return parse


def _print_array(parser: _Parser) -> Expression:
    value, count, size = parser.arguments(3)

    def text(record: Record) -> str:
        data, width = _array(value(record)).data, _int(size(record))
        if width not in (1, 2, 4, 8):
            raise PrintFmtError("an array of a print format has elements of an invalid size")
        array = Array(data[: max(_int(count(record)), 0) * width], width)
        return "{" + ",".join(f"0x{number:x}" for number in record.numbers(array)) + "}"

    return text


def _dynamic(parser: _Parser) -> Expression:
    field = parser.field()
    return lambda record: record.array(field)


def _probe_string(parser: _Parser) -> Expression:
    """Parse a string of a probe event, and its number in an array."""
    field, number = parser.field(), 0
    if parser.take(","):
        number = _int(parser.expression()(Record(b"", Layout("little", 8), lambda *_: "")))
    place = replace(field, offset=field.offset + 4 * number, size=4)

    def text(record: Record) -> str:
        offset, size = record.place(place)
        return f'"{Array(record.data[offset : offset + size]).text}"' if size else FAULT

    return text


def _dynamic_length(parser: _Parser) -> Expression:
    field = parser.field()
    return lambda record: record.place(field)[1]


def _bitmask(parser: _Parser) -> Expression:
    field = parser.field()

    def text(record: Record) -> str:
        long = record.layout.pointer_size
        words = record.numbers(Array(record.array(field).data, long))
        digits = "".join(f"{word:0{2 * long}x}" for word in reversed(words))
        return ",".join(digits[at : at + 8] for at in range(0, len(digits), 8))

    return text


def _seconds(parser: _Parser) -> Expression:
    (value,) = parser.arguments(1)
    return lambda record: _int(value(record)) // 1_000_000_000


def _below_seconds(parser: _Parser) -> Expression:
    (value,) = parser.arguments(1)
    return lambda record: _int(value(record)) % 1_000_000_000


def _expected(parser: _Parser) -> Expression:
    return parser.arguments()[0]


_CALLS: dict[str, Callable[[_Parser], Expression]] = {
    "__print_flags": _flags(True),
    "__print_flags_u64": _flags(False),
    "__print_symbolic": _symbolic(True),
    "__print_symbolic_u64": _symbolic(False),
    "__print_hex": _hex(" "),
    "__print_hex_str": _hex(""),
    "__print_array": _print_array,
    "__print_ns_to_secs": _seconds,
    "__print_ns_without_secs": _below_seconds,
    **dict.fromkeys(
        ("__get_str", "__get_rel_str", "__get_dynamic_array", "__get_rel_dynamic_array"), _dynamic
    ),
    **dict.fromkeys(("__get_dynamic_array_len", "__get_rel_dynamic_array_len"), _dynamic_length),
    **dict.fromkeys(
        ("__get_bitmask", "__get_rel_bitmask", "__get_cpumask", "__get_rel_cpumask"), _bitmask
    ),
    "__builtin_expect": _expected,
    PROBE_STRING: _probe_string,
}

# Format strings

_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d{0,6})(?:\.(?P<precision>\*|\d{0,6}))?"
    r"(?P<length>hh|h|ll|l|L|z|j|t|q)?"
    r"(?:(?P<kind>[diuxXocsp%])(?P<pointer>(?<=p)[A-Za-z0-9]+)?|(?P<unknown>[A-Za-z]))",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Conversion:
    """A conversion of a format string; `width` and `precision` are digits, `*` or ""."""

    flags: str
    width: str
    precision: str | None
    length: str
    kind: str
    pointer: str
    """The letters after %p."""

    @property
    def stars(self) -> int:
        """Number of values that it takes before its own: for width and precision."""
        return (self.width == "*") + (self.precision == "*")

    def size(self, long: int) -> int:
        """Return the bytes of the number that it converts, if a long has `long` bytes."""
        if self.kind == "p" or self.length in ("l", "z", "t"):
            return long
        return {"hh": 1, "h": 2, "ll": 8, "L": 8, "j": 8, "q": 8}.get(self.length, 4)


class FormatString:
    """A format string of printk, split at its conversions."""

    def __init__(self, text: str) -> None:
        """Raises `PrintFmtError`."""
        self._parts: list[str | Conversion] = []
        at = 0
        for found in _CONVERSION.finditer(text):
            if found["unknown"]:
                raise PrintFmtError(f"unknown conversion in a print format: {found[0]!r}")
            self._parts.append(text[at : found.start()])
            at = found.end()
            if found["kind"] == "%":
                self._parts.append("%")
                continue
            self._parts.append(
                Conversion(
                    flags=found["flags"],
                    width=found["width"],
                    precision=found["precision"],
                    length=found["length"] or "",
                    kind=found["kind"],
                    pointer=found["pointer"] or "",
                )
            )
        self._parts.append(text[at:])
        self.conversions = [each for each in self._parts if isinstance(each, Conversion)]
        """The conversions, without `%%`."""
        self.wanted = sum(1 + each.stars for each in self.conversions)
        """Number of values that it needs."""

    def text(self, values: Sequence[Value], record: Record) -> str:
        """Return printk's text for at least `wanted` values. Raises `PrintFmtError`."""
        found: list[str] = []
        length = 0
        rest = iter(values)
        for part in self._parts:
            text = part if isinstance(part, str) else _converted(part, rest, record)
            found.append(text)
            length += len(text)
            if length > MOST_TEXT:
                break
        return "".join(found)[:MOST_TEXT]


def _converted(each: Conversion, values: Iterator[Value], record: Record) -> str:
    flags, kind, precision = each.flags, each.kind, None
    width = _int(next(values)) if each.width == "*" else int(each.width or 0)
    if each.precision is not None:
        number = _int(next(values)) if each.precision == "*" else int(each.precision or 0)
        precision = min(max(number, 0), MOST_TEXT)
    if width < 0:
        flags, width = flags + "-", -width
    width = min(width, _MOST_WIDTH)
    value = next(values)
    if kind == "s":
        shown = _text_of(value)[:precision]
    elif kind == "c":
        shown = chr(_int(value) & 0xFF)
    elif kind == "p":
        shown = _pointed(value, each.pointer, width, record)
    else:
        size = each.size(record.layout.pointer_size)
        shown = _integer(_int(value), kind, size, flags, precision, width)
    return shown.ljust(width) if "-" in flags else shown.rjust(width)


def _integer(
    value: int, kind: str, size: int, flags: str, precision: int | None, width: int
) -> str:
    if kind in "di":
        value = _signed(value, size)
        sign = "-" if value < 0 else "+" if "+" in flags else " " if " " in flags else ""
        digits = f"{abs(value)}"
    else:
        value &= (1 << 8 * size) - 1
        sign = {"x": "0x", "X": "0X", "o": "0" if value else ""}.get(kind, "")
        sign = sign if "#" in flags else ""
        digits = f"{value:{'d' if kind == 'u' else kind}}"
    if precision is not None:
        digits = digits.zfill(min(precision, _MOST_WIDTH))
    elif "0" in flags and "-" not in flags:
        digits = digits.zfill(width - len(sign))
    return sign + digits


def _pointed(value: Value, letters: str, width: int, record: Record) -> str:
    """Return the text of a pointer, given the letters after %p."""
    if isinstance(value, str):
        return value  # of a trace_printk, which formats it when called
    if isinstance(value, Array):
        return _pointed_data(value.data, letters, width)
    long = record.layout.pointer_size
    address = value & ((1 << 8 * long) - 1)
    if letters[:1] in ("S", "F", "f", "s", "B"):
        return record.names(address, letters[0] in "SFB")
    if letters[:1] in ("", "K", "x"):
        if letters[:1] != "x" and record.ptr_key is not None:
            address = hashed(address, long, record.ptr_key)
        return f"{address:x}" if width else f"{address:0{2 * long}x}"
    raise PrintFmtError(f"%p{letters} in a print format is not supported")


def hashed(address: int, size: int, key: bytes) -> int:
    """Return what printk shows for an address of `size` bytes: 32 bits that do not reveal it.

    NULL and error pointers stay as they are. Linux uses SipHash with a random key; here it is
    BLAKE2. Source: ptr_to_id() in lib/vsprintf.c, 6.1.
    """
    if address == 0 or address >= (1 << 8 * size) - MAX_ERRNO:
        return address
    data = address.to_bytes(size, "little")
    return int.from_bytes(hashlib.blake2s(data, digest_size=4, key=key).digest(), "little")


def _pointed_data(data: bytes, letters: str, width: int) -> str:
    kind = letters[:2]
    if kind in ("I4", "i4") and len(data) >= 4:
        return str(IPv4Address(data[:4]))
    if kind in ("I6", "i6") and len(data) >= 16:
        return str(IPv6Address(data[:16]))
    if letters[:1] in ("M", "m") and len(data) >= 6:
        return data[:6].hex(":") if letters[0] == "M" else data[:6].hex()
    if letters[:1] == "U" and len(data) >= 16:
        little = letters[1:2] in ("l", "L")
        text = str(uuid.UUID(bytes_le=data[:16]) if little else uuid.UUID(bytes=data[:16]))
        return text.upper() if letters[1:2] in ("B", "L") else text
    if letters[:1] == "h":
        between = {"C": ":", "D": "-", "N": ""}.get(letters[1:2], " ")
        whole = data[: min(width or 1, 64)]
        return whole.hex(between) if between else whole.hex()
    raise PrintFmtError(f"%p{letters} in a print format is not supported")
