"""Reads the same ring buffers repeatedly, and decodes only what is new.

A full page does not change until the guest needs it for new events, so most pages are
the same in consecutive readings. Pages are compared byte by byte, not by counters, so the
result always equals a full decoding, whatever happened to the buffer in between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...abi import RB_PAGE_SIZE
from .details import KINDS, Collector, Details, concatenate, moved
from .events import EVENT, Addresses, EventTable, Part
from .ringbuffer import RingBuffer

MOST_PAGES = 8192
"""Maximum pages in use on a CPU; above it, all pages are decoded each time, without a cache."""

MOST_ADDRESSES = 1 << 16
"""Maximum number of addresses; above it, most belong to overwritten events, and all are dropped."""


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    """The pages of one CPU, and their events.

    `events_at`, shape (p + 1,), and `details_at`, shape (p + 1, kinds of details), hold
    where each page's rows begin, and the end.
    """

    head: int
    pages: NDArray[np.uint8]
    events: NDArray[np.void]
    events_at: NDArray[np.intp]
    details: Details
    details_at: NDArray[np.intp]
    damaged: NDArray[np.bool_]

    @classmethod
    def nothing(cls, registers: int) -> _Reading:
        return cls(
            0,
            np.empty((0, RB_PAGE_SIZE), np.uint8),
            np.empty(0, EVENT),
            np.zeros(1, np.intp),
            Collector(registers).details(),
            np.zeros((1, len(KINDS)), np.intp),
            np.empty(0, np.bool_),
        )

    def part(self, cpu: int, first: int = 0) -> Part:
        """Return the events from page `first` on."""
        rest = self.cut(self.head, first, len(self.pages))
        return Part(cpu, rest.events, rest.details, int(rest.damaged.sum()))

    def cut(self, head: int, first: int, stop: int) -> _Reading:
        """Return only pages `first` to `stop` (exclusive); `head` is the position of the first."""
        low, high = self.events_at[first], self.events_at[stop]
        start, end = self.details_at[first], self.details_at[stop]
        return _Reading(
            head,
            self.pages[first:stop],
            moved(self.events[low:high], -start),
            self.events_at[first : stop + 1] - low,
            self.details.cut(start, end),
            self.details_at[first : stop + 1] - start,
            self.damaged[first:stop],
        )


class Follower:
    """Like `ring.events`, but decodes only events that are new since the last call.

    The table's `addresses` may contain some that no event uses any more.
    """

    def __init__(self, ring: RingBuffer) -> None:
        self._ring = ring
        self._addresses = Addresses()
        self._readings = [_Reading.nothing(ring.layout.registers) for _ in ring.cpus]

    def events(self) -> EventTable:
        """Return the events in the buffers of all CPUs, without consuming them."""
        ring = self._ring
        big = max(ring.used_pages(cpu) for cpu in ring.cpus) > MOST_PAGES
        if big or len(self._addresses) > MOST_ADDRESSES:
            self._addresses = Addresses()
            self._readings = [_Reading.nothing(ring.layout.registers) for _ in ring.cpus]
        if big:
            return ring.events()
        parts = [part for cpu in ring.cpus for part in self._read(cpu)]
        return EventTable.join(parts, self._addresses)

    def _read(self, cpu: int) -> list[Part]:
        """Return the unread events of a partly read first page, and the events of all others."""
        ring = self._ring
        head, read = ring.head(cpu)
        self._readings[cpu] = reading = self._update(cpu, head, ring.pages(cpu))
        if not read or not len(reading.pages):
            return [reading.part(cpu)]
        (first,) = ring.decode(reading.pages[:1], read)
        return [Part.of(cpu, first, self._addresses), reading.part(cpu, 1)]

    def _update(self, cpu: int, head: int, pages: NDArray[np.uint8]) -> _Reading:
        """Return the reading of `pages`; `head` is the position of the first."""
        old = self._readings[cpu]
        gone = min((head - old.head) % self._ring.size_pages(cpu), len(old.pages))
        common = min(len(old.pages) - gone, len(pages))
        words = old.pages[gone : gone + common].view(np.uint64)
        changed = np.flatnonzero((words != pages[:common].view(np.uint64)).any(axis=1))
        kept = old.cut(head, gone, gone + (int(changed[0]) if len(changed) else common))
        return self._add(cpu, kept, pages)

    def _add(self, cpu: int, kept: _Reading, pages: NDArray[np.uint8]) -> _Reading:
        """Return `kept`, the reading of the first pages, extended by the remaining `pages`."""
        events, details = [kept.events], [kept.details]
        start = len(kept.pages)
        event_counts, detail_counts = [np.diff(kept.events_at)], [np.diff(kept.details_at, axis=0)]
        known = kept.details.counts
        damaged = [kept.damaged]
        for decoded in self._ring.layout.decode_all(pages[start:]):
            part = Part.of(cpu, decoded, self._addresses)
            page, count = decoded.events["page"], len(decoded.damaged)
            event_counts.append(np.bincount(page, minlength=count))
            by_kind = [page[part.events["type"] == kind] for kind in KINDS]
            detail_counts.append(
                np.stack([np.bincount(each, minlength=count) for each in by_kind], axis=1)
            )
            events.append(moved(part.events, known))
            details.append(part.details)
            known = known + part.details.counts
            damaged.append(decoded.damaged)
        return _Reading(
            kept.head,
            pages,
            concatenate(events),
            _starts(event_counts),
            Details.joined(details),
            _starts(detail_counts),
            np.concatenate(damaged),
        )


def _starts(counts: list[NDArray[np.intp]]) -> NDArray[np.intp]:
    """Return where each page's rows begin, and the end, from counts of shape (p,) or (p, kinds)."""
    joined = np.cumsum(np.concatenate(counts), axis=0)
    return np.concatenate([np.zeros_like(joined, shape=(1, *joined.shape[1:])), joined])
