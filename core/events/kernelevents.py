"""The trace events of a guest: their fields and print formats, as the guest describes them.

The tracer's symbol `trace_events` is an array of pointers to `struct trace_event_call`, in the
order of the events' types, ended by a null pointer (arches/guest/include/trace_events.h). It is
not trusted: an event with an invalid description is left out.
"""

from __future__ import annotations

import re

import numpy as np

from .. import abi
from ..errors import MemoryFault
from ..machine.memory import Memory
from .fields import Field, Layout
from .formats import EventFormat

TABLE = "trace_events"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}(\[[0-9]{1,4}\])?", re.ASCII)
_TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_ *\[\]]{0,63}", re.ASCII)
_MOST_FIELDS = 64
_LONGEST = 4096
_CHUNK = 64


def read_events(memory: Memory, table: int) -> tuple[EventFormat, ...]:
    """Return the events described at address `table`, those with the same name once."""
    found: dict[str, EventFormat] = {}
    layout = Layout(memory.byteorder, memory.pointer_size)
    call = abi.trace_event_call(memory.byteorder, memory.pointer_size)
    for number in range(abi.FIRST_TRACE_EVENT_ID, abi.LAST_TRACE_EVENT_ID + 1):
        at = table + (number - abi.FIRST_TRACE_EVENT_ID) * memory.pointer_size
        try:
            entry = memory.read_int(at)
            if not entry:
                break
            row = np.frombuffer(memory.read(entry, call.itemsize), call)[0]
            fields = _fields(memory, int(row["fields"]))
            group = _string(memory, int(row["system"]), _NAME)
            name = _string(memory, int(row["name"]), _NAME)
            print_fmt = _text(memory, int(row["print_fmt"]))
        except (MemoryFault, ValueError):
            continue
        found.setdefault(name, EventFormat(group, name, number, fields, print_fmt, layout))
    return tuple(found.values())


def _fields(memory: Memory, table: int) -> tuple[Field, ...]:
    """Return the fields in a list. Raises `ValueError` for invalid ones."""
    layout = abi.trace_event_field(memory.byteorder, memory.pointer_size)
    fields: list[Field] = []
    for number in range(_MOST_FIELDS):
        at = table + number * layout.itemsize
        row = np.frombuffer(memory.read(at, layout.itemsize), layout)[0]
        if not row["type"]:
            return tuple(fields)
        kind = _string(memory, int(row["type"]), _TYPE)
        name = _string(memory, int(row["name"]), _FIELD)
        offset, size = int(row["offset"]), int(row["size"])
        if offset + size > abi.RB_PAGE_SIZE:
            raise ValueError("a field is outside its event")
        fields.append(Field(kind, name, offset, size, bool(row["is_signed"])))
    raise ValueError("a list of fields has no end")


def _string(memory: Memory, address: int, pattern: re.Pattern[str]) -> str:
    """Return the string at `address`. Raises `ValueError` if it does not match `pattern`."""
    text = _text(memory, address)
    if not pattern.fullmatch(text):
        raise ValueError(f"{text!r} is not a valid name")
    return text


def _text(memory: Memory, address: int) -> str:
    """Return the string at `address`, of printable characters. Raises `ValueError`."""
    found = b""
    while b"\0" not in found and len(found) < _LONGEST:
        region = memory.region_at(address)
        if region is None:
            raise ValueError("a string is not in memory")
        part = memory.read(address, min(_CHUNK, region.end - address))
        found, address = found + part, address + len(part)
    text, end, _ = found.partition(b"\0")
    string = text.decode("ascii", "replace")
    if not end or not string.isprintable():
        raise ValueError("a string has no end")
    return string
