"""An instruction as its manual draws it: bit fields, and how a target follows from them.

Ports make these (`Port.encoding`); what they look like on a screen is `views/encoding.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BitField:
    """Bits that stand together and mean one thing."""

    name: str
    """As the manual has it."""
    bits: str
    """`0` and `1`, as drawn from left to right."""
    meaning: str = ""
    """What this value says, in a few words."""

    @property
    def value(self) -> int:
        """The bits as an unsigned number, the leftmost the highest."""
        return int(self.bits, 2)


@dataclass(frozen=True, slots=True)
class Encoding:
    """All bits of one instruction."""

    form: str
    """What the manual calls instructions of this shape."""
    fields: tuple[BitField, ...]
    """From left to right."""
    unit: int = 1
    """Bits to a number of the ruler: 1 where manuals number bits, 8 where they number bytes."""
    from_left: bool = False
    """Whether the ruler counts from left to right; else the rightmost number is 0."""
    rule: str = ""
    """How the instruction's result follows from the fields, by their names."""
    reach: tuple[int, int] | None = None
    """The first and the last address that the fields can say; None where it is no distance."""

    @property
    def size(self) -> int:
        """In bits."""
        return sum(len(field.bits) for field in self.fields)


def cut(value: int, *parts: tuple[str, int] | tuple[str, int, str]) -> tuple[BitField, ...]:
    """The fields of `value`, highest bits first: (name, bits[, meaning]) each.

    Raises `ValueError` where they are fewer bits than `value` has.
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
    """The value of a field in two's complement."""
    return field.value - (int(field.bits[0]) << len(field.bits))


def distance(words: int, size: int) -> str:
    """A distance counted in units of `size` bytes, as a meaning: `-3 words, -0xc bytes`."""
    unit = "word" if size > 1 else "byte"
    plural = "" if abs(words) == 1 else "s"
    whole = f", {words * size:+#x} bytes" if size > 1 else ""
    return f"{words:+d} {unit}{plural}{whole}"


def window(base: int, bits: int, size: int, modulus: int) -> tuple[int, int] | None:
    """What a signed field of `bits`, counting units of `size` bytes from `base`, can say.

    The first and the last address; cut off at the ends of an address space of `modulus`
    bytes, and None where the field says everything in it.
    """
    half = size << bits - 1
    if 2 * half >= modulus:
        return None
    return max(base - half, 0), min(base + half - size, modulus - size)
