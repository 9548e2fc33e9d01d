"""Pages of code that are not mapped, or whose text cannot be written.

Text is read and written as through the kernel's copy_from_kernel_nofault() and
patch_instruction(): such an access may fault. These protections make it fault. They concern
CPUs and the host alike. A CPU can never store to code, so to a CPU a read-only page is like
any other page of code.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import numpy as np
from numpy.typing import NDArray

PAGE_SIZE = 4096


class Protection(Enum):
    """What may be done with a page of code."""

    NONE = "none"
    """Nothing: the page is not mapped."""
    READ_ONLY = "ro"
    """It can be read and executed, but text cannot be written."""
    READ_WRITE = "rw"
    """Everything, as when code is loaded."""


class PageProtections:
    """The pages of a machine that are not `READ_WRITE`."""

    def __init__(self) -> None:
        self._pages: dict[int, Protection] = {}

    def __bool__(self) -> bool:
        """Return whether any page is protected."""
        return bool(self._pages)

    @property
    def pages(self) -> dict[int, Protection]:
        """A copy: the protection of each page by its address, ascending."""
        return dict(sorted(self._pages.items()))

    def set(self, page: int, protection: Protection) -> None:
        """Protect the page at the address `page`."""
        if protection is Protection.READ_WRITE:
            self._pages.pop(page, None)
        else:
            self._pages[page] = protection

    def forbids(self, address: int, size: int, *, writing: bool) -> str:
        """Return why the `size` bytes at `address` cannot be read, or written; "" if they can."""
        if not self._pages:
            return ""
        first = address - address % PAGE_SIZE
        found = {self._pages.get(page) for page in range(first, address + size, PAGE_SIZE)}
        if Protection.NONE in found:
            return "not mapped"
        return "write-protected" if writing and Protection.READ_ONLY in found else ""

    def allowed(
        self, addresses: NDArray[np.uint64], width: int, *, writing: bool
    ) -> NDArray[np.bool_]:
        """Return whether `width` bytes at each of n addresses can be read, or written: bool[n]."""
        allowed = np.ones(len(addresses), np.bool_)
        for page, protection in self._pages.items():
            if writing or protection is Protection.NONE:
                end = addresses + np.uint64(width)
                allowed &= (end <= np.uint64(page)) | (addresses > np.uint64(page + PAGE_SIZE - 1))
        return allowed

    def mapped(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield start and end of each part of the pages [start, end) that is mapped."""
        for page, protection in self.pages.items():
            if protection is Protection.NONE and start <= page < end:
                if start < page:
                    yield start, page
                start = page + PAGE_SIZE
        if start < end:
            yield start, end
