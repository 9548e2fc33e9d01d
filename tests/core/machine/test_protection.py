"""Protected pages: what cannot be read or written, and what a machine's CPUs see."""

from __future__ import annotations

import numpy as np
import pytest

from dynftrace.core.errors import MemoryFault
from dynftrace.core.machine.memory import PAGE_SIZE, Memory
from dynftrace.core.machine.protection import Protection
from dynftrace.core.machine.snapshot import Snapshots

TEXT = 0xFFFF_FFFF_8100_0000
PAGE = TEXT + PAGE_SIZE
DATA = TEXT + 3 * PAGE_SIZE


@pytest.fixture
def memory() -> Memory:
    memory = Memory("little", 8)
    memory.map(TEXT, 3 * PAGE_SIZE, "text", writable=False)
    memory.map(DATA, PAGE_SIZE, "data", executable=False)
    memory.write(TEXT, bytes(range(256)) * 48)
    return memory


def at(*addresses: int) -> np.ndarray:
    return np.array(addresses, np.uint64)


def test_a_page_that_is_not_mapped_cannot_be_read_or_written(memory: Memory) -> None:
    assert memory.protect(PAGE + 7, Protection.NONE) == PAGE
    for address, size in ((PAGE, 1), (PAGE - 2, 4), (PAGE + PAGE_SIZE - 1, 2), (TEXT, 0x2800)):
        with pytest.raises(MemoryFault, match="not mapped"):
            memory.read(address, size)
        with pytest.raises(MemoryFault, match="not mapped"):
            memory.write(address, bytes(size))
    assert memory.read(PAGE - 2, 2) == b"\xfe\xff"
    assert memory.read(PAGE + PAGE_SIZE, 2) == b"\x00\x01"
    assert memory.read_mapped(PAGE - 2, 9) == b"\xfe\xff"
    found, readable = memory.gather(at(PAGE - 4, PAGE - 3, PAGE, PAGE + PAGE_SIZE), 4)
    assert readable.tolist() == [True, False, False, True]
    assert found[1].tolist() == [0, 0, 0, 0]
    assert memory.mapped(memory.region("text")) == ((TEXT, PAGE), (PAGE + PAGE_SIZE, DATA))


def test_a_page_whose_text_cannot_be_written_can_be_read(memory: Memory) -> None:
    memory.protect(PAGE, Protection.READ_ONLY)
    before = memory.read(TEXT, 3 * PAGE_SIZE)
    with pytest.raises(MemoryFault, match="write-protected"):
        memory.write(PAGE - 1, b"ab")
    places = at(TEXT, PAGE)
    assert memory.writable(places, 4).tolist() == [True, False]
    with pytest.raises(MemoryFault, match=f"{PAGE:#x}.*write-protected"):
        memory.scatter(places, np.zeros((2, 4), np.uint8))
    assert memory.read(TEXT, 3 * PAGE_SIZE) == before
    memory.protect(PAGE, Protection.READ_WRITE)
    memory.write(PAGE - 1, b"ab")
    assert memory.protected == {}


def test_only_code_can_be_protected(memory: Memory) -> None:
    for address in (DATA, DATA + PAGE_SIZE, 0):
        with pytest.raises(MemoryFault, match="only pages of code"):
            memory.protect(address, Protection.NONE)


def test_protections_end_with_their_region_and_are_part_of_a_snapshot(memory: Memory) -> None:
    memory.protect(PAGE, Protection.NONE)
    snapshots = Snapshots(memory)
    image = snapshots.take()
    memory.protect(PAGE, Protection.READ_WRITE)
    memory.protect(TEXT, Protection.READ_ONLY)
    snapshots.restore(image)
    assert memory.protected == {PAGE: Protection.NONE}
    memory.unmap("text")
    assert memory.protected == {}
    snapshots.restore(image)
    assert memory.protected == {PAGE: Protection.NONE}
