"""The metadata of a module or kernel: `.modinfo`, and its exports.

`.modinfo` is a sequence of NUL-terminated strings `tag=text`. `__ksymtab` is an array of pairs of
pointers: to a symbol, and to its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..arch import Addresses
from ..elf.image import Image

MODINFO = ".modinfo"
MODULE_NAME_LEN = 55
"""Limit for the name of a module, in bytes."""

_MOST = 512
"""Limit for a string read from an image or from the guest, in bytes."""


def modinfo(image: Image) -> dict[str, str]:
    """Return the texts in `.modinfo` by tag; the first one if a tag is repeated.

    There is always a `name`: without one in `.modinfo`, it is made of the file's name.
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
    """Return addresses by name, from a table of (value, address of the name) pairs."""
    found: dict[str, int] = {}
    pairs = words[: len(words) // 2 * 2].reshape(-1, 2)
    for value, name in pairs.tolist():
        text = name_at(name)
        if text:
            found.setdefault(text, value)
    return found


def image_string(image: Image, address: int) -> str | None:
    """Return the string at `address` in an executable's file, or None."""
    for segment in image.segments:
        start = address - segment.address
        if 0 <= start < segment.filesz:
            raw = image.segment_data(segment)[start : start + _MOST]
            return _printable(raw.tobytes().split(b"\0")[0])
    return None


class Readable(Protocol):
    """Guest memory, as far as strings need it."""

    def read_mapped(self, address: int, size: int) -> bytes:
        """Return up to `size` bytes: those before the first one that is not mapped."""
        ...


def guest_string(memory: Readable, address: int) -> str | None:
    """Return the string in guest memory at `address`, or None if it is not mapped."""
    raw = memory.read_mapped(address, _MOST)
    return None if not raw else _printable(raw.split(b"\0")[0])


def _printable(raw: bytes) -> str:
    """Return `raw` as text that is safe to print on a terminal."""
    return "".join(char if char.isprintable() else "?" for char in raw.decode("ascii", "replace"))
