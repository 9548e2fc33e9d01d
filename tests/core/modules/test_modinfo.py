"""Exported symbols: the three layouts of `struct kernel_symbol`."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from dynftrace import arches
from dynftrace.core.modules.modinfo import exports

NAMES = ("alpha", "beta.isra", "_gamma")
TABLE, STRINGS, SYMBOL = 0x8000_1000, 0x8000_4000, 0x8000_8000


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("layout", ["pairs", "triples", "relative"])
def test_exports_are_read_in_each_layout(layout: str, order: str, size: int) -> None:
    facts = replace(arches.load("x86_64").facts, pointer_size=size, byteorder=order)
    text, raw = b"", b""
    sign, word = "<" if order == "little" else ">", "Q" if size == 8 else "I"
    for row, name in enumerate(NAMES):
        symbol, at = SYMBOL + 16 * row, STRINGS + len(text)
        text += name.encode() + b"\0"
        if layout == "relative":
            place = TABLE + len(raw)
            raw += struct.pack(f"{sign}3i", symbol - place, at - place - 4, 0)
        else:
            raw += struct.pack(f"{sign}2{word}", symbol, at)
            raw += struct.pack(f"{sign}{word}", 0) if layout == "triples" else b""

    def read(address: int, size: int) -> bytes:
        start = address - STRINGS
        return text[start : start + size] if 0 <= start < len(text) else b""

    found = exports(raw, TABLE, facts, read)
    assert found == {name: SYMBOL + 16 * row for row, name in enumerate(NAMES)}
    assert exports(bytes(len(raw)), TABLE, facts, read) == {}
    assert exports(b"", TABLE, facts, read) == {}
