"""System call events: their bytes in the buffer, the guest's metadata, and their text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynftrace.core import abi
from dynftrace.core.events.syscalls import Syscall, events_of, read_syscalls
from dynftrace.core.machine.memory import Memory
from dynftrace.core.trace.buffer.details import SYSCALL
from dynftrace.core.trace.buffer.events import EventTable
from dynftrace.core.trace.buffer.subbuffer import PageFormat
from dynftrace.core.trace.select.explorer import TraceExplorer
from dynftrace.core.trace.text.defaultformat import default_text
from dynftrace.core.trace.text.graphformat import graph_text
from dynftrace.core.trace.text.textcontext import TextContext, TextOptions

from ..trace.buffer.pages import Page
from ..trace.text.test_defaultformat import Symbols

LAYOUTS = [("little", 8), ("big", 8), ("little", 4), ("big", 4)]

OPEN = Syscall(2, "sys_open", (("const char *", "filename"), ("int", "flags")))
GETPID = Syscall(9, "sys_getpid")
EVENTS = {event.number: event for event in events_of((OPEN, GETPID))}
ENTER, EXIT = 0x104, 0x105


def decoded(*pages: Page) -> EventTable:
    first = pages[0]
    layout = PageFormat(first.byteorder, first.pointer_size, 2)
    rows = np.frombuffer(b"".join(page.bytes() for page in pages), np.uint8).reshape(-1, 4096)
    return EventTable.merge([(0, layout.decode(rows))])


def shown(table: EventTable, **options: bool) -> list[str]:
    options = {"context_info": False, **options}
    return default_text(table, context(**options)).texts(0, len(table))


def context(**options: bool) -> TextContext:
    return TextContext(Symbols(), TextOptions(**options), syscalls=EVENTS)


def test_each_call_has_two_events_with_different_ids() -> None:
    assert {number: event.name for number, event in EVENTS.items()} == {
        0x104: "sys_enter_open",
        0x105: "sys_exit_open",
        0x112: "sys_enter_getpid",
        0x113: "sys_exit_getpid",
    }
    last = events_of((Syscall(abi.SYSCALLS_MAX - 1, "sys_last"),))[-1]
    assert last.number == abi.FIRST_EVENT_ID - 1


@pytest.mark.parametrize(("byteorder", "pointer_size"), LAYOUTS)
def test_calls_are_decoded_and_formatted(byteorder: str, pointer_size: int) -> None:
    ones = (1 << 8 * pointer_size) - 1
    page = Page(byteorder, pointer_size, stamp=5)
    page.call(0, ENTER, 2, [0x7F00, 0x242], pid=7).function(1, 0x1000, 0x2000)
    page.call(1, EXIT, 2, [ones - 1], pid=7).call(1, 0x112, 9, []).call(1, 0x113, 9, [7])
    table = decoded(page)
    assert table.damaged == 0
    assert table.events["type"].tolist() == [SYSCALL, 1, SYSCALL, SYSCALL, SYSCALL]
    assert table.events["ts"].tolist() == [5, 6, 7, 8, 9]
    assert table.details.calls["values"][:, :2].tolist()[0] == [0x7F00, 0x242]
    assert [line for line in shown(table) if line.startswith("sys_")] == [
        "sys_open(filename: 7f00, flags: 242)",
        f"sys_open -> {ones - 1:#x}",
        "sys_getpid()",
        "sys_getpid -> 0x7",
    ]
    text = TraceExplorer(default_text(table, context()))
    assert text.find("7f00", 0, 1) == 0 and text.find("getpid ->", 0, 1) == 4
    assert text.find("sys_getpid", 4, -1) == 4


def test_trace_options_change_the_text() -> None:
    table = decoded(Page().call(0, ENTER, 2, [1, 2]))
    assert shown(table, verbose=True) == ["sys_open(const char * filename: 1, int flags: 2)"]
    assert shown(table, raw=True) == [f"type: {ENTER}"]
    assert shown(table, hex=True) == [f"type: {ENTER}"]


def test_an_event_of_the_wrong_size_is_shown_as_unknown() -> None:
    page = Page().call(0, ENTER, 3, [1, 2]).call(0, ENTER, 2, [1]).call(0, 0x300, 2, [])
    page.event(0, page.entry(ENTER, 0, 0, 1) + bytes(4)).event(0, page.entry(0xFE, 0, 0, 1))
    page.call(0, EXIT, 2, list(range(9)))
    table = decoded(page)
    assert shown(table) == [
        *("Unknown type 260", "Unknown type 260", "Unknown type 768"),
        *("Unknown type 0", "Unknown type 254", "sys_open -> 0x0"),
    ]
    assert table.details.calls["count"].tolist() == [2, 1, 0, 6]


def test_events_of_several_pages_and_cpus_stay_apart() -> None:
    layout = PageFormat("little", 8, 2)

    def pages(cpu: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        built = [Page(stamp=at * 100 + cpu) for at in range(3)]
        for at, page in enumerate(built):
            page.call(0, ENTER, 2, [cpu, at]).text(1, 0x1000, b"x")
        data = b"".join(page.bytes() for page in built)
        return np.frombuffer(data, np.uint8).reshape(-1, 4096)

    table = EventTable.merge([(cpu, layout.decode(pages(cpu))) for cpu in range(2)])
    assert [line for line in shown(table) if "sys" in line] == [
        f"sys_open(filename: {cpu:x}, flags: {at:x})" for at in range(3) for cpu in range(2)
    ]


def test_in_a_graph_syscall_events_are_comments() -> None:
    page = Page()
    entry = page.entry(abi.TraceType.GRAPH_ENT, 0, 0, 1)
    for depth in (0, 1):
        page.event(0, entry + (0x1000).to_bytes(8, "little") + depth.to_bytes(4, "little"))
    page.call(0, ENTER, 2, [1, 2])
    lines = graph_text(decoded(page), context()).texts(0, 3)
    assert lines[2] == " 0)               |      /* sys_open(filename: 1, flags: 2) */"


# The guest's metadata


BASE = 0x10000


@dataclass
class Guest:
    """Memory with a handmade metadata table."""

    byteorder: str = "little"
    pointer_size: int = 8

    def __post_init__(self) -> None:
        self.memory = Memory(self.byteorder, self.pointer_size)
        self.memory.map(BASE, 0x4000, "image")
        self.free = BASE + 0x1000

    def place(self, data: bytes) -> int:
        at, self.free = self.free, self.free + -(-len(data) // 16) * 16
        self.memory.write(at, data)
        return at

    def words(self, *values: int) -> bytes:
        size = self.pointer_size
        return b"".join(
            (value % (1 << 8 * size)).to_bytes(size, self.byteorder) for value in values
        )  # type: ignore[arg-type]

    def text(self, text: bytes) -> int:
        return self.place(text + b"\0")

    def entry(self, name: bytes, arguments: list[tuple[bytes, bytes]], count: int) -> int:
        types = [self.text(kind) for kind, _ in arguments]
        names = [self.text(name) for _, name in arguments]
        blank = [0] * (6 - len(arguments))
        return self.place(self.words(self.text(name), count, *types, *blank, *names, *blank))

    def table(self, *entries: int) -> None:
        self.memory.write(BASE, self.words(*entries, 0))

    def read(self) -> tuple[Syscall, ...]:
        return read_syscalls(self.memory, BASE)


FD = (b"unsigned int", b"fd")


@pytest.mark.parametrize(("byteorder", "pointer_size"), LAYOUTS)
def test_metadata_is_read(byteorder: str, pointer_size: int) -> None:
    guest = Guest(byteorder, pointer_size)
    guest.table(
        guest.entry(b"sys_read", [FD, (b"char *", b"buf")], 2), guest.entry(b"sys_getpid", [], 0)
    )
    assert guest.read() == (
        Syscall(0, "sys_read", (("unsigned int", "fd"), ("char *", "buf"))),
        Syscall(1, "sys_getpid"),
    )


@pytest.mark.parametrize(
    ("name", "arguments", "count"),
    [
        (b"read", [], 0),
        (b"sys_", [], 0),
        (b"sys_../x", [], 0),
        (b"sys_\x1b[2J", [], 0),
        (b"sys_" + b"a" * 70, [], 0),
        (b"sys_x", [FD], -1),
        (b"sys_x", [FD], 7),
        (b"sys_x", [FD], 2),
        (b"sys_x", [FD, FD], 2),
        (b"sys_x", [(b"int;\n", b"fd")], 1),
        (b"sys_x", [(b"int", b"f d")], 1),
        (b"sys_x", [(b"", b"fd")], 1),
    ],
)
def test_a_damaged_entry_is_left_out(
    name: bytes, arguments: list[tuple[bytes, bytes]], count: int
) -> None:
    guest = Guest()
    good = guest.entry(b"sys_good", [], 0)
    guest.table(guest.entry(name, arguments, count), 1, BASE + 0x3FFC, good, good)
    assert guest.read() == (Syscall(3, "sys_good"),)


def test_a_table_without_an_end_is_bounded() -> None:
    guest = Guest()
    entry = guest.entry(b"sys_x", [], 0)
    guest.memory.write(BASE, guest.words(*[entry] * 500))
    assert guest.read() == (Syscall(0, "sys_x"),)
    assert read_syscalls(guest.memory, BASE + 0x3FF8) == ()
    assert read_syscalls(guest.memory, 0) == ()


def test_a_string_must_end_by_the_end_of_memory() -> None:
    guest = Guest()
    end = BASE + 0x4000
    guest.memory.write(end - 6, b"sys_x\0")
    guest.table(guest.place(guest.words(end - 6, 0, *[0] * 12)))
    assert guest.read() == (Syscall(0, "sys_x"),)
    guest.memory.write(end - 6, b"sys_xy")
    assert guest.read() == ()


@given(st.binary(min_size=0, max_size=400))
def test_random_bytes_are_not_a_table(noise: bytes) -> None:
    guest = Guest()
    guest.memory.write(BASE, noise)
    assert all(call.name.startswith("sys_") for call in guest.read())
