"""The events of all CPUs in one table, oldest first.

An event takes 24 bytes. Each address is stored once and events hold its number, so each
name is looked up once, and five million events take 120 MB.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...abi import (
    FIRST_EVENT_ID,
    FIRST_PROBE_EVENT_ID,
    FIRST_SYSCALL_ID,
    FIRST_TRACE_EVENT_ID,
    TraceType,
)
from ...distinct import distinct
from .details import EVENT as TRACE_EVENT
from .details import HIT, KINDS, RECORDS, SYSCALL, Details, concatenate, moved
from .subbuffer import Decoded

EVENT = np.dtype(
    [
        ("ts", "u8"),
        ("ip", "u4"),
        ("parent", "u4"),
        ("pid", "i4"),
        ("cpu", "u1"),
        ("flags", "u1"),
        ("preempt", "u1"),
        ("type", "u1"),
    ]
)
"""An event. `ip` and `parent` are numbers of `EventTable.addresses`; but the `parent` of an event
with details is its row there, and that of a `GRAPH_ENT` its depth. `type` is a `TraceType`, `HIT`,
`SYSCALL` or `TRACE_EVENT`, or 0 for a type that does not fit into a byte."""

_NO_PARENT = (
    *(TraceType.STACK, TraceType.PRINT, TraceType.GRAPH_ENT, TraceType.GRAPH_RET),
    TraceType.CTX,
)
"""Types of events without a caller's address."""

_SLOT_BITS = 16

