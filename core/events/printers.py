"""The text of events, from their formats.

If a print format cannot be evaluated, the fields of the event are shown. A trace_printk has the
address of its format string, and its arguments as vbin_printf() packs them. Source:
trace_bprint_print() in kernel/trace/trace_output.c, and bstr_printf() in lib/vsprintf.c, 6.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from .fields import Field
from .formats import EventFormat
from .printfmt import (
    MOST_TEXT,
    Array,
    FormatString,
    Names,
    PrintFmt,
    PrintFmtError,
    Record,
    Value,
    unescaped,
)

_PRINTK = re.compile(r'^0x([0-9a-fA-F]{1,16})\s*:\s*"((?:[^"\\]|\\.)*)"\s*$', re.MULTILINE)

_PACKED_POINTERS = ("", "S", "s", "x", "K", "e")
"""Letters after %p of the pointers that are packed as numbers; others are packed as text."""


def printk_formats(text: str) -> dict[int, str]:
    """Return the strings in a file `printk_formats`, by their addresses."""
    return {int(address, 16): unescaped(string) for address, string in _PRINTK.findall(text)}


class Printer:
    """Prints events of one type."""

    def __init__(
        self,
        event: EventFormat,
        names: Names,
        printk: Mapping[int, str],
        ptr_key: bytes | None = None,
        hash_ptr: bool = True,
    ) -> None:
        """`names` finds symbols; `printk` has the format strings of trace_printk by address.

        With `ptr_key`, %p shows a hash; without `hash_ptr`, only that of a trace_printk does.
        Source: trace_event_format() in kernel/trace/trace.c, 6.1.
        """
        self._event = event
        self._names = names
        self._printk = printk
        self._printk_key = ptr_key
        self._event_key = ptr_key if hash_ptr else None

    @cached_property
    def _format(self) -> PrintFmt | None:
        event = self._event
        fields = tuple(event.by_name.values())
        try:
            return PrintFmt(
                event.shown_fmt or event.print_fmt,
                fields,
                event.layout,
                self._names,
                self._event_key,
            )
        except PrintFmtError:
            return None

    def shown(self, record: bytes) -> tuple[str, str]:
        """Return the head (its name or place) and the text of an event, given its bytes."""
        event = self._event
        if event.group == "ftrace" and event.name in ("bprint", "bputs"):
            try:
                return self._trace_printk(
                    Record(record, event.layout, self._names, self._printk_key)
                )
            except PrintFmtError:
                pass
        return f"{event.name}:", f" {self.text(record)}"

    def text(self, record: bytes) -> str:
        """Return the text of an event without its name, given its bytes."""
        if self._format is not None:
            try:
                return self._format.text(record).removesuffix("\n")
            except PrintFmtError:
                pass
        event = Record(record, self._event.layout, self._names)
        shown = (f"{each.plain_name}={_plain(each, event)}" for each in self._event.fields)
        return " ".join(shown)[:MOST_TEXT]

    def _trace_printk(self, record: Record) -> tuple[str, str]:
        fields = self._event.by_name
        where = self._names(record.number(fields["ip"]), False) if "ip" in fields else ""
        where = where.partition(" [")[0]  # as seq_print_ip_sym() prints it
        if self._event.name == "bputs":
            return where, f": {self._string('str', record)}".removesuffix("\n")
        if "buf" not in fields:
            raise PrintFmtError("a trace_printk has no arguments")
        format = FormatString(self._string("fmt", record))
        values = _unpacked(format, record.data[fields["buf"].offset :], record)
        return where, f": {format.text(values, record)}".removesuffix("\n")

    def _string(self, name: str, record: Record) -> str:
        """Return the string whose address is in the field `name`."""
        field = self._event.by_name.get(name)
        string = None if field is None else self._printk.get(record.number(field))
        if string is None:
            raise PrintFmtError("the string of a trace_printk is not known")
        return string


def _unpacked(format: FormatString, data: bytes, record: Record) -> list[Value]:
    """Return the arguments of `format` in the order in which `data` has them."""
    found: list[Value] = []
    at, long = 0, record.layout.pointer_size

    def number(size: int) -> int:
        nonlocal at
        align = min(size, 4)
        start = -(-at // align) * align
        at = start + size
        if at > len(data):
            raise PrintFmtError("an event is too short")
        return record.layout.number(data[start:at])

    for each in format.conversions:
        found += [number(4) for _ in range(each.stars)]
        if each.kind == "s" or (each.kind == "p" and each.pointer[:1] not in _PACKED_POINTERS):
            text, _, _ = data[at:].partition(b"\0")
            at += len(text) + 1
            found.append(text.decode("utf-8", "backslashreplace"))
        else:
            found.append(number(1 if each.kind == "c" else each.size(long)))
    return found


def _plain(field: Field, record: Record) -> str:
    """Return a field as `trace-cmd report -R` shows it: text, a list, or a number."""
    try:
        if not field.array and not field.dynamic and field.size in (1, 2, 4, 8):
            value = record.number(field)
            return str(value) if field.signed else f"0x{value:x}"
        array: Array = record.array(field)
        if field.element_kind.split()[-1:] == ["char"]:
            return array.text
        return f"[{', '.join(f'0x{number:x}' for number in record.numbers(array))}]"
    except PrintFmtError:
        return "?"
