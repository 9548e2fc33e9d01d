"""The contents of one CPU's ring buffer, detached from the buffer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...abi import RB_PAGE_SIZE

COUNTERS = (
    *("write_stamp", "entries", "overrun", "dropped"),
    *("commit_overrun", "read_events"),
)
"""Fields of `struct ring_buffer_cpu` that belong to the events."""


def _no_pages() -> NDArray[np.uint8]:
    return np.zeros((0, RB_PAGE_SIZE), np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """The events of one CPU with their counters; empty by default."""

    pages: NDArray[np.uint8] = field(default_factory=_no_pages)
    """The pages from head to tail, shape (p, 4096)."""
    read: int = 0
    """Bytes of the first page's data that have been consumed."""
    counters: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))
    overrun_seen: int = 0
    """Number of overwritten events that a consuming read has reported."""

    def lost(self, present: int) -> int:
        """Return how many events were overwritten unread, if `present` are still there."""
        return max(self.counters["entries"] - self.counters["read_events"] - present, 0)
