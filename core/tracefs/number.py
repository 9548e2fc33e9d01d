"""Numbers written to files, as kstrtoul() reads them.

An optional `+`, then digits, then at most one newline; nothing else may stand
before or behind, white space included. Source: lib/kstrtox.c.
"""

from __future__ import annotations

import errno

from ..errors import TracefsError

LONG_DIGITS = 20


def kstrtoul(text: str, bits: int = 64) -> int:
    """The decimal number in `text`; raises `TracefsError` (EINVAL, ERANGE)."""
    digits = text.removesuffix("\n").removeprefix("+")
    if not (digits.isascii() and digits.isdigit()):
        raise TracefsError(errno.EINVAL)
    if len(digits.lstrip("0")) > LONG_DIGITS or int(digits) >= 1 << bits:
        raise TracefsError(errno.ERANGE)
    return int(digits)


def boolean(text: str) -> bool:
    """A number of which only zero or not matters."""
    return kstrtoul(text) != 0


def switch(text: str) -> bool:
    """A number that must be 0 or 1."""
    value = kstrtoul(text)
    if value > 1:
        raise TracefsError(errno.EINVAL)
    return value == 1
