"""The text of recorded events that no tracer here writes, from their `format`.

If an event's `print fmt` cannot be evaluated, its fields are shown. Source: trace_bprint_print()
in kernel/trace/trace_output.c, and bstr_printf() in lib/vsprintf.c, 6.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from .formats import EventFormat, Field
from .printfmt import (
    MOST_TEXT,
    Array,
    PrintFormat,
    Record,
    UnsupportedError,
    Value,
    printed,
    unescaped,
)

_PRINTK = re.compile(r'^0x([0-9a-fA-F]{1,16})\s*:\s*"((?:[^"\\]|\\.)*)"\s*$', re.MULTILINE)

_ARGUMENT = re.compile(
    r"%[-+ #0]*(?P<width>\*)?\d*(?:\.(?:(?P<precision>\*)|\d*))?"
    r"(?P<length>hh|h|ll|l|L|z|j|t|q)?(?P<kind>[diuxXocsp%])(?P<pointer>(?<=p)[A-Za-z])?"
)


class RecordTexts:
    """The texts of the records of a recording, by row."""

    def __init__(
        self,
        data: bytes,
        place: NDArray[np.void],
        formats: Mapping[int, EventFormat],
        printk_formats: str,
        record: Callable[[bytes], Record],
        long: int,
    ) -> None:
        """`place` has the places of the records in `data`; see pages.py."""
        self._data, self._place = data, place
        self._formats, self._record, self._long = formats, record, long
        self._printk = {
            int(address, 16): unescaped(text) for address, text in _PRINTK.findall(printk_formats)
        }
        self._print: dict[int, PrintFormat | None] = {}

    def _whole(self, row: int) -> Record:
        at, size = int(self._place["at"][row]), int(self._place["size"][row])
        return self._record(self._data[at : at + size])

    def _format(self, record: Record) -> EventFormat | None:
        return self._formats.get(int.from_bytes(record.data[:2], record.order))

    def names(self) -> tuple[list[str], NDArray[np.intp]]:
        """Return the names of all events, and for each record which of them it has."""
        at = self._place["at"]
        data = np.frombuffer(self._data, np.uint8)
        kinds = np.zeros(len(at), np.uint32)
        if len(at):
            low, high = data[at].astype(np.uint32), data[at + 1].astype(np.uint32)
            little = self._record(b"").order == "little"
            kinds = low | high << 8 if little else high | low << 8
        known = sorted(self._formats)
        rows = np.searchsorted(known, kinds)
        rows = np.minimum(rows, max(len(known) - 1, 0))
        there = np.array([*known, -1])[rows] == kinds
        return [*(self._formats[each].name for each in known), ""], np.where(
            there, rows, len(known)
        )

    def name(self, row: int) -> str:
        """Return the name of the event of record `row`; "unknown" without a format."""
        form = self._format(self._whole(row))
        return "unknown" if form is None else form.name

    def number(self, row: int) -> int:
        """Return the number of the event's type."""
        record = self._whole(row)
        return int.from_bytes(record.data[:2], record.order)

    def shown(self, row: int) -> tuple[str, str]:
        """Return what the trace shows first of record `row`, and the rest of its text."""
        record = self._whole(row)
        form = self._format(record)
        if form is None:
            return "", f"Unknown type {int.from_bytes(record.data[:2], record.order)}"
        if form.system == "ftrace" and form.name in ("bprint", "bputs"):
            try:
                return self._binary(form, record)
            except UnsupportedError:
                pass
        return f"{form.name}:", f" {self._text(form, record)}"

    def _text(self, form: EventFormat, record: Record) -> str:
        if form.number not in self._print:
            try:
                made = PrintFormat(form.print_fmt, form.fields, self._long)
            except UnsupportedError:
                made = None
            self._print[form.number] = made
        printer = self._print[form.number]
        if printer is not None:
            try:
                return printer.text(record).removesuffix("\n")
            except UnsupportedError:
                pass
        return self._fields(form, record)

    def _fields(self, form: EventFormat, record: Record) -> str:
        found = []
        for field in form.fields.values():
            if not field.name.startswith("common_"):
                found.append(f"{field.name}={_plain(field, record)}")
        return " ".join(found)[:MOST_TEXT]

    # trace_printk

    def _binary(self, form: EventFormat, record: Record) -> tuple[str, str]:
        """Return the text of a trace_printk, whose format is a string of the kernel."""
        ip = form.fields.get("ip")
        where = "" if ip is None else record.names.name(record.number(ip))
        if form.name == "bputs":
            text = self._printk.get(_pointer(form, "str", record))
            if text is None:
                raise UnsupportedError("a string that was not recorded")
            return where, f": {text.removesuffix(chr(10))}"
        format_ = self._printk.get(_pointer(form, "fmt", record))
        buf = form.fields.get("buf")
        if format_ is None or buf is None:
            raise UnsupportedError("a format that was not recorded")
        values = _unpacked(format_, record.data[buf.offset :], record)
        return where, f": {printed(format_, values, record).removesuffix(chr(10))}"


def _pointer(form: EventFormat, name: str, record: Record) -> int:
    field = form.fields.get(name)
    if field is None:
        raise UnsupportedError(f"no field {name}")
    return record.number(field)


def _unpacked(format_: str, data: bytes, record: Record) -> list[Value]:
    """Return the arguments that vbin_printf() has put next to each other."""
    found: list[Value] = []
    at = 0

    def number(size: int) -> int:
        nonlocal at
        at = -(-at // 4) * 4
        if at + size > len(data):
            raise UnsupportedError("a short record")
        at += size
        return int.from_bytes(data[at - size : at], record.order)

    for each in _ARGUMENT.finditer(format_):
        found += [number(4) for star in ("width", "precision") if each[star]]
        if each["kind"] == "s":
            text, _, _ = data[at:].partition(b"\0")
            at += len(text) + 1
            found.append(text.decode("utf-8", "backslashreplace"))
        elif each["kind"] != "%":
            long = each["kind"] == "p" or each["length"] in ("l", "z", "t")
            size = record.long if long else 8 if each["length"] in ("ll", "L", "j", "q") else 4
            found.append(number(size))
    return found


def _plain(field: Field, record: Record) -> str:
    """Return a field as `trace-cmd report -R` shows it: text, a list, or a number."""
    try:
        if not field.array and not field.dynamic and field.size in (1, 2, 4, 8):
            value = record.number(field)
            return str(value) if field.signed else f"0x{value:x}"
        array: Array = record.array(field)
        if field.kind.split()[-1:] == ["char"]:
            return array.data.partition(b"\0")[0].decode("utf-8", "backslashreplace")
        numbers = [
            int.from_bytes(array.data[at : at + array.size], record.order)
            for at in range(0, len(array.data) - array.size + 1, array.size)
        ]
        return f"[{', '.join(f'0x{number:x}' for number in numbers)}]"
    except UnsupportedError:
        return "?"
