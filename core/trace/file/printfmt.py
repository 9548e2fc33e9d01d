"""`print fmt` of an event: a C expression list, which is parsed once and evaluated per record.

Supported are what the macros of include/trace/ produce: operators, casts, fields and their
elements, `__print_flags` and its relatives, and the conversions of printk. An expression with
anything else, such as a call of a kernel function, raises `UnsupportedError`; the fields of the
event are shown instead. The file is untrusted: nesting, widths and the length of a text have
limits.
Source: include/trace/stages/stage3_trace_output.h, kernel/trace/trace_output.c and
lib/vsprintf.c, 6.1.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Literal, Protocol, TypeAlias

from .formats import SIZES, Field, size_of

MOST_TEXT = 4096
"""Characters of the text of one event, as in a page of the kernel's `trace_seq`."""

_MOST_WIDTH = 512
_MOST_DEPTH = 60
_MOST_TOKENS = 20_000


class UnsupportedError(Exception):
    """The expression has something that cannot be evaluated."""


@dataclass(frozen=True, slots=True)
class Array:
    """Bytes in a record, seen as elements of `size` bytes."""

    data: bytes
    size: int = 1
    signed: bool = False


ByteOrder: TypeAlias = Literal["little", "big"]

Value: TypeAlias = "int | str | Array"


class Names(Protocol):
    """Names of code addresses."""

    def name(self, address: int) -> str:
        """Return `function`."""
        ...

    def place(self, address: int) -> str:
        """Return `function+0x5/0x80`."""
        ...


@dataclass(frozen=True, slots=True)
class Record:
    """One event: the bytes of its payload, and what they mean."""

    data: bytes
    order: ByteOrder
    long: int
    """Bytes of a long."""
    names: Names

    def number(self, field: Field) -> int:
        """Return a field of at most 8 bytes."""
        if field.end > len(self.data):
            raise UnsupportedError("a short record")
        value = int.from_bytes(self.data[field.offset : field.end], self.order)
        return signed(value, field.size) if field.signed else value

    def array(self, field: Field) -> Array:
        """Return the data of an array, static or dynamic."""
        element = field.element(self.long)
        if field.dynamic:
            offset, size = self.place(field)
            data = self.data[offset : offset + size]
        elif field.size:
            data = self.data[field.offset : field.end]
        else:
            data = self.data[field.offset :]  # a flexible array: to the end of the record
        return Array(data, max(element, 1), field.signed)

    def place(self, field: Field) -> tuple[int, int]:
        """Return offset and size of the data of a dynamic field."""
        word = self.number(Field(field.name, "u32", field.offset, 4, False, False))
        offset, size = word & 0xFFFF, word >> 16
        return offset + (field.end if field.dynamic == "rel" else 0), size


def signed(value: int, size: int) -> int:
    """Return `size` bytes read as a signed number."""
    bits = 8 * size
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


Evaluate: TypeAlias = Callable[[Record], Value]

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
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}

_TYPE_WORDS = frozenset(
    ("unsigned", "signed", "long", "int", "short", "char", "void", "const", "volatile")
) | frozenset(("size_t", "ssize_t", *SIZES))

_BINARY = {
    sign: level
    for level, signs in enumerate(
        ("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %")
    )
    for sign in signs.split()
}
"""Binary operators, and how much they bind."""


def unescaped(text: str) -> str:
    """Return the content of a C string."""

    def one(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 8) & 0xFF)
        return chr(int(found[2], 16)) if found[2] else _PLAIN.get(found[3], found[3])

    return _ESCAPE.sub(one, text)


class PrintFormat:
    """A parsed `print fmt`."""

    def __init__(self, text: str, fields: Mapping[str, Field], long: int) -> None:
        """Raises `UnsupportedError`."""
        try:
            parser = _Parser(text, fields, long)
            self._format = parser.string()
            self._values: list[Evaluate] = []
            while parser.accept(","):
                self._values.append(parser.expression())
            parser.end()
        except RecursionError as error:
            raise UnsupportedError("nested too deep") from error

    def text(self, record: Record) -> str:
        """Return the text of `record`. Raises `UnsupportedError`."""
        try:
            values = [value(record) for value in self._values]
        except (OverflowError, ValueError, RecursionError, MemoryError) as error:
            raise UnsupportedError(str(error)) from error
        return printed(self._format, values, record)


# Parsing


