"""The kernel's log: lines of printk, of an oops and of the machine, with virtual time."""

from __future__ import annotations

from collections import deque

from ..memento import Restore, attributes

LIMIT = 16_384
"""Lines kept; the oldest are dropped first, as in the kernel's ring."""

LINE_MAX = 1024
"""Longest message in bytes; the rest is cut off (`LOG_LINE_MAX` in kernel/printk/printk.c)."""


class Dmesg:
    """Lines as `dmesg` prints them, `[    0.004801] text`, oldest first."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LIMIT)
        self.total = 0
        """Lines written so far, including those dropped since; the argument of `since`."""

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def lines(self) -> tuple[str, ...]:
        """All lines that are kept."""
        return tuple(self._lines)

    def write(self, ns: int, text: str) -> None:
        """Log `text` at virtual time `ns`, one entry for each of its lines."""
        stamp = f"[{ns // 1_000_000_000:5d}.{ns // 1000 % 1_000_000:06d}]"
        for line in text.rstrip("\n").split("\n"):
            self._lines.append(f"{stamp} {line}")
            self.total += 1

    def write_bytes(self, ns: int, data: bytes) -> None:
        """Log what the guest printed, with bytes that are not printable ASCII as `\\x1b`."""
        text = data[:LINE_MAX].rstrip(b"\0").decode("latin-1")
        self.write(ns, "".join(_printable(char) for char in text))

    def since(self, total: int) -> tuple[str, ...]:
        """Return the lines written after the first `total` ones, as far as they are still kept."""
        new = self.total - total
        return self.lines[-new:] if new > 0 else ()

    def text(self) -> str:
        """Return the whole log, each line with its newline."""
        return "".join(f"{line}\n" for line in self._lines)

    def save(self) -> Restore:
        """Return how to restore the log."""
        return attributes(self, "_lines", "total")


def _printable(char: str) -> str:
    if char in "\n\t" or " " <= char <= "~":
        return char
    return f"\\x{ord(char):02x}"
