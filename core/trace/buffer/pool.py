"""A bounded area of guest memory, from which instances take their buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...abi import RB_PAGE_SIZE
from ...errors import MemoryFault
from ...memento import Restore, attributes
from .ringmemory import BufferMemory


class PoolMemory(BufferMemory, Protocol):
    """The machine's memory, as far as a pool needs it."""

    @property
    def byteorder(self) -> str:
        """Byte order of the guest, "little" or "big"."""
        ...

    def write(self, address: int, data: bytes) -> None:
        """Write bytes."""
        ...


class MemoryPool:
    """Pages between two addresses, mapped as they are taken; the lowest free ones come first."""

    def __init__(self, memory: PoolMemory, area: range) -> None:
        self.memory = memory
        self.area = area
        self._taken: dict[int, tuple[int, str]] = {}

    def take(self, size: int, name: str) -> int:
        """Map `size` zeroed bytes, in whole pages, as a region called after `name`.

        Returns their address. Raises `MemoryFault` if the area or the host has no room.
        """
        size = -(-size // RB_PAGE_SIZE) * RB_PAGE_SIZE
        at = self.area.start
        for start in sorted(self._taken):
            if start - at >= size:
                break
            at = start + self._taken[start][0]
        if at + size > self.area.stop:
            raise MemoryFault(at, size)
        region = f"{name}@{at:x}"
        self.memory.map(at, size, region, executable=False)
        self._taken[at] = (size, region)
        return at

    def give(self, address: int) -> None:
        """Unmap what was taken at `address`."""
        self.memory.unmap(self._taken.pop(address)[1])

    def save(self) -> Restore:
        """Return a function that restores the taken blocks; call it after restoring memory."""
        return attributes(self, "_taken")


class PoolTables:
    """Tables of words in a pool; a vCPU may still read those of the last write."""

    def __init__(self, pool: MemoryPool, name: str) -> None:
        self._pool = pool
        self._name = name
        self._blocks: tuple[int, ...] = ()

    def write(self, tables: Sequence[NDArray[np.uint64]]) -> list[int]:
        """Write all tables one after the other; return the address of each, 0 without any words.

        Raises `MemoryFault` if the pool has no room.
        """
        memory = self._pool.memory
        order = "<" if memory.byteorder == "little" else ">"
        words = np.concatenate([*tables, np.empty(0, np.uint64)])
        kept = self._blocks[-1:]
        base = 0
        if len(words):
            base = self._pool.take(words.nbytes, self._name)
            memory.write(base, words.astype(f"{order}u8").tobytes())
        for block in self._blocks[:-1]:
            self._pool.give(block)
        self._blocks = (*kept, base) if base else kept
        starts = np.cumsum([0] + [each.nbytes for each in tables])[:-1]
        return [base + start if base else 0 for start in starts.tolist()]

    def free(self) -> None:
        """Return all memory to the pool."""
        for block in self._blocks:
            self._pool.give(block)
        self._blocks = ()

    def save(self) -> Restore:
        """Return a function that restores which tables are in use."""
        return attributes(self, "_blocks")


class PoolRegion:
    """The pages of one CPU's buffer, in a pool; has the methods of `Region`."""

    def __init__(self, pool: MemoryPool, name: str) -> None:
        """Start without pages."""
        self.room = len(pool.area)
        self.pages = 0
        self.address = 0
        self._pool = pool
        self._name = name
        self._next = 0

    def prepare(self, pages: int) -> None:
        """Map `pages` zero pages elsewhere. Raises `MemoryFault` if memory is short."""
        self._next = self._pool.take(pages * RB_PAGE_SIZE, self._name)

    def leave(self) -> None:
        """Unmap the prepared pages."""
        self._pool.give(self._next)

    def take(self, pages: int) -> None:
        """Switch to the prepared pages; the contents of the old ones are lost."""
        self.free()
        self.address = self._next
        self.pages = pages

    def free(self) -> None:
        """Unmap the pages."""
        if self.pages:
            self._pool.give(self.address)
        self.pages = 0

    def save(self) -> Restore:
        """Return a function that restores which pages are in use."""
        return attributes(self, "address", "pages")

    def view(self) -> NDArray[np.uint8]:
        """Return a writable view of all pages, shape (p, 4096)."""
        flat = self._pool.memory.view(self.address, self.pages * RB_PAGE_SIZE)
        return flat.reshape(self.pages, RB_PAGE_SIZE)