class _Parser:
    """A recursive descent over the tokens of an expression list."""

    def __init__(self, text: str, fields: Mapping[str, Field], long: int) -> None:
        self._tokens = _tokens(text)
        self._fields, self._long = fields, long
        self._at = self._depth = 0

    def _peek(self, ahead: int = 0) -> tuple[str, str]:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else ("end", "")

    def accept(self, sign: str) -> bool:
        """Take `sign` if it is next."""
        if self._peek() != ("sign", sign):
            return False
        self._at += 1
        return True

    def _expect(self, sign: str) -> None:
        if not self.accept(sign):
            raise UnsupportedError(f"expected {sign}")

    def end(self) -> None:
        """Raise `UnsupportedError` unless this is the end."""
        if self._peek()[0] != "end":
            raise UnsupportedError("unexpected text")

    def string(self) -> str:
        """Take one string, or several next to each other."""
        if self._peek()[0] != "string":
            raise UnsupportedError("expected a string")
        found = ""
        while self._peek()[0] == "string":
            found += unescaped(self._peek()[1][1:-1])
            self._at += 1
        return found

    def _name(self) -> str:
        kind, text = self._peek()
        if kind != "name":
            raise UnsupportedError("expected a name")
        self._at += 1
        return text

    def expression(self) -> Evaluate:
        """Take an expression up to a comma or a bracket."""
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise UnsupportedError("nested too deep")
        condition = self._binary(0)
        if self.accept("?"):
            if self.accept(":"):
                then, other = condition, self.expression()
            else:
                then = self.expression()
                self._expect(":")
                other = self.expression()
            self._depth -= 1
            return lambda record: then(record) if _truth(condition(record)) else other(record)
        self._depth -= 1
        return condition

    def _binary(self, least: int) -> Evaluate:
        left = self._unary()
        while self._peek()[0] == "sign" and _BINARY.get(self._peek()[1], -1) >= least:
            sign = self._peek()[1]
            self._at += 1
            left = _operation(sign, left, self._binary(_BINARY[sign] + 1))
        return left

    def _unary(self) -> Evaluate:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise UnsupportedError("nested too deep")
        try:
            return self._unary_inside()
        finally:
            self._depth -= 1

    def _unary_inside(self) -> Evaluate:
        for sign, apply in _UNARY.items():
            if self.accept(sign):
                inner = self._unary()
                return lambda record: apply(_int(inner(record)))
        if self.accept("*"):
            inner = self._unary()
            return lambda record: _element(inner(record), 0, record)
        if self.accept("&"):
            return self._unary()
        if self._peek() == ("sign", "(") and (cast := self._cast()) is not None:
            return cast
        return self._postfix(self._primary())

    def _cast(self) -> Evaluate | None:
        """Take a cast; None if the bracket begins something else."""
        words, ahead = [], 1
        while self._peek(ahead)[0] == "name":
            words.append(self._peek(ahead)[1])
            ahead += 1
        stars = 0
        while self._peek(ahead) == ("sign", "*"):
            stars += 1
            ahead += 1
        if not words or self._peek(ahead) != ("sign", ")") or "REC" in words:
            return None
        after = self._peek(ahead + 1)
        known = words[0] in _TYPE_WORDS or stars > 0
        if not known and not (after[0] in ("name", "number", "string") or after[1] == "("):
            return None
        self._at += ahead + 1
        inner, kind = self._unary(), " ".join(words)
        size, is_signed = size_of(kind, self._long), _is_signed(words)
        if words[-1] not in SIZES and words[-1] not in _TYPE_WORDS and not stars:
            return inner  # an enum, or a type that is not known: as it is
        if stars:
            return lambda record: _pointer(inner(record), size if stars == 1 else record.long)
        if words[-1] == "void":
            return inner
        return lambda record: _resized(inner(record), size, is_signed, record)

    def _postfix(self, value: Evaluate) -> Evaluate:
        while self.accept("["):
            inner, index = value, self.expression()
            self._expect("]")

            def element(record: Record, inner: Evaluate = inner, index: Evaluate = index) -> Value:
                return _element(inner(record), _int(index(record)), record)

            value = element
        return value

    def _primary(self) -> Evaluate:
        kind, text = self._peek()
        if kind == "number":
            self._at += 1
            number = _number(text)
            return lambda record: number
        if kind == "char":
            self._at += 1
            code = ord(unescaped(text[1:-1]))
            return lambda record: code
        if kind == "string":
            found = self.string()
            return lambda record: found
        if self.accept("("):
            inner = self.expression()
            self._expect(")")
            return inner
        name = self._name()
        if name == "REC":
            self._expect("->")
            return _field_value(self._field())
        if name == "sizeof":
            return self._sizeof()
        if name in ("true", "false"):
            return lambda record: int(name == "true")
        if (made := _CALLS.get(name)) is None:
            raise UnsupportedError(f"{name} is not known")
        self._expect("(")
        found_call = made(self)
        self._expect(")")
        return found_call

    def _field(self) -> Field:
        name = self._name()
        field = self._fields.get(name)
        if field is None:
            raise UnsupportedError(f"no field {name}")
        return field

    def _sizeof(self) -> Evaluate:
        self._expect("(")
        if self._peek() == ("name", "REC"):
            self._name()
            self._expect("->")
            size = self._field().size
        else:
            words = []
            while self._peek()[0] == "name":
                words.append(self._name())
            while self.accept("*"):
                words.append("*")
            size = size_of(" ".join(words), self._long)
        self._expect(")")
        return lambda record: size

    # Arguments of the macros

    def arguments(self) -> list[Evaluate]:
        """Take expressions that are separated by commas."""
        found = [self.expression()]
        while self.accept(","):
            found.append(self.expression())
        return found

    def named_field(self) -> Field:
        """Take the bare name of a field."""
        return self._field()

    def pairs(self) -> list[tuple[Evaluate, Evaluate]]:
        """Take `, { value, "name" }`, any number of times."""
        found = []
        while self.accept(","):
            if not self.accept("{"):
                # Symbols can be in brackets of their own, or end with an empty pair.
                raise UnsupportedError("expected a pair")
            value = self.expression()
            self._expect(",")
            found.append((value, self.expression()))
            self._expect("}")
        return found


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at, end = [], 0, len(text.rstrip())
    while at < end:
        token = _TOKEN.match(text, at)
        if token is None or token.lastgroup is None:
            raise UnsupportedError("unexpected character")
        found.append((token.lastgroup, token[token.lastgroup]))
        at = token.end()
        if len(found) > _MOST_TOKENS:
            raise UnsupportedError("too long")
    return found


