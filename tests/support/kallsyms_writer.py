"""Write the kallsyms of a kernel as scripts/kallsyms.c does, for tests: by hand, no code shared."""

from __future__ import annotations

import struct
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """One of the layouts of the tables."""

    pointer: int = 8
    order: str = "<"
    late: bool = False
    """The offsets come after the index, as since Linux 6.4."""
    seqs: bool = True
    percpu: bool = False
    """Offsets that are not negative are absolute."""
    seven: bool = False
    """As since Linux 7.0: after the index, without relative_base."""
    fixed: bool = False
    """Addresses, instead of distances from each entry."""


def tokens() -> tuple[bytes, bytes, dict[bytes, int]]:
    """Return the table of tokens, its index, and the code of each token."""
    words = [bytes([code]) for code in range(256)]
    for code, word in enumerate((b"__", b"sys_", b"func", b"tion", b"init")):
        words[code] = word
    for code in range(5, 256):
        if not chr(code).isalnum() and code not in b"_.$":
            words[code] = b"tok%02x" % code
    table, index = b"", []
    for word in words:
        index.append(len(table))
        table += word + b"\0"
    return table, index, {word: code for code, word in enumerate(words)}  # type: ignore[return-value]


def kallsyms(
    symbols: list[tuple[int, str, str]], base: int, layout: Layout, place: int = 0
) -> tuple[bytes, int]:
    """Return the tables of `symbols` (address, letter, name), and where relative_base is.

    The tables will be at the address `place`.
    """
    order, align = layout.order, 4 if layout.seven else layout.pointer
    table, index, codes = tokens()

    def aligned(data: bytes) -> bytes:
        return data + bytes(-len(data) % align)

    names, markers = b"", []
    for number, (_, letter, name) in enumerate(symbols):
        if number % 256 == 0:
            markers.append(len(names))
        text, packed = (letter + name).encode(), b""
        while text:
            size = next(n for n in (6, 5, 4, 2, 1) if text[:n] in codes and len(text) >= n)
            packed += bytes([codes[text[:size]]])
            text = text[size:]
        size = len(packed)
        names += bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
        names += packed
    offsets = b""
    for address, letter, _ in symbols:
        value = address - base
        if layout.percpu:
            value = address if letter == "A" else base - 1 - address
        offsets += struct.pack(order + ("i" if layout.percpu else "I"), value)
    addresses = aligned(offsets)
    pointer = struct.pack(order + ("Q" if layout.pointer == 8 else "I"), base)
    body = aligned(struct.pack(order + "I", len(symbols))) + aligned(names)
    body += aligned(b"".join(struct.pack(order + "I", each) for each in markers))
    seqs = aligned(bytes(3 * len(symbols))) if layout.seqs else b""
    ends = aligned(table) + struct.pack(order + "256H", *index)
    if layout.seven:
        start = place + len(body) + len(ends)
        for number, (address, _, _) in enumerate(symbols):
            value = address if layout.fixed else address - (start + 4 * number)
            ends += struct.pack(order + "I", value % 2**32)
        return body + ends + bytes(3 * len(symbols)), 0
    if layout.late:
        out = body + ends + addresses
        return out + pointer + seqs, len(out)
    return addresses + pointer + body + seqs + ends, len(addresses)
