"""Numbers written to files, as kstrtoul() and /proc/sys parse them.

For kstrtoul() a number is an optional `+`, digits, and at most one newline; other white space
is not allowed. In base 0, the prefix `0x` means hexadecimal and a leading 0 octal. Sources:
lib/kstrtox.c, kernel/sysctl.c.
"""

from __future__ import annotations

import errno
import re

from ..errors import TracefsError

LONG_DIGITS = 22
"""Digits of the longest number of 64 bits, in octal."""

_INT = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|[0-9]+)", re.ASCII)
_DIGITS = {8: "01234567", 10: "0123456789", 16: "0123456789abcdef"}


def kstrtoul(text: str, bits: int = 64, base: int = 10) -> int:
    """Parse `text` in `base` 8, 10, 16 or 0. Raises `TracefsError` (EINVAL, ERANGE)."""
    digits = text.removesuffix("\n").removeprefix("+").lower()
    if base == 0:
        base = 16 if digits[:2] == "0x" else 8 if digits[:1] == "0" else 10
        digits = digits.removeprefix("0x")
    if not digits or not set(digits) <= set(_DIGITS[base]):
        raise TracefsError(errno.EINVAL)
    if len(digits.lstrip("0")) > LONG_DIGITS or int(digits, base) >= 1 << bits:
        raise TracefsError(errno.ERANGE)
    return int(digits, base)


def dointvec(text: str) -> int:
    """Parse a decimal or hexadecimal `int` written to /proc/sys (`proc_dointvec`).

    Raises `TracefsError` (EINVAL).
    """
    word = text.strip()
    if not _INT.fullmatch(word):
        raise TracefsError(errno.EINVAL)
    value = int(word, 16 if "x" in word.lower() else 10)
    if not -(1 << 31) < value < 1 << 31:
        raise TracefsError(errno.EINVAL)
    return value


def boolean(text: str) -> bool:
    """Parse a number and return whether it is not 0."""
    return kstrtoul(text) != 0


def switch(text: str) -> bool:
    """Parse a number that must be 0 or 1; else raise EINVAL."""
    value = kstrtoul(text)
    if value > 1:
        raise TracefsError(errno.EINVAL)
    return value == 1
