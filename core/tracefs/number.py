"""Numbers written to files, as kstrtoul() reads them.

An optional `+`, then digits, then at most one newline; nothing else may stand
before or behind, white space included. In base 0 what comes first says which digits
follow: `0x` hexadecimal ones, another 0 octal ones. Source: lib/kstrtox.c.
"""

from __future__ import annotations

import errno

from ..errors import TracefsError

LONG_DIGITS = 22
"""Of the longest number of 64 bits, which is octal."""

_DIGITS = {8: "01234567", 10: "0123456789", 16: "0123456789abcdef"}


def kstrtoul(text: str, bits: int = 64, base: int = 10) -> int:
    """The number in `text`, in `base` 8, 10, 16 or 0; raises `TracefsError` (EINVAL, ERANGE)."""
    digits = text.removesuffix("\n").removeprefix("+").lower()
    if base == 0:
        base = 16 if digits[:2] == "0x" else 8 if digits[:1] == "0" else 10
        digits = digits.removeprefix("0x")
    if not digits or not set(digits) <= set(_DIGITS[base]):
        raise TracefsError(errno.EINVAL)
    if len(digits.lstrip("0")) > LONG_DIGITS or int(digits, base) >= 1 << bits:
        raise TracefsError(errno.ERANGE)
    return int(digits, base)


def boolean(text: str) -> bool:
    """A number of which only zero or not matters."""
    return kstrtoul(text) != 0


def switch(text: str) -> bool:
    """A number that must be 0 or 1."""
    value = kstrtoul(text)
    if value > 1:
        raise TracefsError(errno.EINVAL)
    return value == 1
