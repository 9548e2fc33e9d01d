"""Guest RAM on the host: reads, writes, overlaps, bounds, and many sites at once."""

from __future__ import annotations

import numpy as np
import pytest

from dynftrace.core.errors import MemoryFault
from dynftrace.core.machine.memory import LIMIT, Memory, Region

TEXT = 0xFFFF_FFFF_8100_0000
TOP = 2**64 - 4096


@pytest.fixture
def memory() -> Memory:
    memory = Memory("little", 8)
    memory.map(TEXT, 0x2000, "text")
    memory.map(TEXT + 0x2000, 0x1000, "data")
    memory.map(TOP, 0x1000, "top")
    return memory


def test_new_memory_is_zero_and_keeps_what_is_written(memory: Memory) -> None:
    assert memory.read(TEXT, 16) == bytes(16)
    memory.write(TEXT + 3, b"\xe8\x01\x02\x03\x04")
    assert memory.read(TEXT + 2, 7) == b"\0\xe8\x01\x02\x03\x04\0"


def test_a_read_and_a_write_cross_from_one_region_to_the_next(memory: Memory) -> None:
    memory.write(TEXT + 0x1FFE, b"abcd")
    assert memory.read(TEXT + 0x1FFD, 6) == b"\0abcd\0"
    assert bytes(memory.region("data").bytes[:2]) == b"cd"


@pytest.mark.parametrize(
    ("address", "size"),
    [(TEXT - 1, 2), (TEXT + 0x2FFF, 2), (0, 1), (TOP + 4095, 2), (2**64, 1), (-1, 1), (TEXT, -1)],
)
def test_unmapped_memory_is_refused(memory: Memory, address: int, size: int) -> None:
    with pytest.raises(MemoryFault) as fault:
        memory.read(address, size)
    assert (fault.value.address, fault.value.size) == (address, size)


def test_a_write_that_does_not_fit_writes_nothing(memory: Memory) -> None:
    with pytest.raises(MemoryFault):
        memory.write(TEXT + 0x2FFE, b"abcd")
    assert memory.read(TEXT + 0x2FFE, 2) == b"\0\0"


@pytest.mark.parametrize(
    ("address", "size", "why"),
    [
        (TEXT + 0x1000, 0x1000, "overlaps text"),
        (TEXT - 0x1000, 0x5000, "overlaps text"),
        (TEXT + 0x10, 0x1000, "not aligned"),
        (TEXT + 0x10000, 100, "not aligned"),
        (0x1000, 0, "outside the address space"),
        (2**64 - 4096, 8192, "outside the address space"),
        (-4096, 4096, "outside the address space"),
        (0, LIMIT, "MB of memory"),
    ],
)
def test_an_impossible_mapping_is_refused(
    memory: Memory, address: int, size: int, why: str
) -> None:
    with pytest.raises(MemoryFault, match=why):
        memory.map(address, size, "new")


def test_a_reserved_range_and_a_duplicate_name_are_refused(memory: Memory) -> None:
    memory.reserve(0x10000, 0x2000, "cpu local")
    with pytest.raises(MemoryFault, match="overlaps cpu local"):
        memory.map(0x11000, 0x1000, "new")
    with pytest.raises(MemoryFault, match="already"):
        memory.map(0x20000, 0x1000, "data")


def test_observers_are_notified_of_all_regions(memory: Memory) -> None:
    seen: list[str] = []
    gone: list[str] = []

    def on_map(region: Region) -> None:
        seen.append(region.name)

    memory.observe(on_map, lambda region: gone.append(region.name))
    memory.map(0x1000, 0x1000, "module")
    assert seen == ["text", "data", "top", "module"]
    memory.unmap("module")
    assert gone == ["module"]
    assert memory.region_at(0x1000) is None
    with pytest.raises(MemoryFault):
        memory.unmap("module")


def test_gather_reads_many_and_marks_the_unmapped(memory: Memory) -> None:
    memory.write(TEXT + 0x10, bytes(range(1, 6)))
    memory.write(TOP + 4091, b"vwxyz")
    addresses = np.array(
        [TEXT + 0x10, TEXT - 2, TOP + 4091, TOP + 4092, 0, TEXT + 0x1FFD], np.uint64
    )
    found, readable = memory.gather(addresses, 5)
    assert readable.tolist() == [True, False, True, False, False, False]
    assert found[0].tobytes() == bytes(range(1, 6))
    assert found[2].tobytes() == b"vwxyz"
    assert not found[~readable].any()


def test_scatter_writes_all_or_nothing(memory: Memory) -> None:
    good = np.array([TEXT, TEXT + 0x2800, TOP], np.uint64)
    data = np.arange(15, dtype=np.uint8).reshape(3, 5)
    memory.scatter(good, data)
    assert [memory.read(int(address), 5) for address in good] == [row.tobytes() for row in data]
    bad = np.array([TEXT, 0x1000, TOP], np.uint64)
    with pytest.raises(MemoryFault) as fault:
        memory.scatter(bad, data[::-1].copy())
    assert fault.value.address == 0x1000
    assert memory.read(TEXT, 5) == data[0].tobytes()


@pytest.mark.parametrize(
    ("offsets", "width", "pages"),
    [([0, 8, 0x1000], 5, [0, 1]), ([0xFFE], 5, [0, 1]), ([0x10], 0x1800, [0, 1]), ([0], 4096, [0])],
)
def test_scatter_names_each_page_of_text_once(
    memory: Memory, offsets: list[int], width: int, pages: list[int]
) -> None:
    seen: list[tuple[str, list[int]]] = []
    memory.observe_text(lambda region, pages: seen.append((region.name, pages.tolist())))
    data = np.arange(2 * width * len(offsets), dtype=np.uint8).reshape(-1, 2 * width)[:, ::2]
    memory.scatter(np.array(offsets, np.uint64) + np.uint64(TEXT), data)
    assert seen == [("text", pages)]
    for offset, row in zip(offsets, data, strict=True):
        assert memory.read(TEXT + offset, width) == row.tobytes()


def test_a_view_writes_through_and_stays_in_its_region(memory: Memory) -> None:
    memory.view(TEXT + 8, 4)[:] = 7
    assert memory.read(TEXT + 8, 4) == b"\7\7\7\7"
    with pytest.raises(MemoryFault):
        memory.view(TEXT + 0x1FFE, 4)


@pytest.mark.parametrize(("order", "first"), [("little", 0x78), ("big", 0x12)])
def test_integers_have_the_guests_byte_order(order: str, first: int) -> None:
    memory = Memory(order, 4)
    memory.map(0x8000_0000, 0x1000, "text")
    memory.write_int(0x8000_0000, 0x1234_5678)
    assert memory.read(0x8000_0000, 1)[0] == first
    assert memory.read_int(0x8000_0000) == 0x1234_5678
    memory.write_int(0x8000_0000, -1)
    assert memory.read_int(0x8000_0000) == 0xFFFF_FFFF
    with pytest.raises(MemoryFault):
        memory.map(0xFFFF_F000, 0x2000, "beyond")
