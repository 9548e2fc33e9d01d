"""Where a ring buffer lies: a region of guest memory for each CPU, mapped as it grows."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .abi import RB_PAGE_SIZE

Descriptor: TypeAlias = NDArray[np.void]
"""A writable view of one `struct ring_buffer_cpu`, shape ()."""


class BufferMemory(Protocol):
    """What is needed of the machine's memory."""

    def map(self, address: int, size: int, name: str) -> object:
        """Map zeroed memory."""
        ...

    def unmap(self, name: str) -> None:
        """Take it away."""
        ...

    def view(self, address: int, size: int) -> NDArray[np.uint8]:
        """The bytes themselves."""
        ...


class Region:
    """The pages of one CPU, at an address that stays the same."""

    def __init__(self, memory: BufferMemory, address: int, room: int, name: str) -> None:
        self.address = address
        self.room = room
        """Bytes it can grow to."""
        self.pages = 0
        self._memory = memory
        self._name = name

    @staticmethod
    def limit(pointer_size: int) -> int:
        """Room for one CPU, bytes: small enough that eight fit a 32-bit address space."""
        return 1 << 27 if pointer_size == 8 else 1 << 23

    def allocate(self, pages: int) -> None:
        """Have `pages` pages, all zero; what was there is gone."""
        if self.pages:
            self._memory.unmap(self._name)
        self._memory.map(self.address, pages * RB_PAGE_SIZE, self._name)
        self.pages = pages

    def view(self) -> NDArray[np.uint8]:
        """All pages, shape (p, 4096), writable."""
        flat = self._memory.view(self.address, self.pages * RB_PAGE_SIZE)
        return flat.reshape(self.pages, RB_PAGE_SIZE)
