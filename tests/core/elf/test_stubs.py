"""A module's stub table: one stub for each callee, in order, within the space reserved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from dynftrace.core.arch import Function, Relocations
from dynftrace.core.elf.stubs import StubTable
from dynftrace.core.errors import ModuleError
from dynftrace.core.facts import Stub

CALL, BASE, TOC = 10, 0x1000, 0x9000


@dataclass(frozen=True)
class Eight:
    """Stubs of 8 bytes: one byte each of target and TOC pointer; target 0xbad fails."""

    facts: Stub

    def needed(self, relocations: Relocations) -> NDArray[np.bool_]:
        calls: NDArray[np.bool_] = (relocations.kind == CALL) & relocations.external
        return calls

    def make(self, address: int, target: Function, toc: int) -> bytes:
        if target.code == 0xBAD:
            raise ValueError("bad target")
        return bytes(4) + target.code.to_bytes(4, "big")

    def target(self, address: int, stub: bytes, toc: int) -> int | None:
        return int.from_bytes(stub[4:], "big")


def table(room: int) -> StubTable:
    return StubTable(
        Eight(Stub(size=8, align=8, code=4)),
        "mod",
        BASE,
        room,
        TOC,
        lambda pointer: Function(pointer + 1),
    )


def relocations(symbols: list[int], external: list[bool], kind: int = CALL) -> Relocations:
    count = len(symbols)
    return Relocations(
        kind=np.full(count, kind, np.uint32),
        offset=np.arange(0, 4 * count, 4, dtype=np.uint64),
        place=np.arange(0, 4 * count, 4, dtype=np.uint64),
        symbol=np.array(symbols, np.uint64),
        addend=np.zeros(count, np.int64),
        external=np.array(external, np.bool_),
        stub=np.zeros(count, np.bool_),
        toc=TOC,
    )


def test_calls_of_one_function_share_a_stub() -> None:
    stubs = table(64)
    found = stubs.redirect(
        relocations([0x100, 0x200, 0x100, 0x300], [True, True, True, False]), list("abac")
    )
    assert found.symbol.tolist() == [BASE, BASE + 8, BASE, 0x300]
    assert found.stub.tolist() == [True, True, True, False]
    first, second = stubs.made
    assert (first.address, first.target, first.symbol, first.toc) == (BASE, 0x101, "a", TOC)
    assert (second.address, second.target, second.symbol) == (BASE + 8, 0x201, "b")
    assert second.code == bytes(4) + (0x201).to_bytes(4, "big")


def test_near_calls_and_data_get_no_stub() -> None:
    stubs = table(64)
    before = relocations([0x100], [True], kind=1)
    assert stubs.redirect(before, ["a"]) is before
    assert stubs.made == ()


def test_a_stub_without_room_is_refused() -> None:
    stubs = table(15)
    stubs.stub_for(0x100, "a")
    with pytest.raises(ModuleError, match="no room"):
        stubs.stub_for(0x200, "b")
    assert stubs.stub_for(0x100, "a") == BASE


def test_a_stub_that_cannot_be_made_is_the_modules_error() -> None:
    with pytest.raises(ModuleError, match="module mod: cannot make a stub of far: bad target"):
        table(64).stub_for(0xBAC, "far")
