"""What a module or kernel says about itself: `.modinfo`, and its exports.

`.modinfo` is a row of NUL-ended words `tag=text`. `__ksymtab` is a row of pairs
of pointers: a value, and where its name stands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..arch import Addresses
from ..elf.image import Image

MODINFO = ".modinfo"
MODULE_NAME_LEN = 55
"""Longest name of a module, in bytes."""

_MOST = 512
"""Longest string that is read from an image or from the guest, in bytes."""


def modinfo(image: Image) -> dict[str, str]:
    """The `tag=text` words of a module; of a repeated tag the first counts.

    There is always a `name`: where the module does not say, that of its file,
    as insmod makes it.
    """
    found: dict[str, str] = {}
    section = image.section(MODINFO)
    words = b"" if section is None else image.data(section).tobytes()
    for word in words.split(b"\0"):
        tag, equals, text = _printable(word).partition("=")
        if equals:
            found.setdefault(tag, text)
    name = found.get("name") or image.path.name.split(".")[0].replace("-", "_")
    found["name"] = name[:MODULE_NAME_LEN]
    return found


def exports(words: Addresses, name_at: Callable[[int], str | None]) -> dict[str, int]:
    """Name to address of a table of (value, address of the name) pairs."""
    found: dict[str, int] = {}
    pairs = words[: len(words) // 2 * 2].reshape(-1, 2)
    for value, name in pairs.tolist():
        text = name_at(name)
        if text:
            found.setdefault(text, value)
    return found


def image_string(image: Image, address: int) -> str | None:
    """The string an executable's file has at `address`; None where it has none."""
    for segment in image.segments:
        start = address - segment.address
        if 0 <= start < segment.filesz:
            raw = image.segment_data(segment)[start : start + _MOST]
            return _printable(raw.tobytes().split(b"\0")[0])
    return None


class Readable(Protocol):
    """Guest memory, as far as strings need it."""

    def read_mapped(self, address: int, size: int) -> bytes:
        """Return up to `size` bytes: those in front of the first one that is not mapped."""
        ...


def guest_string(memory: Readable, address: int) -> str | None:
    """Return the string in guest memory at `address`, or None if it is not mapped."""
    raw = memory.read_mapped(address, _MOST)
    return None if not raw else _printable(raw.split(b"\0")[0])


def _printable(raw: bytes) -> str:
    """Text that can go to a terminal."""
    return "".join(char if char.isprintable() else "?" for char in raw.decode("ascii", "replace"))
