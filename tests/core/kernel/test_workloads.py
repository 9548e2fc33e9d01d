"""The guest's table of workloads, intact and damaged."""

from __future__ import annotations

from dynftrace.core.kernel.workloads import MOST, NAME_SIZE, workload_names
from dynftrace.core.machine.memory import Memory

BASE = 0x10000


class Symbols:
    """Symbols: one or none."""

    def __init__(self, address: int | None) -> None:
        self._address = address

    def address(self, name: str) -> int | None:
        return self._address if name == "workloads" else None


def names(content: bytes, size: int = 0x2000, at: int | None = BASE) -> list[str]:
    memory = Memory("little", 8)
    memory.map(BASE, size, "data")
    memory.write(BASE, content)
    return workload_names(memory, Symbols(at))  # type: ignore[arg-type]


def entry(name: bytes) -> bytes:
    return name.ljust(NAME_SIZE, b"\0") + bytes(8)


def test_an_empty_name_ends_the_table() -> None:
    assert names(entry(b"boot") + entry(b"x" * 16) + entry(b"") + entry(b"no")) == [
        "boot",
        "x" * 16,
    ]


def test_a_kernel_without_a_table_has_no_workloads() -> None:
    assert names(b"", at=None) == []
    assert names(b"", at=0x99000) == []


def test_a_table_without_an_end_is_bounded() -> None:
    assert len(names(entry(b"again") * 400, size=0x3000)) == MOST
    # 170 whole entries fit one page; reading must stop at the end of memory.
    assert names(entry(b"again") * 170, size=0x1000) == ["again"] * 170


def test_names_that_are_not_text_are_escaped() -> None:
    assert names(entry(b"\xff\x1b[2J")) == ["\\xff\\x1b[2J"]
