"""A copy of guest RAM, part of a checkpoint (session/checkpoint.py).

Most of a machine's RAM is never written, so a copy keeps only the pages that are not zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .memory import PAGE_SIZE, Memory, Region
from .protection import Protection


@dataclass(frozen=True, slots=True, eq=False)
class RegionImage:
    """The non-zero pages of a region: `pages` uint8[n, PAGE_SIZE] are its pages number `row`.

    `protected` has its protected pages by their addresses.
    """

    name: str
    address: int
    size: int
    executable: bool
    writable: bool
    row: NDArray[np.intp]
    pages: NDArray[np.uint8]
    protected: dict[int, Protection]


def copy_memory(memory: Memory) -> tuple[RegionImage, ...]:
    """Return the contents of every region."""
    return tuple(_copy(memory, region) for region in memory.regions)


def put_memory(memory: Memory, images: tuple[RegionImage, ...]) -> None:
    """Restore the regions and their contents."""
    wanted = {(image.name, image.address, image.size) for image in images}
    for region in memory.regions:
        if (region.name, region.address, region.size) not in wanted:
            memory.unmap(region.name)
    present = {region.name for region in memory.regions}
    for image in images:
        if image.name not in present:
            memory.map(image.address, image.size, image.name, image.executable, image.writable)
        region = memory.region(image.name)
        now = _protected(memory, region)
        for page in now.keys() | image.protected.keys():
            protection = image.protected.get(page, Protection.READ_WRITE)
            if now.get(page) is not protection:
                memory.protect(page, protection)
        pages = _pages(region)
        # Only pages in use are touched: the rest of the host's memory stays unused.
        pages[np.setdiff1d(_in_use(pages), image.row, assume_unique=True)] = 0
        pages[image.row] = image.pages
        if region.executable:
            memory.text_changed(region, np.arange(len(pages)))


def _copy(memory: Memory, region: Region) -> RegionImage:
    pages = _pages(region)
    row = _in_use(pages)
    permissions = (region.executable, region.writable)
    place = (region.name, region.address, region.size)
    return RegionImage(*place, *permissions, row, pages[row], _protected(memory, region))


def _protected(memory: Memory, region: Region) -> dict[int, Protection]:
    """Return the protected pages of `region`, by address."""
    pages = memory.protected.items()
    return {page: each for page, each in pages if region.address <= page < region.end}


def _pages(region: Region) -> NDArray[np.uint8]:
    return region.bytes.reshape(-1, PAGE_SIZE)


def _in_use(pages: NDArray[np.uint8]) -> NDArray[np.intp]:
    return np.flatnonzero(pages.view(np.uint64).any(axis=1))
