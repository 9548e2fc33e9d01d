"""The print format of a trace event: parsed once, then applied to any number of events.

A print format is C code, as the file `format` of an event shows it: a format string, and
expressions over the event's fields (`REC->prev_pid`). This is the subset that Linux's events
use: integer arithmetic, comparisons, `?:`, casts, array elements, and the helpers
`__get_str()`, `__print_flags()`, `__print_symbolic()` and `__print_hex()`. Whatever is not
understood raises `PrintFmtError`; the caller then prints the plain fields, as trace-cmd does.
Source: Documentation/trace/events.rst, include/trace/stages/stage3_trace_output.h, and
trace_print_flags_seq() in kernel/trace/trace_output.c, 6.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..errors import DynftraceError
from .fields import Field, Layout

Value: TypeAlias = int | str
Names: TypeAlias = Callable[[int, bool], str]
"""Returns the symbol at an address, with its offset if the second argument is true."""
Expression: TypeAlias = Callable[[bytes], Value]


class PrintFmtError(DynftraceError):
    """A print format has something that is not supported."""


_TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>"(?:\\.|[^"\\])*")
  | (?P<char>'(?:\\.|[^'\\])')
  | (?P<number>0[xX][0-9a-fA-F]+|\d+)[uUlL]*
  | (?P<name>[A-Za-z_]\w*)
  | (?P<sign>->|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!<>?:(),\[\]{}.])
    )""",
    re.VERBOSE,
)
_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d*)(?:\.(?P<precision>\*|\d*))?"
    r"(?P<length>hh|h|ll|l|L|z|j|t)?(?P<kind>[diouxXcsp%])(?P<pointer>[sSfFxKBR]?)"
)
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'", "r": "\r", "0": "\0"}
_BINARY = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
"""Operators, the loosest first."""

_LEVEL = {sign: level for level, signs in enumerate(_BINARY) for sign in signs}

_DEEPEST = 100
_LONGS = {"l", "z", "j", "t"}
_MOST_SHIFT = 127
_INTEGERS = {
    **dict.fromkeys(("u8", "unsigned char", "bool"), (8, False)),
    **dict.fromkeys(("s8", "char", "signed char"), (8, True)),
    **dict.fromkeys(("u16", "unsigned short"), (16, False)),
    **dict.fromkeys(("s16", "short"), (16, True)),
    **dict.fromkeys(("u32", "unsigned int", "unsigned", "gfp_t", "uint32_t"), (32, False)),
    **dict.fromkeys(("s32", "int", "pid_t"), (32, True)),
    **dict.fromkeys(("u64", "unsigned long long", "sector_t", "uint64_t"), (64, False)),
    **dict.fromkeys(("s64", "long long", "loff_t"), (64, True)),
    **dict.fromkeys(("unsigned long", "size_t", "uintptr_t"), (0, False)),
    **dict.fromkeys(("long", "ssize_t"), (0, True)),
}
"""Bits and sign of the types that casts name; 0 bits means those of a long."""

_TYPE_WORDS = {word for name in _INTEGERS for word in name.split()} | {
    *("void", "struct", "const", "enum", "union", "__u8", "__u16", "__u32", "__u64"),
}


@dataclass(frozen=True, slots=True)
class _Part:
    """Literal text, or a conversion with its arguments."""

    text: str
    spec: re.Match[str] | None = None


