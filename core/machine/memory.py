"""Guest RAM: host buffers that every vCPU maps at the kernel's own addresses.

A region is one page-aligned host buffer. The engines of all vCPUs map the same buffer. So all
vCPUs and the host see a store by any of them, and the host works on text and data with array
operations. There are no page tables: an address is mapped or it is not.

A host write changes memory only. A vCPU that has already translated the code there goes on
running the old bytes until it is flushed (`Machine.flush`), as a real CPU may because of its
instruction cache.
"""

from __future__ import annotations

import mmap
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from ..arch import Addresses, Bytes
from ..distinct import distinct
from ..errors import HostMemoryError, MemoryFault
from .protection import PAGE_SIZE as PAGE_SIZE
from .protection import PageProtections, Protection

_PAGE_BITS = PAGE_SIZE.bit_length() - 1

LIMIT = 1 << 30
"""Most RAM of a machine, in bytes: a damaged file must not use up the host's memory."""


def host_pages(size: int) -> tuple[mmap.mmap, NDArray[np.uint8]]:
    """Return `size` bytes of zeroed, page-aligned host memory: the mapping and an array over it.

    Raises `HostMemoryError`.
    """
    try:
        if sys.platform == "win32":
            pages = mmap.mmap(-1, size)
        else:
            # Reading a private page that was never written takes no memory of its own.
            pages = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise HostMemoryError from error
    return pages, np.frombuffer(pages, np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Consecutive guest memory at `address`, backed by `bytes` (1-D uint8, writable)."""

    name: str
    address: int
    bytes: NDArray[np.uint8] = field(repr=False)
    executable: bool = True
    """Whether a CPU may execute from it; otherwise a fetch is a fault."""
    writable: bool = True
    """Whether a CPU may store to it; otherwise a store is a fault. The host may, unless the
    page is protected (`Memory.protect`)."""

    @property
    def size(self) -> int:
        """Size in bytes, a multiple of the page size."""
        return len(self.bytes)

    @property
    def end(self) -> int:
        """The first address after it."""
        return self.address + len(self.bytes)

    @property
    def host_address(self) -> int:
        """Address of the buffer in this process."""
        return int(self.bytes.ctypes.data)


Observer = Callable[[Region], None]
TextObserver = Callable[[Region, NDArray[np.intp]], None]


class Memory:
    """The regions of one machine."""

    def __init__(self, byteorder: str, pointer_size: int) -> None:
        if byteorder not in ("little", "big"):
            raise ValueError(f"byte order {byteorder!r}")
        self.byteorder = cast(Literal["little", "big"], byteorder)
        self.pointer_size = pointer_size
        self._end = 1 << (8 * pointer_size)
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._regions: list[Region] = []
        self._reserved: list[tuple[int, int, str]] = []
        self._on_map: list[Observer] = []
        self._on_unmap: list[Observer] = []
        self._on_text: list[TextObserver] = []
        self._protections = PageProtections()
        self._log: list[tuple[Addresses, Bytes, Bytes]] | None = None

    @contextmanager
    def logged(self) -> Iterator[list[tuple[Addresses, Bytes, Bytes]]]:
        """Yield a list of what `write` and `scatter` store while the context lasts.

        Each entry has addresses, shape (n,), and the bytes before and after, shape (n, width).
        """
        found: list[tuple[Addresses, Bytes, Bytes]] = []
        self._log = found
        try:
            yield found
        finally:
            self._log = None

    def _note(self, addresses: Addresses, data: Bytes) -> None:
        """Add a write that is about to happen to the log."""
        if self._log is not None and data.size:
            before, _ = self.gather(addresses, data.shape[1])
            self._log.append((addresses.copy(), before, data.copy()))

    @property
    def regions(self) -> tuple[Region, ...]:
        """All regions, sorted by address."""
        return tuple(self._regions)

    def observe(self, on_map: Observer, on_unmap: Observer) -> None:
        """Call `on_map` for every present and future region, `on_unmap` before one is removed."""
        for region in self._regions:
            on_map(region)
        self._on_map.append(on_map)
        self._on_unmap.append(on_unmap)

    def observe_text(self, on_text: TextObserver) -> None:
        """Call `on_text` after each host write to an executable region.

        It gets the region and the page numbers in it, some perhaps more than once.
        """
        self._on_text.append(on_text)

    def reserve(self, address: int, size: int, name: str) -> None:
        """Reserve a range that each vCPU maps to pages of its own."""
        self._check_free(address, size)
        self._reserved.append((address, address + size, name))

    def map(
        self,
        address: int,
        size: int,
        name: str,
        executable: bool = True,
        writable: bool = True,
    ) -> Region:
        """Add a zero-filled region; `address` and `size` are multiples of the page size.

        A region of data is not `executable`, and one of code or constants is not `writable`,
        as in a kernel with strict permissions.

        Raises `MemoryFault` if the region overlaps another one, is not aligned, leaves the
        address space or brings the total above `LIMIT`.
        """
        self._check_free(address, size)
        if any(region.name == name for region in self._regions):
            raise MemoryFault(address, size, f"region {name} already exists")
        if size + sum(region.size for region in self._regions) > LIMIT:
            raise MemoryFault(address, size, f"the machine may have {LIMIT >> 20} MB of memory")
        region = Region(name, address, host_pages(size)[1], executable, writable)
        row = bisect_right(self._starts, address)
        self._starts.insert(row, address)
        self._ends.insert(row, region.end)
        self._regions.insert(row, region)
        for on_map in self._on_map:
            on_map(region)
        return region

    def unmap(self, name: str) -> None:
        """Remove the region `name`. Raises `MemoryFault` if it does not exist."""
        region = self.region(name)
        row = self._regions.index(region)
        for on_unmap in self._on_unmap:
            on_unmap(region)
        for page in self.protected:
            if region.address <= page < region.end:
                self._protections.set(page, Protection.READ_WRITE)
        del self._starts[row]
        del self._ends[row]
        del self._regions[row]

    def region(self, name: str) -> Region:
        """Return the region `name`. Raises `MemoryFault` if it does not exist."""
        for region in self._regions:
            if region.name == name:
                return region
        raise MemoryFault(0, 0, f"region {name} does not exist")

    def region_at(self, address: int) -> Region | None:
        """Return the region that contains `address`, or None."""
        row = bisect_right(self._starts, address) - 1
        if row < 0 or address >= self._ends[row]:
            return None
        return self._regions[row]

    def _around(self, address: int, size: int) -> Region | None:
        """Return the region that contains the range, or None; None if pages are protected."""
        row = bisect_right(self._starts, address) - 1
        if row < 0 or size < 0 or address + size > self._ends[row] or self._protections:
            return None
        return self._regions[row]

    @property
    def protected(self) -> dict[int, Protection]:
        """Pages of code that are not `READ_WRITE`, by address, ascending."""
        return self._protections.pages

    def protect(self, address: int, protection: Protection) -> int:
        """Protect the page of code that contains `address`; return the page's address.

        Raises `MemoryFault` if no code is there. Does not flush translated code.
        """
        region = self.region_at(address)
        if region is None or not region.executable:
            raise MemoryFault(address, 1, "only pages of code can be protected")
        page = address - address % PAGE_SIZE
        for on_unmap in self._on_unmap:
            on_unmap(region)
        self._protections.set(page, protection)
        for on_map in self._on_map:
            on_map(region)
        return page

    def mapped(self, region: Region) -> tuple[tuple[int, int], ...]:
        """Return start and end of each part of `region` that is mapped."""
        return tuple(self._protections.mapped(region.address, region.end))

    def mapped_at(self, address: int) -> tuple[int, int] | None:
        """Return start and end of the mapped part of a region that contains `address`, or None."""
        region = self.region_at(address)
        if region is not None and not self._protections:
            return region.address, region.end
        parts = () if region is None else self.mapped(region)
        return next((part for part in parts if part[0] <= address < part[1]), None)

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes. Raises `MemoryFault` unless all of them are mapped."""
        region = self._around(address, size)
        if region is not None:
            at = address - region.address
            return region.bytes[at : at + size].tobytes()
        return b"".join(span.tobytes() for span in self._spans(address, size))

    def read_mapped(self, address: int, size: int) -> bytes:
        """Return up to `size` bytes: those before the first one that is not mapped."""
        found = b""
        while len(found) < size:
            here = address + len(found)
            part = self.mapped_at(here)
            if part is None:
                break
            found += self.read(here, min(address + size, part[1]) - here)
        return found

    def write(self, address: int, data: bytes) -> None:
        """Store bytes, all or none. Raises `MemoryFault`. Does not flush translated code."""
        source = np.frombuffer(data, np.uint8)
        whole = self._around(address, len(data))
        if whole is not None and not whole.executable and self._log is None:
            at = address - whole.address
            whole.bytes[at : at + len(data)] = source
            return
        done = 0
        spans = self._spans(address, len(data), writing=True)
        if self._log is not None:
            self._note(np.array([address], np.uint64), source[None, :])
        for span in spans:
            span[:] = source[done : done + len(span)]
            region = self.region_at(address + done)
            assert region is not None
            first = address + done - region.address
            done += len(span)
            if region.executable:
                last = address + done - 1 - region.address
                self.text_changed(region, np.arange(first // PAGE_SIZE, last // PAGE_SIZE + 1))

    def view(self, address: int, size: int) -> NDArray[np.uint8]:
        """Return a writable array over `size` bytes of one region. Raises `MemoryFault`.

        To change code, use `write` or `scatter`.
        """
        region = self.region_at(address)
        if region is None or size < 0 or address + size > region.end:
            raise MemoryFault(address, size)
        return region.bytes[address - region.address : address - region.address + size]

    def gather(self, addresses: Addresses, width: int) -> tuple[Bytes, NDArray[np.bool_]]:
        """Return `width` bytes at each of n addresses: (uint8[n, width], bool[n] readable).

        A row that is not mapped, or leaves its region, is zero and not readable.
        """
        addresses = np.asarray(addresses, np.uint64)
        found = np.zeros((len(addresses), width), np.uint8)
        readable = np.zeros(len(addresses), np.bool_)
        for region, rows, offsets in self._rows(addresses, width):
            _items(found, width)[rows] = _items(region.bytes, width)[offsets]
            readable[rows] = True
        return found, readable

    def writable(self, addresses: Addresses, width: int) -> NDArray[np.bool_]:
        """Return whether `scatter` can store `width` bytes at each of n addresses, as bool[n]."""
        writable = np.zeros(len(addresses), np.bool_)
        for _, rows, _ in self._rows(np.asarray(addresses, np.uint64), width, writing=True):
            writable[rows] = True
        return writable

    def scatter(self, addresses: Addresses, data: Bytes) -> None:
        """Store row i of `data` (uint8[n, width]) at address i, all rows or none.

        Raises `MemoryFault`.
        """
        addresses = np.asarray(addresses, np.uint64)
        width = data.shape[1]
        places = self._rows(addresses, width, writing=True)
        if sum(len(offsets) for _, _, offsets in places) != len(addresses):
            wrong = int(addresses[~self.writable(addresses, width)][0])
            reason = self._protections.forbids(wrong, width, writing=True)
            raise MemoryFault(wrong, width, reason or "not mapped")
        if self._log is not None:
            self._note(addresses, data)
        for region, rows, offsets in places:
            _items(region.bytes, width)[offsets] = _items(data, width)[rows]
            if region.executable:
                within = np.append(np.arange(0, width, PAGE_SIZE), width - 1)
                self.text_changed(region, distinct((offsets + within[:, None]) >> _PAGE_BITS))

    def text_changed(self, region: Region, pages: NDArray[np.intp]) -> None:
        """Note that the host has changed the pages number `pages` of executable `region`.

        `write` and `scatter` do this themselves.
        """
        for on_text in self._on_text:
            on_text(region, pages)

    def read_int(self, address: int, size: int | None = None) -> int:
        """Return an unsigned integer of `size` bytes (default: a pointer), in guest byte order."""
        return int.from_bytes(self.read(address, size or self.pointer_size), self.byteorder)

    def write_int(self, address: int, value: int, size: int | None = None) -> None:
        """Store `value`, truncated to `size` bytes (default: a pointer), in guest byte order."""
        size = size or self.pointer_size
        self.write(address, (value % (1 << (8 * size))).to_bytes(size, self.byteorder))

    def _check_free(self, address: int, size: int) -> None:
        if address % PAGE_SIZE or size % PAGE_SIZE:
            raise MemoryFault(address, size, f"not aligned to {PAGE_SIZE} bytes")
        if size <= 0 or address < 0 or address + size > self._end:
            raise MemoryFault(address, size, "outside the address space")
        taken = [(region.address, region.end, region.name) for region in self._regions]
        for start, end, name in taken + self._reserved:
            if address < end and start < address + size:
                raise MemoryFault(address, size, f"overlaps {name}")

    def _spans(self, address: int, size: int, *, writing: bool = False) -> list[NDArray[np.uint8]]:
        """Return arrays that together cover the range, over as many regions as needed."""
        forbidden = self._protections.forbids(address, size, writing=writing)
        if forbidden:
            raise MemoryFault(address, size, forbidden)
        spans = []
        here, left = address, size
        while left > 0:
            region = self.region_at(here)
            if region is None:
                raise MemoryFault(address, size)
            offset = here - region.address
            span = region.bytes[offset : offset + left]
            spans.append(span)
            here += len(span)
            left -= len(span)
        if size < 0:
            raise MemoryFault(address, size)
        return spans

    def _rows(
        self, addresses: Addresses, width: int, *, writing: bool = False
    ) -> list[tuple[Region, NDArray[np.intp] | slice, NDArray[np.intp]]]:
        """Return for each region the rows inside it, and the byte offset of each of them.

        Rows that cannot be read, or written, are left out.
        """
        found: list[tuple[Region, NDArray[np.intp] | slice, NDArray[np.intp]]] = []
        if not len(addresses):
            return found
        allowed = self._protections.allowed(addresses, width, writing=writing)
        lowest, highest = int(addresses.min()), int(addresses.max())
        for region in self._regions:
            last = region.end - width
            if last < max(lowest, region.address) or highest < region.address:
                continue
            # Addresses below the region wrap around to offsets far beyond it.
            offsets = addresses - np.uint64(region.address)
            inside = (offsets <= np.uint64(region.size - width)) & allowed
            if inside.all():
                return [(region, slice(None), offsets.astype(np.intp))]
            rows = np.flatnonzero(inside)
            if len(rows):
                found.append((region, rows, offsets[rows].astype(np.intp)))
        return found


def _items(data: NDArray[np.uint8], width: int) -> NDArray[np.void]:
    """Return an array whose items are `width` bytes each.

    In a region (1-D), an item begins at each byte, so items overlap; in a table (2-D), each row is
    an item.
    """
    if data.ndim == 1:
        return np.ndarray((len(data) - width + 1,), f"V{width}", data, strides=(1,))
    return np.ndarray((len(data),), f"V{width}", np.ascontiguousarray(data))
