"""The records in the pages of a recorded buffer, of any page size."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..buffer.rawpages import MISSED_EVENTS, MISSED_STORED
from ..buffer.subbuffer import PageFormat, Walk

_COMMIT_MASK = (1 << 27) - 1
"""Bits of the commit word that count bytes."""

_CHUNK = 1 << 19
"""Bytes of pages that are walked at once, so that the walk fits into the processor's cache."""

_FIELD = re.compile(r"(\w+);\s*offset:(\d{1,6});\s*size:(\d{1,8});", re.ASCII)

RECORD = np.dtype([("ts", "u8"), ("at", "i8"), ("size", "u4"), ("cpu", "u1")])
"""A record: its time stamp, and the byte offset of its payload in the pages of all CPUs."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a file's pages."""

    format: PageFormat
    commit_size: int

    @classmethod
    def of(cls, header_page: str, byteorder: str, page_size: int) -> Layout:
        """Return the layout; by default that of a 64-bit kernel."""
        fields = {name: (int(at), int(size)) for name, at, size in _FIELD.findall(header_page)}
        commit = fields.get("commit", (8, 8))[1]
        commit = commit if commit in (4, 8) else 8
        return cls(PageFormat(byteorder, commit, page_size=page_size, header=8 + commit), commit)


@dataclass(frozen=True, slots=True, eq=False)
class CpuRecords:
    """The records of one CPU in their order."""

    records: NDArray[np.void]
    """RECORD records, shape (n,); `at` counts from the first page of this CPU."""
    lost: dict[int, int]
    """Number of events lost before a record, by its index; -1 if the number is not known."""
    damaged: int
    """Number of pages that could not be read to their end."""


def records(layout: Layout, cpu: int, data: bytes) -> CpuRecords:
    """Return the records in the pages of a CPU, whatever they contain."""
    size = layout.format.page_size
    whole = np.frombuffer(data, np.uint8)
    if len(whole) % size:
        whole = np.concatenate([whole, np.zeros(-len(whole) % size, np.uint8)])
    pages = whole.reshape(-1, size)
    step = max(_CHUNK // size, 1)
    parts: list[NDArray[np.void]] = [np.empty(0, RECORD)]
    lost: dict[int, int] = {}
    damaged = count = 0
    for start in range(0, len(pages), step):
        found, missing, bad = _walk(layout, cpu, pages[start : start + step])
        found["at"] += start * size
        lost |= {count + index: number for index, number in missing.items()}
        damaged += bad
        count += len(found)
        parts.append(found)
    return CpuRecords(np.concatenate(parts), lost, damaged)


def _walk(
    layout: Layout, cpu: int, pages: NDArray[np.uint8]
) -> tuple[NDArray[np.void], dict[int, int], int]:
    form, long = layout.format, layout.commit_size
    room = form.page_size - form.header
    words = np.ascontiguousarray(pages[:, 8 : 8 + long]).view(f"{form.order}u{long}").reshape(-1)
    said = (words & np.uint64(_COMMIT_MASK)).astype(np.int64)
    commit = np.minimum(said, room) // 4 * 4
    walk = Walk(form, np.ascontiguousarray(pages), form.stamps(pages), commit)
    at, times, payload, size = walk.payloads()
    page, word = payload // walk.stride, payload % walk.stride
    found = np.empty(len(at), RECORD)
    found["ts"], found["size"], found["cpu"] = times, size, cpu
    found["at"] = page * form.page_size + form.header + word * 4
    lost: dict[int, int] = {}
    for each in np.flatnonzero(words & np.uint64(MISSED_EVENTS)).tolist():
        end = form.header + int(said[each])
        number = -1
        if int(words[each]) & MISSED_STORED and end + long <= form.page_size:
            stored = pages[each, end : end + long].tobytes()
            number = int(np.frombuffer(stored, f"{form.order}u{long}")[0])
        first = int(np.searchsorted(page, each))
        if first < len(page) and page[first] == each:
            lost[first] = number
    return found, lost, int((walk.damaged | (said > room)).sum())