def _number(text: str) -> int:
    digits = text.rstrip("uUlL")
    if digits[:2] in ("0x", "0X"):
        return int(digits, 16)
    octal = len(digits) > 1 and digits[0] == "0" and not set(digits) & set("89")
    return int(digits, 8 if octal else 10)


def _is_signed(words: Sequence[str]) -> bool:
    name = words[-1]
    return "unsigned" not in words and not name.startswith(("u", "__u", "size_t", "bool", "gfp"))


# Values


def _truth(value: Value) -> bool:
    return bool(value) if not isinstance(value, Array) else True


def _int(value: Value) -> int:
    if isinstance(value, int):
        return value
    raise UnsupportedError("a number is needed")


def _field_value(field: Field) -> Evaluate:
    if field.array or field.size not in (1, 2, 4, 8):
        return lambda record: record.array(field)
    return lambda record: record.number(field)


def _pointer(value: Value, size: int) -> Value:
    return Array(value.data, max(size, 1), value.signed) if isinstance(value, Array) else value


def _resized(value: Value, size: int, is_signed: bool, record: Record) -> Value:
    if not isinstance(value, int):
        return value  # the address of an array
    return signed(value, size) if is_signed else value & ((1 << 8 * size) - 1)


def _element(value: Value, index: int, record: Record) -> Value:
    if not isinstance(value, Array):
        raise UnsupportedError("an array is needed")
    start = index * value.size
    data = value.data[start : start + value.size]
    if index < 0 or len(data) < value.size:
        raise UnsupportedError("beyond the end of an array")
    number = int.from_bytes(data, record.order)
    return signed(number, value.size) if value.signed else number


_UNARY: dict[str, Callable[[int], int]] = {
    "!": lambda value: int(not value),
    "~": lambda value: ~value,
    "-": lambda value: -value,
    "+": lambda value: value,
}

_LIMIT = 1 << 64


def _divided(left: int, right: int) -> int:
    if not right:
        raise UnsupportedError("division by zero")
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
    "<<": lambda left, right: (left << (right & 63)) % _LIMIT,
    ">>": lambda left, right: left >> (right & 63),
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: signed(left * right, 8) if left * right >= _LIMIT else left * right,
    "/": _divided,
    "%": lambda left, right: left - right * _divided(left, right),
}


def _operation(sign: str, left: Evaluate, right: Evaluate) -> Evaluate:
    if sign == "&&":
        return lambda record: int(_truth(left(record)) and _truth(right(record)))
    if sign == "||":
        return lambda record: int(_truth(left(record)) or _truth(right(record)))
    apply = _OPERATIONS[sign]
    return lambda record: apply(_int(left(record)), _int(right(record)))


# Macros


