"""What a CPU's ring buffer holds, apart from the buffer: to be put into it, or kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..abi import RB_PAGE_SIZE

COUNTERS = (
    *("write_stamp", "entries", "entries_bytes", "overrun", "dropped"),
    *("commit_overrun", "read_events"),
)
"""Fields of `struct ring_buffer_cpu` that go with the events."""


def _no_pages() -> NDArray[np.uint8]:
    return np.zeros((0, RB_PAGE_SIZE), np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """The events of one CPU with their counters; without arguments none."""

    pages: NDArray[np.uint8] = field(default_factory=_no_pages)
    """From head to tail, shape (p, 4096)."""
    read: int = 0
    """Bytes of the first page's data that were consumed."""
    counters: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))
    overrun_seen: int = 0
    """How many of the overwritten events a consuming read has told of."""

    def lost(self, present: int) -> int:
        """Events overwritten before anyone consumed them, when `present` are there."""
        return max(self.counters["entries"] - self.counters["read_events"] - present, 0)