class PrintFmt:
    """A parsed print format."""

    def __init__(self, text: str, fields: Sequence[Field], layout: Layout, names: Names) -> None:
        """Parse `text`. Raises `PrintFmtError`."""
        self._layout = layout
        self._names = names
        parser = _Parser(text, {field.plain_name: field for field in fields}, layout)
        format_string, self._arguments = parser.parse()
        self._parts = list(_split(format_string))
        wanted = sum(
            1 + (part.spec["width"] == "*") + (part.spec["precision"] == "*")
            for part in self._parts
            if part.spec is not None
        )
        if wanted > len(self._arguments):
            raise PrintFmtError("a print format has too few arguments")

    def text(self, record: bytes) -> str:
        """Return the text of one event, from its raw bytes (`struct trace_entry` first)."""
        done: list[str] = []
        values = iter(self._arguments)
        for part in self._parts:
            spec = part.spec
            if spec is None:
                done.append(part.text)
                continue
            width, precision = spec["width"], spec["precision"]
            if width == "*":
                width = str(_int(next(values)(record)))
            if precision == "*":
                precision = str(_int(next(values)(record)))
            done.append(self._convert(spec, width, precision, next(values)(record)))
        return "".join(done)

    def _convert(self, spec: re.Match[str], width: str, precision: str | None, value: Value) -> str:
        flags, kind = spec["flags"], spec["kind"]
        if kind == "s":
            shown = str(value)
            if precision is not None:
                shown = shown[: int(precision or 0)]
            return _padded(shown, flags.replace("0", ""), width)
        number = _int(value)
        if kind == "c":
            return _padded(chr(number & 0xFF), flags.replace("0", ""), width)
        long = self._layout.pointer_size * 8
        if kind == "p":
            number &= (1 << long) - 1
            if spec["pointer"] in ("s", "S", "f", "F", "B"):
                shown = self._names(number, spec["pointer"] in "SFB")
            else:
                shown = f"{number:0{long // 4}x}"
            return _padded(shown, flags, width)
        length = spec["length"] or ""
        bits = long if length in _LONGS else {"hh": 8, "h": 16, "ll": 64, "L": 64}.get(length, 32)
        number &= (1 << bits) - 1
        if kind in "di" and number >> bits - 1:
            number -= 1 << bits
        digits = f"{abs(number):{'d' if kind in 'diu' else kind}}"
        if precision is not None:
            digits = digits.rjust(int(precision or 0), "0")
        sign = "-" if number < 0 else "+" if "+" in flags else " " if " " in flags else ""
        prefix = {"x": "0x", "X": "0X", "o": "0"}.get(kind, "") if "#" in flags and number else ""
        if "0" in flags and "-" not in flags and precision is None and width:
            digits = digits.rjust(int(width) - len(sign) - len(prefix), "0")
        return _padded(f"{sign}{prefix}{digits}", flags.replace("0", ""), width)


def plain_text(record: bytes, fields: Sequence[Field], layout: Layout) -> str:
    """Return the fields as `name=value`, for an event whose print format is not understood."""
    return " ".join(f"{each.plain_name}={_shown(each.value(record, layout))}" for each in fields)


def _shown(value: Value | Sequence[int]) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"0x{value:x}" if value > 0xFFFF_FFFF else str(value)
    return "ARRAY[" + ", ".join(f"{each:02x}" for each in value) + "]"


def _int(value: Value) -> int:
    return value if isinstance(value, int) else 0


def _padded(text: str, flags: str, width: str) -> str:
    if not width:
        return text
    size = min(abs(int(width)), 4096)
    return text.ljust(size) if "-" in flags or width.startswith("-") else text.rjust(size)


def _split(text: str) -> list[_Part]:
    """Split a format string at its conversions."""
    parts: list[_Part] = []
    at = 0
    while at < len(text):
        start = text.find("%", at)
        if start < 0:
            parts.append(_Part(text[at:]))
            break
        match = _CONVERSION.match(text, start)
        if match is None:
            raise PrintFmtError(
                f"unknown conversion in a print format: {text[start : start + 8]!r}"
            )
        end = match.end()
        # `%ps` and the like take a letter more; after other conversions it is literal text.
        if match["kind"] != "p" and match["pointer"]:
            end -= 1
        parts.append(_Part(text[at:start]))
        parts.append(_Part("%") if match["kind"] == "%" else _Part("", match))
        at = end
    return parts


def _unescaped(token: str) -> str:
    """Return the characters of a C string literal without its quotes."""
    return re.sub(
        r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), token[1:-1], flags=re.DOTALL
    )


