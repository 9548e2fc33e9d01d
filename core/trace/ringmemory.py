"""Where a ring buffer lies: a region of guest memory for each CPU, mapped as it grows."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..abi import RB_PAGE_SIZE

Descriptor: TypeAlias = NDArray[np.void]
"""A writable view of one `struct ring_buffer_cpu`, shape ()."""


class BufferMemory(Protocol):
    """What is needed of the machine's memory."""

    def map(self, address: int, size: int, name: str, executable: bool = True) -> object:
        """Map zeroed memory, for data alone unless `executable`."""
        ...

    def unmap(self, name: str) -> None:
        """Take it away."""
        ...

    def view(self, address: int, size: int) -> NDArray[np.uint8]:
        """The bytes themselves."""
        ...


class Region:
    """The pages of one CPU. They move between two places when their number changes.

    A change is prepared first and then taken or left, so that the buffers of all
    CPUs change or none.
    """

    def __init__(self, memory: BufferMemory, base: int, room: int, name: str) -> None:
        """Start without pages, in `room` bytes of address space at `base`: half for each place."""
        self.room = room // 2
        """Bytes it can grow to."""
        self.pages = 0
        self._memory = memory
        self._places = ((base, f"{name}.0"), (base + self.room, f"{name}.1"))
        self._now = 0

    @staticmethod
    def limit(pointer_size: int) -> int:
        """Address space for one CPU, bytes: eight fit a 32-bit one."""
        return 1 << 28 if pointer_size == 8 else 1 << 24

    @property
    def address(self) -> int:
        """Of the first page."""
        return self._places[self._now][0]

    def prepare(self, pages: int) -> None:
        """Map `pages` zero pages at the other place. Raises `MemoryFault` when there is no room."""
        address, name = self._places[1 - self._now]
        self._memory.map(address, pages * RB_PAGE_SIZE, name, executable=False)

    def leave(self) -> None:
        """Give back what was prepared."""
        self._memory.unmap(self._places[1 - self._now][1])

    def take(self, pages: int) -> None:
        """Have the pages that were prepared; what was in the old ones is gone."""
        if self.pages:
            self._memory.unmap(self._places[self._now][1])
        self._now = 1 - self._now
        self.pages = pages

    def save(self) -> tuple[int, int]:
        """Which place is in use, and the number of pages."""
        return self._now, self.pages

    def restore(self, saved: tuple[int, int]) -> None:
        """Go back, after memory has gone back to the same moment."""
        self._now, self.pages = saved

    def view(self) -> NDArray[np.uint8]:
        """All pages, shape (p, 4096), writable."""
        flat = self._memory.view(self.address, self.pages * RB_PAGE_SIZE)
        return flat.reshape(self.pages, RB_PAGE_SIZE)
