"""The call sites of a file, read without a machine or a port.

A kernel's sites are in its list. A module is not linked: its sections have no addresses, and its
list consists of relocations. So its sections are laid out from address 0, which gives each site a
distinct address, and `place` is section and offset.

Capstone decodes the instructions at a site. `form` is their text with the name of the called
function, so that sites of two kernels can be compared.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from capstone import Cs

from ..arch import Addresses
from ..elf.image import Image
from ..errors import NoCallSitesError
from ..facts import FileFacts
from .records import INVALID_FUNCTION
from .sites import (
    RELOCATIONS,
    SECTION,
    calls_by_relocation,
    dead_sites,
    own_bases,
    rec_ips,
    site_table,
)

_NUMBER = re.compile(r"0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Reader:
    """The facts of an architecture needed to read a file's sites."""

    facts: FileFacts
    call_adjust: Callable[[Addresses], Addresses]
    cs_arch: int
    cs_mode: int


@dataclass(frozen=True, slots=True)
class StaticSite:
    """One call site."""

    ip: int
    entry: int
    """The value in the list; `ip` may be the next instruction, or that after a landing pad."""
    name: str
    """The function that contains it; for dead code, the name in available_filter_functions."""
    offset: int
    """Bytes from the start of the function."""
    place: str
    """Section and offset in a module, such as `.text+0x40`; empty in a kernel."""
    text: bytes
    form: str
    """The instructions of `text`, with the name of the function that they call."""
    dead: bool


@dataclass(frozen=True, slots=True)
class StaticSites:
    """All call sites of one file, ascending."""

    image: Image
    source: str
    """How the list was found."""
    sites: tuple[StaticSite, ...]

    def of(self, function: str) -> list[StaticSite]:
        """Return the sites of the functions called `function`; several may share a name."""
        return [each for each in self.sites if each.name == function]


def read_sites(reader: Reader, image: Image) -> StaticSites:
    """Return the sites of `image`. Raises `ImageError`, and `NoCallSitesError` without any."""
    bases = _bases(image)
    entries, source = _entries(reader, image, bases)
    entries = np.unique(entries[entries != 0]) if not image.relocatable else np.unique(entries)
    if not len(entries):
        raise NoCallSitesError(str(image.path), "it contains no list of call sites")
    ips = rec_ips(reader, image, bases, entries)
    names, offsets = _functions(image, bases, ips)
    dead = dead_sites(image, bases, ips)
    texts = _texts(reader, image, bases, entries, ips)
    forms = _forms(reader, image, bases, entries, texts)
    places = _places(image, bases, ips)
    rows = zip(
        *(ips.tolist(), entries.tolist(), names, offsets, places, texts, forms, dead.tolist()),
        strict=True,
    )
    return StaticSites(
        image,
        source,
        tuple(
            StaticSite(
                ip,
                entry,
                f"{INVALID_FUNCTION}_{offset}" if gone else name,
                offset,
                place,
                text,
                form,
                gone,
            )
            for ip, entry, name, offset, place, text, form, gone in rows
        ),
    )


@dataclass(frozen=True, slots=True)
class Difference:
    """How the sites of two files differ, by the names of their functions."""

    added: tuple[StaticSite, ...]
    removed: tuple[StaticSite, ...]
    changed: tuple[tuple[StaticSite, StaticSite], ...]
    """Sites with another form, or at another offset in their function."""
    unchanged: int


def difference(before: StaticSites, after: StaticSites) -> Difference:
    """Compare the sites of two files; functions that share a name are taken in their order."""
    old, new = _by_name(before), _by_name(after)
    added = [site for key, site in new.items() if key not in old]
    removed = [site for key, site in old.items() if key not in new]
    both = [(old[key], new[key]) for key in old if key in new]
    changed = [pair for pair in both if _shape(pair[0]) != _shape(pair[1])]
    return Difference(tuple(added), tuple(removed), tuple(changed), len(both) - len(changed))


def _shape(site: StaticSite) -> tuple[str, int]:
    return site.form, site.offset


def _by_name(table: StaticSites) -> dict[tuple[str, int], StaticSite]:
    """Return the sites by name and number; dead ones are in no function."""
    seen: dict[str, int] = defaultdict(int)
    found = {}
    for site in table.sites:
        if not site.dead:
            found[site.name, seen[site.name]] = site
            seen[site.name] += 1
    return found