def _text_of(value: Value) -> str:
    if isinstance(value, Array):
        return value.data.partition(b"\0")[0].decode("utf-8", "backslashreplace")
    return value if isinstance(value, str) else "(null)" if value == 0 else f"({value:#x})"


def _flags(parser: _Parser) -> Evaluate:
    value = parser.expression()
    parser._expect(",")
    between = parser.expression()
    pairs = parser.pairs()

    def text(record: Record) -> str:
        left, found = _int(value(record)) % _LIMIT, []
        for mask_of, name in pairs:
            mask = _int(mask_of(record)) % _LIMIT
            if mask and left & mask == mask:
                found.append(_text_of(name(record)))
                left &= ~mask
        if left:
            found.append(f"0x{left:x}")
        return _text_of(between(record)).join(found)

    return text


def _symbolic(parser: _Parser) -> Evaluate:
    value = parser.expression()
    pairs = parser.pairs()

    def text(record: Record) -> str:
        number = _int(value(record)) % _LIMIT
        for wanted, name in pairs:
            if _int(wanted(record)) % _LIMIT == number:
                return _text_of(name(record))
        return f"0x{number:x}"

    return text


def _hex(between: str) -> Callable[[_Parser], Evaluate]:
    def parse(parser: _Parser) -> Evaluate:
        value, size = _exactly(parser, 2)

        def text(record: Record) -> str:
            array = value(record)
            if not isinstance(array, Array):
                raise UnsupportedError("an array is needed")
            return (
                array.data[: max(_int(size(record)), 0)].hex(between)
                if between
                else (array.data[: max(_int(size(record)), 0)].hex())
            )

        return text

    return parse


def _print_array(parser: _Parser) -> Evaluate:
    value, count, size = _exactly(parser, 3)

    def text(record: Record) -> str:
        array, width = value(record), _int(size(record))
        if not isinstance(array, Array) or width not in (1, 2, 4, 8):
            raise UnsupportedError("an array is needed")
        whole = array.data[: max(_int(count(record)), 0) * width]
        numbers = [
            int.from_bytes(whole[at : at + width], record.order)
            for at in range(0, len(whole) - width + 1, width)
        ]
        return "{" + ",".join(f"0x{number:x}" for number in numbers) + "}"

    return text


def _dynamic(parser: _Parser) -> Evaluate:
    field = parser.named_field()
    return lambda record: record.array(field)


def _dynamic_length(parser: _Parser) -> Evaluate:
    field = parser.named_field()
    return lambda record: record.place(field)[1]


def _bitmask(parser: _Parser) -> Evaluate:
    field = parser.named_field()

    def text(record: Record) -> str:
        data, long = record.array(field).data, record.long
        words = [
            int.from_bytes(data[at : at + long], record.order) for at in range(0, len(data), long)
        ]
        number = sum(word << 8 * long * at for at, word in enumerate(words))
        digits = f"{number:0{2 * len(data)}x}"
        first = len(digits) % 8
        parts = [digits[:first], *(digits[at : at + 8] for at in range(first, len(digits), 8))]
        return ",".join(part for part in parts if part)

    return text


def _seconds(parser: _Parser) -> Evaluate:
    value = parser.expression()
    return lambda record: _int(value(record)) // 1_000_000_000


def _below_seconds(parser: _Parser) -> Evaluate:
    value = parser.expression()
    return lambda record: _int(value(record)) % 1_000_000_000


def _expected(parser: _Parser) -> Evaluate:
    return parser.arguments()[0]


def _exactly(parser: _Parser, count: int) -> list[Evaluate]:
    found = parser.arguments()
    if len(found) != count:
        raise UnsupportedError("another number of arguments")
    return found


_CALLS: dict[str, Callable[[_Parser], Evaluate]] = {
    "__print_flags": _flags,
    "__print_flags_u64": _flags,
    "__print_symbolic": _symbolic,
    "__print_symbolic_u64": _symbolic,
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
}

# Printing

_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d{0,6})(?:\.(?P<precision>\*|\d{0,6}))?"
    r"(?P<length>hh|h|ll|l|L|z|j|t|q)?(?P<kind>[diuxXocsp%])(?P<pointer>(?<=p)[A-Za-z]\w*)?",
    re.ASCII,
)


def printed(format: str, values: Sequence[Value], record: Record) -> str:
    """Return what printk makes of `format`. Raises `UnsupportedError`."""
    rest = list(values)
    found: list[str] = []
    at = length = 0
    for conversion in _CONVERSION.finditer(format):
        found.append(format[at : conversion.start()])
        at = conversion.end()
        text = "%" if conversion["kind"] == "%" else _converted(conversion, rest, record)
        found.append(text)
        length += len(text)
        if length > MOST_TEXT:
            break
    found.append(format[at:])
    return "".join(found)[:MOST_TEXT]


