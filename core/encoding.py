"""An instruction as its manual draws it: bit fields, and how a target follows from them.

Ports make these (`Port.encoding`); `views/encoding.py` draws them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BitField:
    """Adjacent bits with one meaning."""

    name: str
    """The field's name in the manual."""
    bits: str
    """`0` and `1`, as drawn from left to right."""
    meaning: str = ""
    """Meaning of this value, in a few words."""

    @property
    def value(self) -> int:
        """The bits as an unsigned number, the leftmost the highest."""
        return int(self.bits, 2)


@dataclass(frozen=True, slots=True)
class Encoding:
    """All bits of one instruction."""

    form: str
    """The manual's name for instructions of this shape."""
    fields: tuple[BitField, ...]
    """From left to right."""
    unit: int = 1
    """Bits for each number of the ruler: 1 if the manual numbers bits, 8 if bytes."""
    from_left: bool = False
    """Whether the ruler counts from left to right; otherwise the rightmost number is 0."""
    rule: str = ""
    """How the instruction's result follows from the named fields."""
    reach: tuple[int, int] | None = None
    """First and last address that the fields can encode; None without a distance field."""

    @property
    def size(self) -> int:
        """Width of the instruction in bits."""
        return sum(len(field.bits) for field in self.fields)


def cut(value: int, *parts: tuple[str, int] | tuple[str, int, str]) -> tuple[BitField, ...]:
    """Return the fields of `value`, highest bits first; a part is (name, bits[, meaning]).

    Raises `ValueError` if `value` has more bits than the parts.
    """
    left = sum(part[1] for part in parts)
    if value >> left:
        raise ValueError(f"{value:#x} has more than {left} bits")
    fields: list[BitField] = []
    for name, width, *meaning in parts:
        left -= width
        bits = f"{value >> left & (1 << width) - 1:0{width}b}"
        fields.append(BitField(name, bits, *meaning))
    return tuple(fields)


def signed(field: BitField) -> int:
    """Return the value of a field in two's complement."""
    return field.value - (int(field.bits[0]) << len(field.bits))


def distance(words: int, size: int) -> str:
    """Return a distance in units of `size` bytes as a meaning: `-3 words, -0xc bytes`."""
    unit = "word" if size > 1 else "byte"
    plural = "" if abs(words) == 1 else "s"
    whole = f", {words * size:+#x} bytes" if size > 1 else ""
    return f"{words:+d} {unit}{plural}{whole}"


def window(base: int, bits: int, size: int, modulus: int) -> tuple[int, int] | None:
    """Return the first and last address that a signed distance field can encode.

    The field has `bits` bits and counts units of `size` bytes from `base`. The addresses
    are cut off at the ends of an address space of `modulus` bytes. None if the field
    reaches all of it.
    """
    half = size << bits - 1
    if 2 * half >= modulus:
        return None
    return max(base - half, 0), min(base + half - size, modulus - size)
