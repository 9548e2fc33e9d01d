"""Damage ELF files of any class and byte order: fields, bits, names, truncation, repetition.

Shares no code with the reader under test.
"""

from __future__ import annotations

from functools import lru_cache
from random import Random

import numpy as np

EXTREMES = [0, 1, 0xFF, 0x1000, 2**31, 2**32 - 16, 2**63 - 1, 2**63, 2**64 - 4096, 2**64 - 1]

SYMTAB, STRTAB, RELA, DYNAMIC, NOBITS, REL, DYNSYM = 2, 3, 4, 6, 8, 9, 11

Table = tuple[int, int, np.dtype[np.void]]
"""Offset in the file, number of rows, and layout of a row."""


@lru_cache(maxsize=4)
def _layouts(big: bool, wide: bool) -> dict[str, np.dtype[np.void]]:
    """Return the layout of each table of a class."""
    order, word = ">" if big else "<", "u8" if wide else "u4"

    def row(*fields: tuple[str, str]) -> np.dtype[np.void]:
        return np.dtype([(name, kind if kind[0] == "S" else order + kind) for name, kind in fields])

    after = (("ehsize", "u2"), ("phentsize", "u2"), ("phnum", "u2"))
    header = row(
        *(("ident", "S16"), ("type", "u2"), ("machine", "u2"), ("version", "u4"), ("entry", word)),
        *(("phoff", word), ("shoff", word), ("flags", "u4"), *after),
        *(("shentsize", "u2"), ("shnum", "u2"), ("shstrndx", "u2")),
    )
    section = row(
        *(("name", "u4"), ("type", "u4"), ("flags", word), ("addr", word), ("offset", word)),
        *(("size", word), ("link", "u4"), ("info", "u4"), ("align", word), ("entsize", word)),
    )
    places = (("offset", word), ("vaddr", word), ("paddr", word), ("filesz", word), ("memsz", word))
    flags, align = ("flags", "u4"), ("align", word)
    segment = (
        row(("type", "u4"), flags, *places, align)
        if wide
        else row(("type", "u4"), *places, flags, align)
    )
    value, where = (("value", word), ("size", word)), (("info", "u1"), ("other", "u1"))
    symbol = (
        row(("name", "u4"), *where, ("shndx", "u2"), *value)
        if wide
        else row(("name", "u4"), *value, *where, ("shndx", "u2"))
    )
    rel = (("offset", word), ("info", word))
    return {
        "header": header,
        "section": section,
        "segment": segment,
        "symbol": symbol,
        "rel": row(*rel),
        "rela": row(*rel, ("addend", word)),
        "dynamic": row(("tag", word), ("value", word)),
    }


@lru_cache(maxsize=64)
def _parts(content: bytes) -> tuple[tuple[Table, ...], tuple[tuple[int, int, int], ...], str]:
    """Return the tables, each section's type, offset and size, and the byte order."""
    big, wide = content[5] == 2, content[4] == 2
    row = _layouts(big, wide)
    (header,) = np.frombuffer(content, row["header"], 1)
    sections = np.frombuffer(content, row["section"], header["shnum"], int(header["shoff"]))
    tables: list[Table] = [
        (0, 1, row["header"]),
        (int(header["phoff"]), int(header["phnum"]), row["segment"]),
        (int(header["shoff"]), int(header["shnum"]), row["section"]),
    ]
    kinds = {SYMTAB: "symbol", DYNSYM: "symbol", REL: "rel", RELA: "rela", DYNAMIC: "dynamic"}
    for section in sections:
        name = kinds.get(int(section["type"]))
        if name is not None:
            count = int(section["size"]) // row[name].itemsize
            tables.append((int(section["offset"]), count, row[name]))
    contents = [
        (int(each["type"]), int(each["offset"]), int(each["size"]))
        for each in sections
        if each["type"] != NOBITS and each["size"]
    ]
    return tuple(each for each in tables if each[1]), tuple(contents), "big" if big else "little"


def damaged(random: Random, content: bytes) -> bytes:
    """Return `content`, a valid file, with one to three places changed."""
    raw = bytearray(content)
    for _ in range(random.randint(1, 3)):
        random.choices((field, bits, names, rows, ends), (60, 20, 5, 10, 5))[0](
            random, content, raw
        )
    return bytes(raw)


def field(random: Random, content: bytes, raw: bytearray) -> None:
    """Change one field of a header, a symbol, a relocation or an entry of a dynamic list."""
    tables, _, order = _parts(content)
    start, count, layout = random.choice(tables)
    kind, offset = random.choice([each[:2] for each in layout.fields.values()])  # type: ignore[union-attr]
    if kind.itemsize > 8:
        kind, offset = np.dtype("u1"), random.randrange(kind.itemsize)
    at, size = start + random.randrange(count) * layout.itemsize + offset, kind.itemsize
    old = int.from_bytes(raw[at : at + size], order)  # type: ignore[arg-type]
    near = (old + 1, old - 1, -old, old + 2 ** (8 * size - 1), len(raw), random.getrandbits(64))
    new = random.choice((*EXTREMES, *near)) % (1 << 8 * size)
    if at + size <= len(raw):
        raw[at : at + size] = new.to_bytes(size, order)  # type: ignore[arg-type]


def bits(random: Random, content: bytes, raw: bytearray) -> None:
    """Flip one to four bits of one section, whatever its size."""
    _, contents, _ = _parts(content)
    _, start, size = random.choice(contents)
    for _ in range(random.randint(1, 4)):
        at = start + random.randrange(size)
        if at < len(raw):
            raw[at] ^= 1 << random.randrange(8)


def names(random: Random, content: bytes, raw: bytearray) -> None:
    """Put NULs, invalid UTF-8 or control characters into a table of strings."""
    _, contents, _ = _parts(content)
    strings = [each for each in contents if each[0] == STRTAB]
    _, start, size = random.choice(strings or list(contents))
    at = start + random.randrange(size)
    new = random.choice(
        (b"\0\0", b"\xff\xfe", b"\xc3", b"\x1b[2J", b"\n", b"\xed\xa0\x80", b"%s%n")
    )
    if at + len(new) <= len(raw):
        raw[at : at + len(new)] = new


def rows(random: Random, content: bytes, raw: bytearray) -> None:
    """Write one row of a table over another."""
    tables, _, _ = _parts(content)
    start, count, layout = random.choice(tables)
    size = layout.itemsize
    source, target = (start + random.randrange(count) * size for _ in range(2))
    if max(source, target) + size <= len(raw):
        raw[target : target + size] = raw[source : source + size]


def ends(random: Random, content: bytes, raw: bytearray) -> None:
    """Truncate the file, repeat a part of it, or leave a part out."""
    at = random.randrange(len(raw) + 1)
    part = random.randint(1, 8192)
    match random.randrange(3):
        case 0:
            del raw[at:]
        case 1:
            raw[at:at] = raw[at : at + part]
        case 2:
            del raw[at : at + part]
