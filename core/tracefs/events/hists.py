"""Histograms in guest memory: their definition for the guest, and what it has counted.

arches/guest/include/trace_events.h has the layouts.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ... import abi
from ...abi import FilterKind, HistAction, HistKind
from ...errors import MemoryFault, TracefsError
from ...events.hist import Hist, HistField, Is, Op
from ...events.histtext import Content, Key, Row, Snapshot
from ...events.synth import SynthEvent
from .eventfile import EventFiles

_USECS_NS = 1000
_MOST_BYTES = 64 << 20
"""Maximum bytes of all entries of a histogram."""


class HistStore:
    """Puts histograms into the guest's memory."""

    def __init__(self, files: EventFiles) -> None:
        self._files = files
        order = files.memory.byteorder
        self._layout = abi.hist_trigger(order)
        self._order = "<" if order == "little" else ">"

    # Definitions

    def place(self, hist: Hist, in_ns: bool, synth: Callable[[SynthEvent], int]) -> None:
        """Store `hist`; `in_ns` says if the trace clock counts nanoseconds.

        `synth` returns the address of a synthetic event. Raises `TracefsError` (ENOMEM).
        """
        if self._element_size(hist) << hist.bits > _MOST_BYTES:
            raise TracefsError(errno.ENOMEM)
        blocks, order = self._files.blocks, self._files.memory.byteorder
        ops: list[tuple[int, ...]] = []
        unit = _USECS_NS if hist.in_usecs and in_ns else 0
        fields = self._fields(hist, ops, unit)
        row = np.zeros((), self._layout)
        row["nr_keys"], row["nr_vals"] = len(hist.keys), 1 + len(hist.vals)
        row["nr_vars"] = len(hist.vars) + len(hist.field_vars)
        row["nr_save"], row["nr_refs"] = len(hist.save_vars), len(hist.refs)
        row["nr_actions"], row["key_size"] = len(hist.actions), hist.key_size
        row["vars"] = self._vars_at(hist)
        row["comm"] = self._comm_at(hist) if hist.has_comm else 0
        row["elt_size"] = self._element_size(hist)
        row["bits"], row["max"] = hist.bits + 1, hist.size
        placed: list[int] = []

        def stored(data: bytes) -> int:
            placed.append(blocks.place(data))
            return placed[-1]

        try:
            hist.address = stored(row.tobytes())
            refs = [(_address(ref), ref.offset, ref.once) for ref in hist.refs]
            row["map"] = stored(bytes(4 << hist.bits + 1))
            row["elts"] = stored(bytes(self._element_size(hist) << hist.bits))
            row["ops"] = stored(np.array(ops, abi.hist_op(order)).tobytes())
            row["fields"] = stored(np.array(fields, abi.hist_field(order)).tobytes())
            row["refs"] = stored(np.array(refs, abi.hist_var_ref(order)).tobytes())
            row["actions"] = stored(self._actions(hist, synth).tobytes())
        except MemoryFault:
            for each in placed:
                blocks.free(each)
            hist.address = 0
            raise TracefsError(errno.ENOMEM) from None
        self._files.memory.write(hist.address, row.tobytes())

    def free(self, hist: Hist) -> None:
        """Give back its memory."""
        row = self._row(hist)
        for name in ("map", "elts", "ops", "fields", "refs", "actions"):
            self._files.blocks.free(int(row[name]))
        self._files.blocks.free(hist.address)

    def _fields(self, hist: Hist, ops: list[tuple[int, ...]], unit: int) -> list[tuple[int, ...]]:
        """Return the rows of `struct hist_field`, and add their steps to `ops`."""
        found: list[tuple[int, ...]] = []

        def add(each: HistField, to: int, size: int, string: int = 0) -> None:
            found.append((len(ops), len(each.ops), to, size, string, int(each.is_string)))
            ops.extend(_stored(op, unit) for op in each.ops)

        for key in hist.keys:
            add(key, key.offset, key.size)
        add(HistField(Is.HITCOUNT, (Op(HistKind.HITCOUNT),)), 0, 0)
        for number, val in enumerate(hist.vals, 1):
            add(val, number, 0)
        for var, string in self._strings(hist):
            add(var, var.index, min(var.size, abi.HIST_STRING), string)
        return found

    def _strings(self, hist: Hist) -> list[tuple[HistField, int]]:
        """Return the string variables, each with the offset of its string in the element."""
        found, at = [], self._comm_at(hist) + (abi.TASK_COMM_LEN if hist.has_comm else 0)
        for each in (*hist.vars, *hist.field_vars, *hist.save_vars):
            found.append((each, at if each.is_string else 0))
            at += abi.HIST_STRING if each.is_string else 0
        return found

    @staticmethod
    def _vars_at(hist: Hist) -> int:
        return hist.key_size + 8 * (1 + len(hist.vals))

    def _comm_at(self, hist: Hist) -> int:
        return self._vars_at(hist) + 8 * (1 + hist.nr_vars)

    def _element_size(self, hist: Hist) -> int:
        strings = sum(each.is_string for each, _ in self._strings(hist))
        comm = abi.TASK_COMM_LEN if hist.has_comm else 0
        return self._comm_at(hist) + comm + abi.HIST_STRING * strings

    def _actions(self, hist: Hist, synth: Callable[[SynthEvent], int]) -> NDArray[np.void]:
        table = np.zeros(len(hist.actions), abi.hist_action(self._files.memory.byteorder))
        for row, each in zip(table, hist.actions, strict=True):
            row["handler"], row["action"] = each.handler, each.action
            row["ref"], row["var"] = each.ref, each.var
            row["event"] = 0 if each.event is None else synth(each.event)
            row["nr_params"] = len(each.refs)
            row["params"][: len(each.refs)] = each.refs
        return table

    # Content

    def _row(self, hist: Hist) -> np.void:
        data = self._files.memory.read(hist.address, self._layout.itemsize)
        row: np.void = np.frombuffer(bytearray(data), self._layout)[0]
        return row

    def clear(self, hist: Hist) -> None:
        """Reset the counts of `hist`."""
        row, memory = self._row(hist), self._files.memory
        memory.write(int(row["map"]), bytes(4 << hist.bits + 1))
        memory.write(int(row["elts"]), bytes(int(row["elt_size"]) * int(row["entries"])))
        row["entries"] = row["hits"] = row["drops"] = 0
        memory.write(hist.address, row.tobytes())

    def content(self, hist: Hist) -> Content:
        """Return the counts of `hist` in the guest."""
        row, memory = self._row(hist), self._files.memory
        size, count = int(row["elt_size"]), min(int(row["entries"]), hist.size)
        data = memory.read(int(row["elts"]), size * count) if count else b""
        rows = [
            self._entry(hist, int(row["elts"]) + at, data[at : at + size])
            for at in range(0, len(data), size)
        ]
        return Content(rows, int(row["hits"]), int(row["drops"]), self._snapshot(hist, row))

    def _entry(self, hist: Hist, address: int, data: bytes) -> Row:
        words = np.frombuffer(data, f"{self._order}u8").tolist()
        sums = hist.key_size // 8
        first = self._vars_at(hist) // 8 + 1
        found: list[int | str] = words[first : first + hist.nr_vars]
        for each, at in self._strings(hist):
            if at:
                found[each.index] = _text(data[at : at + abi.HIST_STRING])
        comm = self._comm_at(hist)
        return Row(
            self._keys(hist, data),
            tuple(words[sums : sums + 1 + len(hist.vals)]),
            tuple(found),
            _text(data[comm : comm + abi.TASK_COMM_LEN]) if hist.has_comm else "",
        )

    def _keys(self, hist: Hist, data: bytes) -> tuple[Key, ...]:
        found: list[Key] = []
        for each in hist.keys:
            raw = data[each.offset : each.offset + each.size]
            numbers = np.frombuffer(raw, f"{self._order}u8").tolist()
            if each.flags & Is.STACKTRACE:
                found.append(tuple(numbers))
            else:
                found.append(_text(raw) if each.is_string else numbers[0])
        return tuple(found)

    def _snapshot(self, hist: Hist, row: np.void) -> Snapshot | None:
        layout = abi.hist_action(self._files.memory.byteorder)
        for number, each in enumerate(hist.actions):
            if each.action is HistAction.SNAPSHOT:
                at = int(row["actions"]) + number * layout.itemsize
                data = self._files.memory.read(at, layout.itemsize)
                action = np.frombuffer(data, layout)[0]
                if action["taken"]:
                    keys = self._keys(hist, action["key"].tobytes())
                    return Snapshot(int(action["value"]), keys, _text(bytes(action["comm"])))
        return None


def _address(ref: HistField) -> int:
    assert ref.hist is not None
    return ref.hist.address


def _stored(op: Op, unit: int) -> tuple[int, ...]:
    value = unit if op.kind is HistKind.TIMESTAMP else op.value
    return (int(op.kind), op.offset, op.size, int(op.signed), value)


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("utf-8", "backslashreplace")


def synth_data(event: SynthEvent, number: int, byteorder: str) -> bytes:
    """Return `struct synth_event` of an event whose type is `number`."""
    row = np.zeros((), abi.synth_event(byteorder))
    fields: Sequence[tuple[FilterKind, int]] = [
        (each.kind, each.size) for each in event.synth_fields
    ]
    row["type"], row["nr_fields"] = number, len(fields)
    row["nr_u64"] = sum(each.words for each in event.synth_fields)
    for at, (kind, size) in enumerate(fields):
        row["fields"][at] = (int(kind), size)
    return row.tobytes()
