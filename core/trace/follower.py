"""Reads the same ring buffers again and again, and decodes only what is new.

A full page does not change until the guest needs it for new events, so from one
reading to the next most pages are the same. They are compared byte by byte with
those of the last reading, not told from counters: what is taken over is by
construction what decoding would give, whatever became of the buffer meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..abi import RB_PAGE_SIZE, TraceType
from .events import EVENT, HIT, Addresses, EventTable, Part, moved
from .ringbuffer import RingBuffer
from .subbuffer import PageFormat, concatenate, hit_layout

MOST_PAGES = 8192
"""When a CPU's buffer has more pages in use, all are decoded each time, and nothing is kept."""

MOST_ADDRESSES = 1 << 16
"""With more addresses than this, most of them probably of events long gone, start anew."""


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    """The pages of one CPU, and their events.

    `events_at`, `texts_at` and `hits_at` have p + 1 entries: where each page's part
    begins, and the end.
    """

    head: int
    pages: NDArray[np.uint8]
    events: NDArray[np.void]
    events_at: NDArray[np.intp]
    texts: tuple[bytes, ...]
    texts_at: NDArray[np.intp]
    hits: NDArray[np.void]
    hits_at: NDArray[np.intp]
    damaged: NDArray[np.bool_]

    @classmethod
    def nothing(cls, layout: PageFormat) -> _Reading:
        return cls(
            0,
            np.empty((0, RB_PAGE_SIZE), np.uint8),
            np.empty(0, EVENT),
            np.zeros(1, np.intp),
            (),
            np.zeros(1, np.intp),
            np.empty(0, hit_layout(layout.registers)),
            np.zeros(1, np.intp),
            np.empty(0, np.bool_),
        )

    def part(self, cpu: int, first: int = 0) -> Part:
        """The events from page `first` on."""
        rest = self.cut(self.head, first, len(self.pages))
        return Part(cpu, rest.events, rest.texts, rest.hits, int(rest.damaged.sum()))

    def cut(self, head: int, first: int, stop: int) -> _Reading:
        """Only the pages from `first` to `stop` (exclusive), the first of which is at `head`."""
        low, high = self.events_at[first], self.events_at[stop]
        texts, texts_end = int(self.texts_at[first]), int(self.texts_at[stop])
        hits, hits_end = int(self.hits_at[first]), int(self.hits_at[stop])
        events = moved(self.events[low:high], -texts, -hits)
        return _Reading(
            head,
            self.pages[first:stop],
            events,
            self.events_at[first : stop + 1] - low,
            self.texts[texts:texts_end],
            self.texts_at[first : stop + 1] - texts,
            self.hits[hits:hits_end],
            self.hits_at[first : stop + 1] - hits,
            self.damaged[first:stop],
        )


class Follower:
    """Gives the events of `ring` as `ring.events` does, at the cost of the new ones.

    The table's `addresses` may hold some that no event has any more.
    """

    def __init__(self, ring: RingBuffer) -> None:
        self._ring = ring
        self._addresses = Addresses()
        self._readings = [_Reading.nothing(ring.layout) for _ in ring.cpus]

    def events(self) -> EventTable:
        """What is in the buffers of all CPUs; it stays there."""
        ring = self._ring
        big = max(ring.used_pages(cpu) for cpu in ring.cpus) > MOST_PAGES
        if big or len(self._addresses) > MOST_ADDRESSES:
            self._addresses = Addresses()
            self._readings = [_Reading.nothing(ring.layout) for _ in ring.cpus]
        if big:
            return ring.events()
        parts = [part for cpu in ring.cpus for part in self._read(cpu)]
        return EventTable.join(parts, self._addresses)

    def _read(self, cpu: int) -> list[Part]:
        """The parts of one CPU: what is unread of a half-read page, and all others."""
        ring = self._ring
        head, read = ring.head(cpu)
        self._readings[cpu] = reading = self._update(cpu, head, ring.pages(cpu))
        if not read or not len(reading.pages):
            return [reading.part(cpu)]
        (first,) = ring.decode(reading.pages[:1], read)
        return [Part.of(cpu, first, self._addresses), reading.part(cpu, 1)]

    def _update(self, cpu: int, head: int, pages: NDArray[np.uint8]) -> _Reading:
        """The reading of `pages`, the first of which is at `head`."""
        old = self._readings[cpu]
        gone = min((head - old.head) % self._ring.size_pages(cpu), len(old.pages))
        common = min(len(old.pages) - gone, len(pages))
        words = old.pages[gone : gone + common].view(np.uint64)
        changed = np.flatnonzero((words != pages[:common].view(np.uint64)).any(axis=1))
        kept = old.cut(head, gone, gone + (int(changed[0]) if len(changed) else common))
        return self._add(cpu, kept, pages)

    def _add(self, cpu: int, kept: _Reading, pages: NDArray[np.uint8]) -> _Reading:
        """`kept`, the reading of the first of `pages`, and all that follow."""
        events, texts, hits = [kept.events], list(kept.texts), [kept.hits]
        start = len(kept.pages)
        event_counts, text_counts = [np.diff(kept.events_at)], [np.diff(kept.texts_at)]
        hit_counts = [np.diff(kept.hits_at)]
        damaged = [kept.damaged]
        for decoded in self._ring.layout.decode_all(pages[start:]):
            part = Part.of(cpu, decoded, self._addresses)
            events.append(moved(part.events, len(texts), sum(map(len, hits))))
            texts.extend(part.texts)
            hits.append(part.hits)
            page, count = decoded.events["page"], len(decoded.damaged)
            event_counts.append(np.bincount(page, minlength=count))
            for kind, counts in ((TraceType.PRINT, text_counts), (HIT, hit_counts)):
                of_kind = page[part.events["type"] == kind]
                counts.append(np.bincount(of_kind, minlength=count))
            damaged.append(decoded.damaged)
        return _Reading(
            kept.head,
            pages,
            concatenate(events),
            _starts(event_counts),
            tuple(texts),
            _starts(text_counts),
            concatenate(hits),
            _starts(hit_counts),
            np.concatenate(damaged),
        )


def _starts(counts: list[NDArray[np.intp]]) -> NDArray[np.intp]:
    """Where each page's part begins, and the end, of counts a page."""
    return np.concatenate([np.zeros(1, np.intp), np.cumsum(np.concatenate(counts))])
