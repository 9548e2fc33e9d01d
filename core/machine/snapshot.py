"""Copies of guest RAM at several moments, part of a checkpoint (session/checkpoint.py).

Most of a machine's RAM is never written, and little of it changes between two moments. So each page
is stored once, and a copy holds only page numbers. A page is freed with the last copy that needs
it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..distinct import distinct
from ..errors import HostMemoryError
from .memory import PAGE_SIZE, Memory, Region, host_pages
from .protection import Protection

_BITS = 10
_BLOCK = 1 << _BITS
"""Pages that are allocated at once."""

_PART = 64
"""Pages that are compared or copied at once: large temporary arrays cost more than the work."""


@dataclass(frozen=True, slots=True, eq=False)
class RegionImage:
    """The pages of a region that are not zero: its page number `row[i]` is stored as `page[i]`."""

    name: str
    address: int
    size: int
    executable: bool
    writable: bool
    row: NDArray[np.intp]
    page: NDArray[np.intp]

    def same_place(self, region: Region) -> bool:
        """Whether it is a copy of `region`, or of a region with the same name, address and size."""
        return (self.name, self.address, self.size) == (region.name, region.address, region.size)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class MemoryImage:
    """A copy of all regions."""

    regions: tuple[RegionImage, ...] = field(default=())
    protected: dict[int, Protection] = field(default_factory=dict)
    """The protected pages by their addresses."""


class Snapshots:
    """The copies of one machine's memory."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._blocks: list[NDArray[np.uint8]] = []
        self._users = np.zeros(0, np.int32)
        """Number of copies that use each stored page."""
        self._last = MemoryImage()
        """The copy taken or restored last: most pages are still as in it."""

    @property
    def size(self) -> int:
        """Bytes of the pages in use."""
        return int(np.count_nonzero(self._users)) * PAGE_SIZE

    def take(self) -> MemoryImage:
        """Return a copy of the present contents. Raises `HostMemoryError`."""
        before = {image.name: image for image in self._last.regions}
        taken: list[int] = []
        try:
            regions = [
                self._copy(region, before.get(region.name), taken)
                for region in self._memory.regions
            ]
        except BaseException:
            self._users[taken] = 0
            raise
        self._users[taken] = 0
        image = MemoryImage(tuple(regions), self._memory.protected)
        for each in regions:
            self._users[each.page] += 1
        # A weak reference: a strong one would keep the last copy and the machine alive.
        weakref.finalize(image, _release, weakref.ref(self), image.regions).atexit = False
        self._last = image
        return image

    def restore(self, image: MemoryImage) -> list[tuple[int, int]]:
        """Restore the regions and their contents.

        Return the ranges [start, end) of text that has changed, a page each.
        """
        memory = self._memory
        text: list[tuple[int, int]] = []
        for region in memory.regions:
            if not any(each.same_place(region) for each in image.regions):
                memory.unmap(region.name)
        present = {region.name for region in memory.regions}
        for each in image.regions:
            if each.name not in present:
                access = each.executable, each.writable
                memory.map(each.address, each.size, each.name, *access)
            region = memory.region(each.name)
            pages = _pages(region)
            # Only pages in use are touched: the rest of the host's memory stays unused.
            gone = np.setdiff1d(_in_use(pages), each.row, assume_unique=True)
            pages[gone] = 0
            differ = ~self._equal(pages, each.row, each.page)
            for here, data in self._stored(each.page[differ]):
                pages[each.row[differ][here]] = data
            if region.executable:
                changed = np.concatenate([gone, each.row[differ]])
                memory.text_changed(region, changed)
                starts = [region.address + page * PAGE_SIZE for page in changed.tolist()]
                text += [(start, start + PAGE_SIZE) for start in starts]
        now = memory.protected
        for address in now.keys() | image.protected.keys():
            protection = image.protected.get(address, Protection.READ_WRITE)
            if now.get(address) is not protection:
                memory.protect(address, protection)
        self._last = image
        return text

    def _copy(self, region: Region, old: RegionImage | None, taken: list[int]) -> RegionImage:
        """Return a copy of `region`; `taken` collects the numbers of newly stored pages."""
        pages = _pages(region)
        row = _in_use(pages)
        page = np.zeros(len(row), np.intp)
        fresh = np.ones(len(row), np.bool_)
        if old is not None and old.same_place(region) and len(old.row):
            at = np.minimum(np.searchsorted(old.row, row), len(old.row) - 1)
            known = np.flatnonzero(old.row[at] == row)
            stored = old.page[at[known]]
            same = self._equal(pages, row[known], stored)
            page[known[same]] = stored[same]
            fresh[known[same]] = False
            if not fresh.any() and len(row) == len(old.row):
                row, page = old.row, old.page
        if fresh.any():
            numbers = self._allocate(int(np.count_nonzero(fresh)))
            taken += numbers.tolist()
            page[fresh] = numbers
            self._put(numbers, pages, row[fresh])
        access = region.executable, region.writable
        return RegionImage(region.name, region.address, region.size, *access, row, page)

    def _equal(
        self, pages: NDArray[np.uint8], rows: NDArray[np.intp], stored: NDArray[np.intp]
    ) -> NDArray[np.bool_]:
        """Return for each of `rows` of `pages` whether it equals the `stored` page."""
        equal = np.zeros(len(rows), np.bool_)
        present = np.empty((_PART, PAGE_SIZE), np.uint8)
        for here, data in self._stored(stored):
            now = np.take(pages, rows[here], axis=0, out=present[: len(data)], mode="clip")
            equal[here] = (now.view(np.uint64) == data.view(np.uint64)).all(axis=1)
        return equal

    def _allocate(self, count: int) -> NDArray[np.intp]:
        """Return the numbers of `count` free pages, marked as used. Raises `HostMemoryError`."""
        free = np.flatnonzero(self._users == 0)
        while len(free) < count:
            try:
                block = host_pages(_BLOCK * PAGE_SIZE)[1]
            except MemoryError as error:
                raise HostMemoryError from error
            self._blocks.append(block.reshape(_BLOCK, PAGE_SIZE))
            self._users = np.concatenate([self._users, np.zeros(_BLOCK, np.int32)])
            free = np.flatnonzero(self._users == 0)
        numbers = free[:count]
        self._users[numbers] = 1
        return numbers

    def _put(
        self, numbers: NDArray[np.intp], pages: NDArray[np.uint8], rows: NDArray[np.intp]
    ) -> None:
        for block in distinct(numbers >> _BITS).tolist():
            here = numbers >> _BITS == block
            self._blocks[block][numbers[here] & (_BLOCK - 1)] = pages[rows[here]]

    def _stored(
        self, numbers: NDArray[np.intp]
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.uint8]]]:
        """Yield the stored pages a few at a time: their positions in `numbers`, and the pages.

        The array of pages, shape (n, 4096), is reused for the next pages.
        """
        found = np.empty((_PART, PAGE_SIZE), np.uint8)
        for block in distinct(numbers >> _BITS).tolist():
            of_block = np.flatnonzero(numbers >> _BITS == block)
            for start in range(0, len(of_block), _PART):
                here = of_block[start : start + _PART]
                part = found[: len(here)]
                rows = numbers[here] & (_BLOCK - 1)
                yield here, np.take(self._blocks[block], rows, axis=0, out=part, mode="clip")

    def release(self, regions: tuple[RegionImage, ...]) -> None:
        """Count the pages of a copy as no longer used by it."""
        for each in regions:
            self._users[each.page] -= 1


def _release(snapshots: weakref.ref[Snapshots], regions: tuple[RegionImage, ...]) -> None:
    """Release the pages of a copy, unless the machine is gone too."""
    owner = snapshots()
    if owner is not None:
        owner.release(regions)


def _pages(region: Region) -> NDArray[np.uint8]:
    return region.bytes.reshape(-1, PAGE_SIZE)


def _in_use(pages: NDArray[np.uint8]) -> NDArray[np.intp]:
    return np.flatnonzero(np.bitwise_or.reduce(pages.view(np.uint64), axis=1))
