"""Pages of the buffers as the kernel hands them to readers.

They equal the guest's pages byte for byte, with two differences. A page that was read in part
begins with its first unread event. And the commit word is a long of the guest, so that on 32-bit
guests the data begin at 12, where readers expect them; in guest memory they begin at 16. Source:
ring_buffer_read_page() in kernel/trace/ring_buffer.c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...abi import RB_PAGE_HEADER, RB_PAGE_SIZE
from .subbuffer import DATA_SIZE, PageFormat

MISSED_EVENTS, MISSED_STORED = 1 << 31, 1 << 30
"""Flags of the commit word: events were lost before this page; their number follows the data."""


def data_offset(layout: PageFormat) -> int:
    """Return the offset of the data in a page for readers, in bytes."""
    return 8 + layout.pointer_size


def unread_pages(layout: PageFormat, pages: NDArray[np.uint8], read: int) -> NDArray[np.uint8]:
    """Return `pages`, shape (p, 4096), for readers, without the first `read` bytes of data.

    Pages without data are left out.
    """
    pages = pages.copy()
    if len(pages) and read:
        _drop(layout, pages[0], read)
    commits = np.minimum(layout.commits(pages), DATA_SIZE)
    pages, commits = pages[commits > 0], commits[commits > 0]
    start = data_offset(layout)
    found = np.zeros_like(pages)
    found[:, :8] = pages[:, :8]
    words = commits.astype(f"{layout.order}u{layout.pointer_size}")
    found[:, 8:start] = words.view(np.uint8).reshape(len(pages), layout.pointer_size)
    found[:, start : start + DATA_SIZE] = pages[:, RB_PAGE_HEADER:]
    # The bytes after the data belong to older events.
    found[np.arange(RB_PAGE_SIZE) >= (start + commits)[:, None]] = 0
    return found


def tell_lost(layout: PageFormat, page: NDArray[np.uint8], lost: int) -> None:
    """Note in `page`, shape (4096,), for readers, how many events were lost before it."""
    order, long, start = layout.order, layout.pointer_size, data_offset(layout)
    word = page[8:start].view(f"{order}u{long}")
    end = start + int(word[0])
    word[0] |= MISSED_EVENTS
    if end + long <= RB_PAGE_SIZE:
        word[0] |= MISSED_STORED
        page[end : end + long] = np.array([lost], f"{order}u{long}").view(np.uint8)


def _drop(layout: PageFormat, page: NDArray[np.uint8], read: int) -> None:
    """Remove the first `read` bytes of data from `page`; deltas count from the event before."""
    events = layout.decode(page[None]).events
    before = events[events["offset"] < read]
    if len(before):
        stamp = np.array([before[-1]["ts"]]).astype(f"{layout.order}u8")
        page[:8] = stamp.view(np.uint8)
    left = max(int(layout.commits(page[None])[0]) - read, 0)
    page[8:16] = np.array([left]).astype(f"{layout.order}u8").view(np.uint8)
    page[RB_PAGE_HEADER : RB_PAGE_HEADER + left] = page[RB_PAGE_HEADER + read :][:left]
