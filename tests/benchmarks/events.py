"""Five million events: memory, and the speed of seeking and filtering."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dynftrace.core.abi import RB_PAGE_HEADER, RB_PAGE_SIZE, TraceType
from dynftrace.core.trace.buffer.events import EventTable
from dynftrace.core.trace.buffer.subbuffer import PageFormat
from dynftrace.core.trace.select.explorer import TraceExplorer
from dynftrace.core.trace.text.defaultformat import default_text
from dynftrace.core.trace.text.textcontext import TextContext

from .measure import Row, at_most, median, paired, seconds

EVENTS = 5_000_000
CPUS = 2
FUNCTIONS = 2_000
NEEDLE = "function_1999"
LITTLE = PageFormat("little", 8)


class Names:
    """Symbols of made-up functions, 64 bytes apart."""

    def names_of(self, addresses: NDArray[np.uint64]) -> list[str]:
        return [f"function_{address >> 6}" for address in addresses.tolist()]

    def format(self, address: int) -> str:
        return f"function_{address >> 6}+0x0/0x40"


def pages(cpu: int, events: int) -> NDArray[np.uint8]:
    """Return full sub-buffers of function events, one every 100 ns, shape (p, 4096)."""
    layout = LITTLE.function_event()
    each = (RB_PAGE_SIZE - RB_PAGE_HEADER) // layout.itemsize
    count = events // each
    rows = np.zeros((count, each), layout)
    number = np.arange(count * each).reshape(count, each)
    rows["header"] = np.where(np.arange(each) == 0, 0, 100) << 5 | 6
    rows["type"] = TraceType.FN
    rows["pid"] = 1 + number % 7
    # The needle is only in the last hundredth, so a search has to scan the rest.
    common = number * 7919 % (FUNCTIONS - 1)
    rows["ip"] = np.where(number == int(count * each * 0.995), FUNCTIONS - 1, common) << 6
    rows["parent"] = (number * 104_729 % 97) << 6
    built = np.zeros((count, RB_PAGE_SIZE), np.uint8)
    head = built[:, :RB_PAGE_HEADER].view("<u8")
    head[:, 0] = np.arange(count) * each * 100 + cpu
    head[:, 1] = each * layout.itemsize
    built[:, RB_PAGE_HEADER : RB_PAGE_HEADER + each * layout.itemsize] = rows.view(
        np.uint8
    ).reshape(count, -1)
    return built


def rows() -> Iterator[Row]:
    """Yield memory, decoding, seek and filter of one large table."""
    raw = [pages(cpu, EVENTS // CPUS) for cpu in range(CPUS)]

    def decode() -> EventTable:
        return EventTable.merge(
            (cpu, part) for cpu in range(CPUS) for part in LITTLE.decode_all(raw[cpu])
        )

    took = seconds(decode)
    table = decode()
    weight = (table.events.nbytes + table.addresses.nbytes) / len(table)
    yield Row(
        "5 M events: memory",
        f"{weight:.1f} B/event",
        weight / LITTLE.function_size,
        "the event's size in the ring buffer",
        "<= 24 B/event",
        weight < 24.5,
    )
    text = default_text(table, TextContext(Names(), cpus=CPUS))
    seek = median(lambda: text.texts(len(table) - 50, len(table)))
    yield Row(
        "5 M events: seek to the end and format 50",
        f"{seek * 1e3:.2f} ms",
        seek / took,
        "decoding them",
        "<= 50 ms",
        seek <= 0.050,
    )
    ip = (FUNCTIONS - 1) << 6
    chosen = median(lambda: table.rows_of(ip))
    yield Row(
        "5 M events: filter by function",
        f"{chosen * 1e3:.1f} ms",
        chosen / took,
        "decoding them",
        "<= 50 ms",
        chosen <= 0.050,
    )
    trace = TraceExplorer(text)
    found = trace.find(NEEDLE, 0, 1)
    assert found is not None
    pair = paired(lambda: trace.find(NEEDLE, 0, 1), decode, rounds=5)
    yield at_most(
        "5 M events: search through nearly all",
        f"{pair.a * 1e3:.1f} ms",
        pair.ratio,
        "decoding them",
        0.03,
    )
