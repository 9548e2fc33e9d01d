"""Source lines of code, from DWARF line programs, decoded on first use.

Decoding the line program of a whole kernel takes minutes, that of one compilation unit
milliseconds. `.debug_aranges` says which unit an address belongs to, and only the program of
that unit is decoded, once.

Source lines are optional. If debug information is missing, truncated, compressed or damaged,
no line is known; the image is still valid.

Source: DWARF 5, sections 6.1.2 "Lookup by address" and 6.2 "Line number information".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..facts import FileFacts

if TYPE_CHECKING:
    from elftools.dwarf.dwarfinfo import DWARFInfo
    from elftools.dwarf.lineprogram import LineProgram

MAX_UNIT = 1 << 22
"""Limit for a line program, in bytes; a larger one is not decoded."""

_ARANGES_VERSION = 2

_SECTIONS = ("info", "abbrev", "str", "line", "line_str", "str_offsets", "addr")


class _Unit(NamedTuple):
    """The decoded lines of one compilation unit, n rows sorted by address."""

    address: NDArray[np.uint64]
    line: NDArray[np.int64]
    """Line numbers; 0 marks the end of a sequence of code."""
    file: list[str]


class SourceLines:
    """Finds the source line of an address.

    `sections` holds the relocated bytes of the `.debug_*` sections, by name.
    """

    def __init__(self, sections: Mapping[str, NDArray[np.uint8]], facts: FileFacts) -> None:
        self._sections = sections
        self._facts = facts
        self._units: dict[int, _Unit | None] = {}

    def at(self, address: int) -> tuple[str, int] | None:
        """Return the source file and line of the code at `address`, or None if unknown."""
        starts, ends, offsets = self._ranges
        row = int(np.searchsorted(starts, np.uint64(address), "right")) - 1
        if row < 0 or address >= int(ends[row]):
            return None
        offset = int(offsets[row])
        if offset not in self._units:
            self._units[offset] = self._decode(offset)
        unit = self._units[offset]
        if unit is None:
            return None
        row = int(np.searchsorted(unit.address, np.uint64(address), "right")) - 1
        if row < 0 or unit.line[row] <= 0:  # damaged data may count below 0
            return None
        return unit.file[row], int(unit.line[row])

    @cached_property
    def _ranges(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]:
        """Starts, ends and unit offsets of `.debug_aranges`, sorted by start."""
        raw = self._sections.get(".debug_aranges", np.empty(0, np.uint8))
        order, word = "<" if self._facts.byteorder == "little" else ">", self._facts.pointer_size
        size = 2 * word
        found = [np.empty((0, 3), np.uint64)]
        at = 0
        # Each unit: u4 length, u2 version, u4 offset of its debug_info, u1 size of an
        # address, u1 size of a segment, padding to a pair, pairs (start, length).
        while at + 12 <= len(raw):
            length = int(raw[at : at + 4].view(f"{order}u4")[0])
            version = int(raw[at + 4 : at + 6].view(f"{order}u2")[0])
            end = at + 4 + length
            if version != _ARANGES_VERSION or raw[at + 10] != word or end > len(raw):
                break
            pairs = at + -(-12 // size) * size
            count = max(end - pairs, 0) // size
            table = np.ascontiguousarray(raw[pairs : pairs + count * size])
            ranges = table.view(f"{order}u{word}").reshape(-1, 2).astype(np.uint64)
            unit = np.full((len(ranges), 1), raw[at + 6 : at + 10].view(f"{order}u4")[0], np.uint64)
            found.append(np.hstack((ranges, unit)))
            at = end
        rows = np.concatenate(found)
        rows = rows[rows[:, 1] > 0]
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        return rows[:, 0], rows[:, 0] + rows[:, 1], rows[:, 2]

    @cached_property
    def _dwarf(self) -> DWARFInfo:
        """The sections as pyelftools reads them."""
        # Imported here: a machine starts sooner without it.
        from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo

        streams = {}
        for name in _SECTIONS:
            raw = self._sections.get(f".debug_{name}")
            streams[f"debug_{name}_sec"] = (
                raw
                if raw is None
                else DebugSectionDescriptor(
                    BytesIO(raw.tobytes()), f".debug_{name}", 0, len(raw), 0
                )
            )
        others = (
            *("debug_aranges_sec", "debug_frame_sec", "eh_frame_sec", "debug_loc_sec"),
            *("debug_ranges_sec", "debug_pubtypes_sec", "debug_pubnames_sec"),
            *("debug_loclists_sec", "debug_rnglists_sec", "debug_sup_sec"),
            *("gnu_debugaltlink_sec", "debug_types_sec"),
        )
        config = DwarfConfig(
            little_endian=self._facts.byteorder == "little",
            machine_arch="",
            default_address_size=self._facts.pointer_size,
        )
        return DWARFInfo(config, **streams, **dict.fromkeys(others))

    def _decode(self, offset: int) -> _Unit | None:
        """Return the lines of the unit at `offset` of `.debug_info`, or None."""
        try:
            unit = self._dwarf.get_CU_at(offset)
            program = self._dwarf.line_program_for_CU(unit)
            if program is None or program.header["unit_length"] > MAX_UNIT:
                return None
            files = _file_names(program)
            states = [entry.state for entry in program.get_entries() if entry.state is not None]
            lines = [0 if state.end_sequence else state.line for state in states]
            names = [files.get(state.file, "?") for state in states]
            address = np.array([state.address for state in states], np.uint64)
        except Exception:  # the library may raise anything on damaged debug information
            return None
        # If one sequence ends at the address where the next begins, the end sorts first.
        order = np.lexsort((np.array(lines) != 0, address))
        return _Unit(
            address[order], np.array(lines, np.int64)[order], [names[row] for row in order.tolist()]
        )


def _file_names(program: LineProgram) -> dict[int, str]:
    """Return the paths of a line program by file number, relative to the build directory."""
    header = program.header
    version = int(header["version"])
    directories = [_text(directory) for directory in header["include_directory"]]
    # Up to DWARF 4, directory 0 is the build directory and is not in the table.
    names = {}
    for number, entry in enumerate(header["file_entry"], 0 if version >= 5 else 1):
        place = entry.dir_index - (0 if version >= 5 else 1)
        name = _text(entry.name)
        local = entry.dir_index == 0 or not 0 <= place < len(directories)
        names[number] = name if local or name.startswith("/") else f"{directories[place]}/{name}"
    return names


def _text(raw: bytes) -> str:
    """Return a path as text that is safe to print on a terminal."""
    text = raw.decode("utf-8", "replace")
    return "".join(char if char.isprintable() else "?" for char in text)
