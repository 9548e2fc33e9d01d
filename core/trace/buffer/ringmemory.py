"""The memory of a ring buffer: a region of guest memory for each CPU, remapped on resize."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...abi import RB_PAGE_SIZE
from ...memento import Restore, attributes

Descriptor: TypeAlias = NDArray[np.void]
"""A writable view of one `struct ring_buffer_cpu`, shape ()."""


class BufferMemory(Protocol):
    """The machine's memory, as far as the ring buffer needs it."""

    def map(self, address: int, size: int, name: str, executable: bool = True) -> object:
        """Map zeroed memory; it is for data only unless `executable`."""
        ...

    def unmap(self, name: str) -> None:
        """Unmap the region `name`."""
        ...

    def view(self, address: int, size: int) -> NDArray[np.uint8]:
        """Return a writable view of the bytes."""
        ...


class Descriptors(Protocol):
    """The descriptors of all CPUs, by number of the CPU."""

    def __len__(self) -> int:
        """Return the number of CPUs."""
        ...

    def __getitem__(self, cpu: int, /) -> Descriptor:
        """Return a writable view of the descriptor of `cpu`."""
        ...


class Region:
    """The pages of one CPU. A resize moves them between two areas.

    A resize is prepared first and then taken or left, so that it changes the buffers of
    all CPUs or of none.
    """

    def __init__(self, memory: BufferMemory, base: int, room: int, name: str) -> None:
        """Start without pages, in `room` bytes of address space at `base`: half for each area."""
        self.room = room // 2
        """Most bytes that the pages can take."""
        self.pages = 0
        self._memory = memory
        self._areas = ((base, f"{name}.0"), (base + self.room, f"{name}.1"))
        self._now = 0

    @staticmethod
    def limit(pointer_size: int) -> int:
        """Return the bytes of address space for one CPU; eight CPUs fit into 32 bits."""
        return 1 << 28 if pointer_size == 8 else 1 << 24

    @property
    def address(self) -> int:
        """Address of the first page."""
        return self._areas[self._now][0]

    def prepare(self, pages: int) -> None:
        """Map `pages` zero pages in the other area. Raises `MemoryFault` if memory is short."""
        address, name = self._areas[1 - self._now]
        self._memory.map(address, pages * RB_PAGE_SIZE, name, executable=False)

    def leave(self) -> None:
        """Unmap the prepared pages."""
        self._memory.unmap(self._areas[1 - self._now][1])

    def take(self, pages: int) -> None:
        """Switch to the prepared pages; the contents of the old ones are lost."""
        self.free()
        self._now = 1 - self._now
        self.pages = pages

    def free(self) -> None:
        """Unmap the pages."""
        if self.pages:
            self._memory.unmap(self._areas[self._now][1])
        self.pages = 0

    def save(self) -> Restore:
        """Return a function that restores which area is in use, and its size."""
        return attributes(self, "_now", "pages")

    def view(self) -> NDArray[np.uint8]:
        """Return a writable view of all pages, shape (p, 4096)."""
        flat = self._memory.view(self.address, self.pages * RB_PAGE_SIZE)
        return flat.reshape(self.pages, RB_PAGE_SIZE)
