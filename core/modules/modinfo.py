"""The metadata of a module or kernel: `.modinfo`, and its exports.

`.modinfo` is a sequence of NUL-terminated strings `tag=text`. `__ksymtab` is an array of exported
symbols, in one of several layouts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..arch import Addresses
from ..elf.image import Image
from ..facts import FileFacts

MODINFO = ".modinfo"
MODULE_NAME_LEN = 55
"""Limit for the name of a module, in bytes."""

_MOST = 512
"""Limit for a string read from an image or from the guest, in bytes."""

_MOST_STRINGS = 1 << 24
"""Limit for the names of all exports together, in bytes."""


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


def depends(image: Image) -> list[str]:
    """Return the names of the modules that the module `image` needs."""
    return [name for name in modinfo(image).get("depends", "").split(",") if name]


def exports(
    raw: bytes, address: int, facts: FileFacts, read: Callable[[int, int], bytes]
) -> dict[str, int]:
    """Return addresses by name, from the table `raw` of exported symbols at `address`.

    An entry (`struct kernel_symbol`) is a pair of pointers, to a symbol and to its name; or
    these and the name of its namespace; or three offsets of 32 bits from their own places
    (CONFIG_HAVE_ARCH_PREL32_RELOCATIONS). The right layout is the one whose names are identifiers.
    `read` returns up to a number of bytes at an address, none where the names cannot be.
    """
    size, order = facts.pointer_size, "<" if facts.byteorder == "little" else ">"
    for words, kind in ((2, f"u{size}"), (3, "i4"), (3, f"u{size}")):
        column = np.frombuffer(raw, f"{order}{kind}", len(raw) // int(kind[1:]))
        if not len(column) or len(column) % words:
            continue
        table = column.reshape(-1, words).astype(np.int64).astype(np.uint64)
        if kind == "i4":
            places = np.uint64(address) + np.arange(len(column), dtype=np.uint64) * np.uint64(4)
            table = (table + places.reshape(-1, words)) & np.uint64((1 << 8 * size) - 1)
        found = _named(table[:, 0], table[:, 1], read)
        if found:
            return found
    return {}


def find_exports(image: Image) -> dict[str, int]:
    """Return the exports of a kernel without sections: those of its longest run of entries.

    Each entry has the address of something in the kernel's memory, and that of a name, which may
    be the end of another name. Offsets are tried first, then pointers, as in `exports`.
    """
    facts = image.facts
    best: dict[str, int] = {}
    for segment in image.segments:
        raw = image.segment_data(segment)
        for kind in ("i4", f"u{facts.pointer_size}"):
            width = int(kind[1:])
            raw_words = raw[: len(raw) // width * width].view(
                ("<" if facts.byteorder == "little" else ">") + kind
            )
            targets = raw_words.astype(np.int64)
            if kind == "i4":
                targets = targets + np.arange(len(raw_words), dtype=np.int64) * 4
            else:
                targets = targets - np.array(segment.address, np.uint64).astype(np.int64)
            first = min(each.address for each in image.segments) - segment.address
            last = max(each.address + each.memsz for each in image.segments) - segment.address
            start, count = _longest(raw, targets, first, last)
            if count < _SAMPLE:
                continue
            table = raw[start * width : (start + 3 * count) * width].tobytes()
            found = exports(
                table, segment.address + start * width, facts, partial(image_bytes, image)
            )
            best = max(best, found, key=len)
            if len(best) >= _PLENTY:
                return best
    return best


def _longest(
    raw: NDArray[np.uint8], targets: NDArray[np.int64], start: int, end: int
) -> tuple[int, int]:
    """Return the first word of the longest run of entries of three words, and their number.

    `targets` has the offset in `raw` to which each word leads. The kernel's memory is from
    offset `start` to `end`.
    """
    inside = (targets > 0) & (targets < len(raw))
    rows = np.flatnonzero(inside)
    at = targets[rows]
    first = raw[at]
    letters = (first | 0x20 >= ord("a")) & (first | 0x20 <= ord("z")) | (first == ord("_"))
    names = np.zeros(len(targets), np.bool_)
    names[rows] = letters
    entry = (targets[:-1] >= start) & (targets[:-1] < end) & names[1:]
    best = 0, 0
    for offset in range(3):
        lane = np.concatenate([[False], entry[offset::3], [False]])
        edges = np.flatnonzero(lane[1:] != lane[:-1]).reshape(-1, 2)
        if len(edges):
            longest = edges[np.argmax(edges[:, 1] - edges[:, 0])]
            count = int(longest[1] - longest[0])
            if count > best[1]:
                best = offset + 3 * int(longest[0]), count
    return best


_SAMPLE = 16
_PLENTY = 1000
"""More entries than bytes that only look like a table have; a kernel exports some 10,000."""

_IDENTIFIER = re.compile(rb"[A-Za-z_.$][A-Za-z0-9_.$]*")


def _named(
    values: Addresses, names: Addresses, read: Callable[[int, int], bytes]
) -> dict[str, int]:
    """Return `values` by the strings at `names`; empty if the first few are not identifiers."""
    sample = [read(at, _MOST).split(b"\0")[0] for at in names[:_SAMPLE].tolist()]
    if not all(_IDENTIFIER.fullmatch(name) for name in sample):
        return {}
    low, span = int(names.min()), int(names.max() - names.min()) + _MOST
    strings = read(low, span) if span <= _MOST_STRINGS else b""
    found: dict[str, int] = {}
    for value, at in zip(values.tolist(), names.tolist(), strict=True):
        start = at - low
        end = strings.find(b"\0", start)
        name = strings[start:end] if end >= 0 else read(at, _MOST).split(b"\0")[0]
        if name:
            found.setdefault(_printable(name), value)
    return found


def image_bytes(image: Image, address: int, size: int) -> bytes:
    """Return up to `size` bytes of an executable's file, as loaded at `address`."""
    for segment in image.segments:
        start = address - segment.address
        if 0 <= start < segment.filesz:
            return image.segment_data(segment)[start : start + size].tobytes()
    return b""


def image_string(image: Image, address: int) -> str | None:
    """Return the string at `address` in an executable's file, or None."""
    raw = image_bytes(image, address, _MOST)
    return _printable(raw.split(b"\0")[0]) if raw else None


def _printable(raw: bytes) -> str:
    """Return `raw` as text that is safe to print on a terminal."""
    return "".join(char if char.isprintable() else "?" for char in raw.decode("ascii", "replace"))