_BLOCK = 1 << 16
"""Number of events counted at once, small enough for the processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class EventTable:
    """Events by (time, CPU, order in the CPU's buffer): EVENT records, shape (n,)."""

    events: NDArray[np.void] = field(default_factory=lambda: np.empty(0, EVENT))
    addresses: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    details: Details = field(default_factory=Details)
    damaged: int = 0
    """Number of sub-buffer pages that could not be read to their end."""

    def __len__(self) -> int:
        return len(self.events)

    @classmethod
    def merge(cls, buffers: Iterable[tuple[int, Decoded]]) -> EventTable:
        """Return the events of all CPUs; `buffers` are decoded pages by CPU, both in order."""
        addresses = Addresses()
        parts = [Part.of(cpu, decoded, addresses) for cpu, decoded in buffers]
        return cls.join(parts, addresses)

    @classmethod
    def join(cls, parts: Iterable[Part], addresses: Addresses) -> EventTable:
        """Return the events of `parts`, which come in order of CPU and position."""
        details: list[Details] = []
        known = np.zeros(len(KINDS), np.intp)
        tables: list[NDArray[np.void]] = []
        damaged = 0
        keys: list[NDArray[np.uint64]] = []
        latest: dict[int, np.uint64] = {}
        for part in parts:
            table = moved(part.events, known)
            details.append(part.details)
            known += part.details.counts
            damaged += part.damaged
            tables.append(table)
            # In a damaged page times can go back; the order of its events is kept.
            key = np.maximum.accumulate(table["ts"])
            if len(key):
                np.maximum(key, latest.get(part.cpu, np.uint64(0)), out=key)
                latest[part.cpu] = key[-1]
            keys.append(key)
        events = concatenate(tables) if tables else np.empty(0, EVENT)
        times = np.concatenate(keys) if keys else np.empty(0, np.uint64)
        if (times[1:] < times[:-1]).any():
            events = events.take(np.argsort(times, kind="stable"))
        return cls(events, addresses.known(), Details.joined(details), damaged)

    def take(self, rows: NDArray[np.intp] | slice) -> EventTable:
        """Return a table of only these events."""
        return EventTable(self.events[rows], self.addresses, self.details, self.damaged)

    def ips(self) -> NDArray[np.uint64]:
        """Return the traced address of every event."""
        found: NDArray[np.uint64] = self.addresses[self.events["ip"]]
        return found

    def entries(self) -> NDArray[np.int64]:
        """Return how often each address was entered: function events and calls of a graph.

        Shape (addresses,). A million events take 5 ms.
        """
        count = len(self.addresses)
        found = np.zeros(count, np.int64)
        for start in range(0, len(self), _BLOCK):
            block = self.events[start : start + _BLOCK]
            kinds = block["type"]
            counted = (kinds == TraceType.FN) | (kinds == TraceType.GRAPH_ENT)
            # Other events are counted for number 0, address 0, which belongs to no function.
            numbers = block["ip"] if counted.all() else block["ip"] * counted
            found += np.bincount(numbers, minlength=count)
        if count:
            found[0] = 0
        return found

    def last_hit(
        self, stop: int | None = None, latest: int | None = None, cpu: int | None = None
    ) -> int | None:
        """Return the last hit of an fprobe, or None.

        Arguments limit the search to events before `stop`, up to the time stamp `latest`,
        and of `cpu`.
        """
        events = self.events[:stop]
        wanted = events["type"] == HIT
        if latest is not None:
            wanted &= events["ts"] <= np.uint64(min(latest, 2**64 - 1))
        if cpu is not None:
            wanted &= events["cpu"] == cpu
        rows = np.flatnonzero(wanted)
        return int(rows[-1]) if len(rows) else None

    def rows_of(self, ip: int) -> NDArray[np.intp]:
        """Return the function events at address `ip`."""
        known = np.flatnonzero(self.addresses == np.uint64(ip))
        if not len(known):
            return np.empty(0, np.intp)
        events = self.events
        return np.flatnonzero((events["ip"] == known[0]) & (events["type"] == TraceType.FN))


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some events of one CPU's buffer as EVENT records, shape (n,), in the buffer's order."""

    cpu: int
    events: NDArray[np.void]
    details: Details
    damaged: int

    @classmethod
    def of(cls, cpu: int, decoded: Decoded, addresses: Addresses) -> Part:
        """Return the events of decoded pages, adding their addresses to `addresses`."""
        raw = decoded.events
        events = np.empty(len(raw), EVENT)
        for name in ("ts", "pid", "flags", "preempt"):
            events[name] = raw[name]
        events["cpu"] = cpu
        probed = raw["type"] >= FIRST_PROBE_EVENT_ID
        hit = (raw["type"] >= FIRST_EVENT_ID) & ~probed
        call = (raw["type"] >= FIRST_SYSCALL_ID) & ~hit & ~probed
        traced = (raw["type"] >= FIRST_TRACE_EVENT_ID) & (raw["type"] < FIRST_SYSCALL_ID)
        traced |= probed | np.isin(raw["type"], RECORDS)
        events["type"] = np.where(raw["type"] < FIRST_TRACE_EVENT_ID, raw["type"], 0)
        events["type"][hit], events["type"][call] = HIT, SYSCALL
        events["type"][traced] = TRACE_EVENT
        events["ip"] = addresses.indices(raw["ip"])
        elsewhere = hit | call | traced | np.isin(raw["type"], _NO_PARENT)
        events["parent"] = addresses.indices(np.where(elsewhere, np.uint64(0), raw["parent"]))
        events["parent"][elsewhere] = raw["parent"][elsewhere]
        return cls(cpu, events, decoded.details, int(decoded.damaged.sum()))


class Addresses:
    """Distinct addresses, numbered in order of their first use.

    A hash table with one address for each slot finds most of them; the few that share a
    slot are searched in the sorted list.
    """

    def __init__(self) -> None:
        self._sorted = np.empty(0, np.uint64)
        self._number = np.empty(0, np.uint32)
        self._slot_address = np.zeros(1 << _SLOT_BITS, np.uint64)
        self._slot_number = np.zeros(1 << _SLOT_BITS, np.uint32)

    def __len__(self) -> int:
        return len(self._number)

    def known(self) -> NDArray[np.uint64]:
        """Return the addresses by number."""
        known = np.empty_like(self._sorted)
        known[self._number] = self._sorted
        return known

    def indices(self, addresses: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """Return the number of each address, adding new ones."""
        if not len(self._number):
            # An empty slot holds address 0, so that must be number 0.
            self._add(np.zeros(1, np.uint64))
        slot = _slot(addresses)
        numbers: NDArray[np.uint32] = self._slot_number[slot]
        others = np.flatnonzero(self._slot_address[slot] != addresses)
        if len(others):
            rest = addresses[others]
            self._add(rest)
            numbers[others] = self._number[np.searchsorted(self._sorted, rest)]
        return numbers

    def _add(self, addresses: NDArray[np.uint64]) -> None:
        new = np.setdiff1d(distinct(addresses), self._sorted, assume_unique=True)
        if not len(new):
            return
        count = len(self._number)
        numbers = np.arange(count, count + len(new), dtype=np.uint32)
        slot = _slot(new)
        self._slot_address[slot] = new
        self._slot_number[slot] = numbers
        joined = np.concatenate([self._sorted, new])
        order = np.argsort(joined)
        self._sorted = joined[order]
        self._number = np.concatenate([self._number, numbers])[order]


def _slot(addresses: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Fibonacci hashing: the high bits of the product with 2**64 / golden ratio."""
    mixed = addresses * np.uint64(0x9E37_79B9_7F4A_7C15)
    return mixed >> np.uint64(64 - _SLOT_BITS)