def _bases(image: Image) -> Mapping[int, int]:
    """Return the address of each loaded section."""
    if not image.relocatable:
        return own_bases(image)
    bases, at = {}, 0
    for section in image.sections:
        if section.loaded:
            at = -(-at // max(section.align, 16)) * max(section.align, 16)
            bases[section.index] = at
            at += section.size
    return bases


def _entries(reader: Reader, image: Image, bases: Mapping[int, int]) -> tuple[Addresses, str]:
    """Return the values of the list, and how it was found."""
    facts = reader.facts
    if not image.relocatable:
        table = site_table(reader, image, bases)
        data = None if table is None else image.read(table.address, table.size)
        if table is None or data is None:
            return calls_by_relocation(reader, image, bases), RELOCATIONS
        return image.words(data.tobytes()), table.source
    found = [np.empty(0, np.uint64)]
    names = set()
    for table_of in image.relocations():
        if table_of.target.name not in facts.sites.sections:
            continue
        names.add(table_of.target.name)
        symbols = image.symbols
        row = table_of.symbol
        start = [bases.get(index, 0) for index in range(len(image.sections))]
        shndx = np.minimum(symbols.shndx[row], len(start) - 1)
        value = symbols.address[row] + np.array(start, np.uint64)[shndx]
        if table_of.addend is not None:
            value = value + table_of.addend.view(np.uint64)
        else:
            words = image.words(image.data(table_of.target).tobytes())
            value = value + words[(table_of.offset // np.uint64(facts.pointer_size)).astype(int)]
        found.append(value)
    if names:
        return np.concatenate(found), SECTION.format(", ".join(sorted(names)))
    return calls_by_relocation(reader, image, bases), RELOCATIONS


def _functions(
    image: Image, bases: Mapping[int, int], ips: Addresses
) -> tuple[list[str], list[int]]:
    """Return the name of the function before each ip, and the distance from it."""
    table = image.symbols
    rows = table.by_address
    rows = rows[table.functions[rows]] if not image.relocatable else np.flatnonzero(table.functions)
    start = table.address[rows]
    if image.relocatable:
        places = np.array([bases.get(index, 0) for index in range(len(image.sections))], np.uint64)
        start = start + places[table.shndx[rows]]
        order = np.lexsort((table.binding[rows] == 0, start))
        rows, start = rows[order], start[order]
        first = np.append(True, start[1:] != start[:-1])[: len(start)]
        rows, start = rows[first], start[first]
    unknown = [f"0x{ip:x}" for ip in ips.tolist()]
    if not len(rows):
        return unknown, [0] * len(ips)
    near = np.searchsorted(start, ips, "right") - 1
    known = near >= 0
    near = np.maximum(near, 0)
    if not image.relocatable:
        known &= ips < table.limit[rows[near]]
    names = table.names
    found = [
        names[row] if inside else unknown[number]
        for number, (row, inside) in enumerate(
            zip(rows[near].tolist(), known.tolist(), strict=True)
        )
    ]
    return found, np.where(known, ips - start[near], 0).astype(np.int64).tolist()


def _places(image: Image, bases: Mapping[int, int], ips: Addresses) -> list[str]:
    if not image.relocatable:
        return [""] * len(ips)
    order = sorted(bases, key=lambda index: bases[index])
    start = np.array([bases[index] for index in order], np.uint64)
    rows = np.searchsorted(start, ips, "right") - 1
    return [
        f"{image.sections[order[row]].name}+{ip - bases[order[row]]:#x}"
        for row, ip in zip(rows.tolist(), ips.tolist(), strict=True)
    ]


def _texts(
    reader: Reader, image: Image, bases: Mapping[int, int], entries: Addresses, ips: Addresses
) -> list[bytes]:
    """Return the text of each site, from its entry to the end of what ftrace may change."""
    size, lead = reader.facts.sites.size, int(reader.call_adjust(np.zeros(1, np.uint64))[0])
    pieces = [
        (bases[section.index], image.data(section).tobytes())
        for section in image.sections
        if section.loaded and section.executable and section.index in bases
    ]
    pieces.sort()
    starts = np.array([start for start, _ in pieces], np.uint64)
    rows = np.maximum(np.searchsorted(starts, ips, "right") - 1, 0).tolist() if pieces else []
    found = []
    for ip, row in zip(ips.tolist(), rows, strict=True):
        start, data = pieces[row]
        text = data[max(ip - lead - start, 0) : ip + size - start]
        found.append(text[: _length(reader.facts, text)])
    return found


def _length(facts: FileFacts, text: bytes) -> int:
    """Return how many bytes of `text` belong to the site, if sites differ in size."""
    for pattern in facts.sites.patterns:
        end = len(pattern.value)
        if pattern.offset == 0 and facts.insn_align <= end < len(text):
            pairs = zip(text, pattern.value, pattern.mask, strict=False)
            if facts.insn_align > 1 and all(a & mask == b & mask for a, b, mask in pairs):
                return end
    return len(text)


def _forms(
    reader: Reader,
    image: Image,
    bases: Mapping[int, int],
    entries: Addresses,
    texts: list[bytes],
) -> list[str]:
    """Return the instructions of each site, with the names of the functions they call."""
    engine = Cs(reader.cs_arch, reader.cs_mode)
    called = _called(image, bases) if image.relocatable else {}
    names = {} if image.relocatable else _names(image)
    known: dict[tuple[bytes, int], str] = {}
    found = []
    for entry, text in zip(entries.tolist(), texts, strict=True):
        by_relocation = next(
            (called[at] for at in range(entry, entry + len(text)) if at in called), ""
        )
        key = (text, 0 if by_relocation else entry)
        lines = known.get(key)
        if lines is None:
            parts = []
            for _, _, mnemonic, operands in engine.disasm_lite(text, entry):
                match = _NUMBER.search(operands)
                target = int(match[0], 16) if match else None
                name = "." if target == entry else names.get(target or 0)
                if match and name:
                    operands = operands.replace(match[0], name).replace("#", "")
                parts.append(f"{mnemonic} {operands}".strip())
            lines = known[key] = "; ".join(parts) or text.hex(" ")
        found.append(f"{lines.split()[0]} {by_relocation}" if by_relocation else lines)
    return found


def _called(image: Image, bases: Mapping[int, int]) -> dict[int, str]:
    """Return the names of symbols by the addresses of their relocations in code."""
    names = image.symbols.names
    found = {}
    for table in image.relocations():
        base = bases.get(table.target.index)
        if base is None or not table.target.executable:
            continue
        for offset, row in zip(table.offset.tolist(), table.symbol.tolist(), strict=True):
            if names[row]:
                found[base + offset] = names[row]
    return found


def _names(image: Image) -> dict[int, str]:
    """Return the names of functions by address."""
    table = image.symbols
    rows = table.by_address.tolist()
    names = table.names
    starts = table.address[rows].tolist()
    found = dict(zip(starts, map(names.__getitem__, rows), strict=True))
    for name in image.facts.sites.mcount_symbols:
        address = table.address_of(name)
        if address is not None:
            found[address] = name  # another symbol may be there too
    return found