def _next(values: list[Value]) -> Value:
    if not values:
        raise UnsupportedError("too few values")
    return values.pop(0)


def _converted(conversion: re.Match[str], values: list[Value], record: Record) -> str:
    flags, kind = conversion["flags"], conversion["kind"]
    width = precision = None
    if conversion["width"]:
        width = _int(_next(values)) if conversion["width"] == "*" else int(conversion["width"])
    if conversion["precision"] is not None:
        text = conversion["precision"]
        precision = _int(_next(values)) if text == "*" else int(text or 0)
    if width is not None and width < 0:
        flags, width = flags + "-", -width
    width = min(width or 0, _MOST_WIDTH)
    value = _next(values)
    if kind == "s":
        shown = _text_of(value)
        shown = shown if precision is None else shown[: max(precision, 0)]
    elif kind == "c":
        shown = chr(_int(value) & 0xFF)
    elif kind == "p":
        shown, used = _pointed(value, conversion["pointer"] or "", width, record)
        rest = (conversion["pointer"] or "")[used:]
        return _padded(shown, width if used != 1 or shown[:1] != "<" else 0, flags) + rest
    else:
        shown = _integer(_int(value), conversion, flags, precision, width, record.long)
    return _padded(shown, width, flags)


def _padded(text: str, width: int, flags: str) -> str:
    return text.ljust(width) if "-" in flags else text.rjust(width)


def _integer(
    value: int, conversion: re.Match[str], flags: str, precision: int | None, width: int, long: int
) -> str:
    lengths = {"hh": 1, "h": 2, "l": long, "z": long, "t": long, "ll": 8, "L": 8, "q": 8, "j": 8}
    size, kind = lengths.get(conversion["length"] or "", 4), conversion["kind"]
    if kind in "di":
        value = signed(value, size)
        sign = "-" if value < 0 else "+" if "+" in flags else " " if " " in flags else ""
        digits = f"{abs(value)}"
    else:
        value &= (1 << 8 * size) - 1
        sign = {"x": "0x", "X": "0X", "o": "0"}.get(kind, "") if "#" in flags else ""
        digits = f"{value:{'d' if kind == 'u' else kind}}"
    if precision is not None:
        digits = digits.zfill(min(precision, _MOST_WIDTH))
    elif "0" in flags and "-" not in flags:
        digits = digits.zfill(width - len(sign))
    return sign + digits


def _pointed(value: Value, letters: str, width: int, record: Record) -> tuple[str, int]:
    """Return the text of a pointer, and how many of the `letters` after %p it took."""
    first = letters[:1]
    if isinstance(value, Array):
        return _pointed_data(value.data, letters, width)
    address = _int(value) & ((1 << 8 * record.long) - 1)
    if first in ("S", "F", "f", "s", "B"):
        used = 2 if letters[1:2] in ("R", "b") else 1
        return (record.names.name if first in "sf" else record.names.place)(address), used
    if first == "x":
        return f"{address:x}", 1
    if first in ("", "K"):
        return f"{address:0{2 * record.long}x}", len(first)
    raise UnsupportedError(f"%p{letters}")


def _pointed_data(data: bytes, letters: str, width: int) -> tuple[str, int]:
    kind = letters[:2]
    if kind in ("I4", "i4") and len(data) >= 4:
        return str(IPv4Address(data[:4])), 2
    if kind in ("I6", "i6") and len(data) >= 16:
        return str(IPv6Address(data[:16])), 3 if letters[2:3] == "c" else 2
    if letters[:1] in ("M", "m") and len(data) >= 6:
        return data[:6].hex(":" if letters[0] == "M" else ""), 1
    if letters[:1] == "U" and len(data) >= 16:
        used = 2 if letters[1:2] in ("b", "B", "l", "L") else 1
        little = letters[1:2] in ("l", "L")
        text = str(uuid.UUID(bytes_le=data[:16]) if little else uuid.UUID(bytes=data[:16]))
        return text.upper() if letters[1:2] in ("B", "L") else text, used
    if letters[:1] == "h":
        between = {"C": ":", "D": "-", "N": ""}.get(letters[1:2], " ")
        whole = data[: min(width or 1, 64)]
        return whole.hex(between) if between else whole.hex(), 2 if between != " " else 1
    raise UnsupportedError(f"%p{letters}")
