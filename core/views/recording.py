"""How recordmcount finds the call sites of a file, and how ftrace first checked them.

recordmcount reads each object as `objdump -hdr` prints it: sections, functions, and the
relocations of calls of mcount. It writes one word per call: the section's first function plus
an offset. A linked kernel no longer has these relocations, so its calls are decoded instead.

Source: scripts/recordmcount.pl of Linux 6.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arch import Addresses, Port
from ..distinct import distinct
from ..elf.image import Image
from ..ftrace.ftrace import Ftrace
from ..ftrace.records import Records
from ..ftrace.sites import calls_by_relocation, calls_of_mcount


@dataclass(frozen=True, slots=True)
class Call:
    """A call of mcount in a file, by its section and offset."""

    section: str
    offset: int
    function: str
    """The function that contains it."""
    first: str
    """The first function of the section, to which the word of the list is relative."""
    distance: int
    """Bytes from that function to the call."""
    relocation: str
    """Type and symbol of the call's relocation; empty in a linked file."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The calls of mcount in one loaded file."""

    file: str
    linked: bool
    mcount: str
    """Name of the function whose calls are searched for."""
    calls: Addresses
    """rec.ip of each call, ascending."""
    listed: int
    """Number of these calls that have a record."""


@dataclass(frozen=True, slots=True)
class FirstChange:
    """The sites that ftrace compared with MCOUNT_ADDR when it first disabled them."""

    mcount: int
    """MCOUNT_ADDR; 0 in a kernel without mcount."""
    sites: int
    compared: int
    """Number of sites whose expected text depends on MCOUNT_ADDR."""
    by_stub: int
    """Number of these that reach mcount through a stub of their module."""


def recording(port: Port, image: Image, bases: Mapping[int, int], records: Records) -> Recording:
    """Find the calls of mcount in `image`, whose sections are loaded at `bases`."""
    if image.relocatable:
        calls = distinct(calls_by_relocation(port, image, bases))
    else:

        def read(address: int, size: int) -> bytes:
            found = image.read(address, size)
            return b"" if found is None else found.tobytes()

        calls = calls_of_mcount(port, image, read)
    listed = int(np.count_nonzero(records.rows_of(calls) >= 0))
    name = port.facts.sites.mcount_symbols[0]
    return Recording(image.path.name, not image.relocatable, name, calls, listed)


def call_at(port: Port, image: Image, bases: Mapping[int, int], ip: int) -> Call | None:
    """Return the call of mcount at `ip` as recordmcount sees it, or None."""
    place = (ip - port.facts.sites.relocation_offset) % 2**64
    for table in image.relocations():
        base = bases.get(table.target.index) if image.relocatable else None
        if base is None:
            continue
        rows = np.flatnonzero(table.offset == np.uint64((place - base) % 2**64))
        for row in rows.tolist():
            symbol = image.symbols.names[int(table.symbol[row])]
            if symbol not in port.facts.sites.mcount_symbols:
                continue
            kind = port.relocation_name(int(table.kind[row]))
            return _call(image, table.target.index, ip - base, f"{kind} {symbol}")
    return None


def _call(image: Image, section: int, offset: int, relocation: str) -> Call:
    """Return the call at `offset` of a section of a relocatable `image`."""
    table = image.symbols
    rows = np.flatnonzero(table.functions & (table.shndx == section))
    rows = rows[np.argsort(table.address[rows], kind="stable")]
    starts = table.address[rows]
    own = max(int(np.searchsorted(starts, np.uint64(offset), "right")) - 1, 0)
    first, function = (table.names[int(rows[row])] for row in (0, own))
    distance = offset - int(starts[0])
    name = image.sections[section].name
    return Call(name, offset, function, first, distance, relocation)


def first_change(ftrace: Ftrace, rows: NDArray[np.intp]) -> FirstChange:
    """Return how many of the sites of `rows` were compared with MCOUNT_ADDR."""
    port, records, mcount = ftrace.port, ftrace.records, ftrace.mcount
    sites = records.sites(rows)
    edit, other = (port.init_nop(sites, each) for each in (mcount, ftrace.entry.address))
    differs = (edit.expected != other.expected).any(axis=1) | (edit.reachable != other.reachable)
    via = np.zeros(len(sites), np.bool_)
    for each in edit.via:
        via |= each != 0
    compared, by_stub = (int(np.count_nonzero(each)) for each in (differs, differs & via))
    return FirstChange(mcount, len(sites), compared, by_stub)