class _Parser:
    """Turns the C code into functions of an event's bytes."""

    def __init__(self, text: str, fields: Mapping[str, Field], layout: Layout) -> None:
        self._fields = fields
        self._layout = layout
        self._tokens: list[tuple[str, str]] = []
        at = 0
        text = text.strip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                raise PrintFmtError(f"cannot read a print format at {text[at : at + 16]!r}")
            self._tokens.append((match.lastgroup, match[match.lastgroup]))
            at = match.end()
        self._at = 0
        self._depth = 0

    def parse(self) -> tuple[str, list[Expression]]:
        """Return the format string and its arguments."""
        pieces = []
        while self._kind() == "string":
            pieces.append(_unescaped(self._next()))
        if not pieces:
            raise PrintFmtError("a print format begins with a string")
        arguments: list[Expression] = []
        while self._take(","):
            arguments.append(self._ternary())
        if self._at != len(self._tokens):
            raise PrintFmtError(f"unexpected {self._peek()!r} in a print format")
        return "".join(pieces), arguments

    def _kind(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at][1] if at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        if not token:
            raise PrintFmtError("a print format ends too early")
        self._at += 1
        return token

    def _take(self, sign: str) -> bool:
        if self._kind() == "sign" and self._peek() == sign:
            self._at += 1
            return True
        return False

    def _need(self, sign: str) -> None:
        if not self._take(sign):
            raise PrintFmtError(f"{sign!r} is missing in a print format")

    def _ternary(self) -> Expression:
        condition = self._binary(0)
        if self._take("?"):
            yes = self._ternary()
            self._need(":")
            no = self._ternary()
            test = condition
            condition = lambda record: yes(record) if test(record) else no(record)  # noqa: E731
        return condition

    def _binary(self, level: int) -> Expression:
        """Parse operators that bind as tightly as those at `level` of `_BINARY`, or more."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise PrintFmtError("a print format is nested too deeply")
        left = self._unary()
        while self._kind() == "sign" and _LEVEL.get(self._peek(), -1) >= level:
            sign = self._next()
            left = _operation(sign, left, self._binary(_LEVEL[sign] + 1))
        self._depth -= 1
        return left

    def _unary(self) -> Expression:
        if self._kind() == "sign" and self._peek() in "-+~!&*":
            sign = self._next()
            value = self._binary(len(_BINARY))
            if sign == "-":
                return lambda record: -_int(value(record))
            if sign == "~":
                return lambda record: ~_int(value(record))
            if sign == "!":
                return lambda record: int(not value(record))
            if sign == "+":
                return value
            raise PrintFmtError(f"the operator {sign!r} of a print format is not supported")
        if self._peek() == "(" and self._peek(1) in _TYPE_WORDS:
            return self._cast()
        return self._primary()

    def _cast(self) -> Expression:
        self._need("(")
        words: list[str] = []
        while not self._take(")"):
            words.append(self._next())
        value = self._unary()
        if "*" in words:
            bits, signed = 0, False
        else:
            name = " ".join(word for word in words if word != "const").replace("__", "")
            if name not in _INTEGERS:
                raise PrintFmtError(f"the type {name!r} of a print format is not supported")
            bits, signed = _INTEGERS[name]
        bits = bits or 8 * self._layout.pointer_size

        def cast(record: bytes) -> Value:
            found = value(record)
            if isinstance(found, str):
                return found
            found &= (1 << bits) - 1
            return found - (1 << bits) if signed and found >> bits - 1 else found

        return cast

    def _primary(self) -> Expression:
        kind = self._kind()
        token = self._next()
        if kind == "number":
            number = int(token, 16 if token[:2] in ("0x", "0X") else 8 if token[0] == "0" else 10)
            return lambda record: number
        if kind == "string":
            text = _unescaped(token)
            while self._kind() == "string":
                text += _unescaped(self._next())
            return lambda record: text
        if kind == "char":
            code = ord(_unescaped(token))
            return lambda record: code
        if token == "(":
            value = self._ternary()
            self._need(")")
            return value
        if token == "REC":
            return self._field()
        if kind == "name" and self._peek() == "(":
            return self._call(token)
        raise PrintFmtError(f"{token!r} of a print format is not supported")

    def _named(self, name: str) -> Field:
        field = self._fields.get(name)
        if field is None:
            raise PrintFmtError(f"a print format names the unknown field {name!r}")
        return field

    def _field(self) -> Expression:
        self._need("->")
        field, layout = self._named(self._next()), self._layout
        if not self._take("["):

            def whole(record: bytes) -> Value:
                value = field.value(record, layout)
                return value if isinstance(value, int | str) else 0

            return whole
        index = self._ternary()
        self._need("]")

        def element(record: bytes) -> Value:
            values, at = field.value(record, layout), _int(index(record))
            if isinstance(values, int | str) or not 0 <= at < len(values):
                return 0
            return values[at]

        return element

    def _call(self, name: str) -> Expression:
        self._need("(")
        if name in ("__get_str", "__get_dynamic_array"):
            field, layout = self._named(self._next()), self._layout
            self._need(")")

            def string(record: bytes) -> Value:
                value = field.value(record, layout)
                return value if isinstance(value, str) else ""

            return string
        if name == "__print_flags":
            value = self._ternary()
            self._need(",")
            between = self._ternary()
            table = self._table()
            return lambda record: _flags(_int(value(record)), str(between(record)), table)
        if name == "__print_symbolic":
            value = self._ternary()
            table = self._table()
            known = dict(reversed(table))
            bits = 8 * self._layout.pointer_size
            return lambda record: known.get(
                _int(value(record)), f"0x{_int(value(record)) & ((1 << bits) - 1):x}"
            )
        raise PrintFmtError(f"{name}() of a print format is not supported")

    def _table(self) -> list[tuple[int, str]]:
        """Return the pairs `{ number, "text" }` up to the end of the call."""
        rows: list[tuple[int, str]] = []
        while self._take(","):
            self._need("{")
            number = _int(self._ternary()(b""))
            self._need(",")
            rows.append((number, str(self._ternary()(b""))))
            self._need("}")
        self._need(")")
        return rows


def _flags(value: int, between: str, table: Sequence[tuple[int, str]]) -> str:
    found = []
    for mask, name in table:
        if value & mask == mask and (value or not mask):
            found.append(name)
            value &= ~mask
    if value:
        found.append(f"0x{value & (1 << 64) - 1:x}")
    return between.join(found)


def _operation(sign: str, left: Expression, right: Expression) -> Expression:
    if sign == "||":
        return lambda record: int(bool(left(record)) or bool(right(record)))
    if sign == "&&":
        return lambda record: int(bool(left(record)) and bool(right(record)))
    simple: Mapping[str, Callable[[int, int], int]] = {
        "|": lambda a, b: a | b,
        "^": lambda a, b: a ^ b,
        "&": lambda a, b: a & b,
        "==": lambda a, b: int(a == b),
        "!=": lambda a, b: int(a != b),
        "<": lambda a, b: int(a < b),
        "<=": lambda a, b: int(a <= b),
        ">": lambda a, b: int(a > b),
        ">=": lambda a, b: int(a >= b),
        "<<": lambda a, b: (a << min(max(b, 0), _MOST_SHIFT)) & (1 << 128) - 1,
        ">>": lambda a, b: a >> min(max(b, 0), _MOST_SHIFT),
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: (a * b) & (1 << 128) - 1,
        "/": _divided,
        "%": lambda a, b: a - b * _divided(a, b),
    }
    do = simple[sign]
    return lambda record: do(_int(left(record)), _int(right(record)))


def _divided(a: int, b: int) -> int:
    """Divide as C does: towards zero; 0 for a division by zero."""
    if not b:
        return 0
    return -(-a // b) if (a < 0) != (b < 0) else a // b
