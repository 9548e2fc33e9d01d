"""The text of the kernel's trace events as trace-cmd prints it: with its plugins and its C library.

trace-cmd evaluates the print formats itself, and its plugins replace the text of some events or
precede it. Source: the output of trace-cmd 3.1 with the plugins of libtraceevent 1.7.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from ...events.formats import EventFormat
from ...events.printers import Printer
from ...events.printfmt import PrintFmtError, Record
from ..text.textcontext import TextContext

_WAKEUPS = ("sched_wakeup", "sched_wakeup_new")
_ALLOCATIONS = tuple(
    f"{name}{node}" for name in ("kmalloc", "kmem_cache_alloc") for node in ("", "_node")
)
_CALLED = (*_ALLOCATIONS, "kfree", "kmem_cache_free")
"""Events whose text begins with their caller."""

_STATES = "SDTtZXxW"
"""Letters of the bits of a task's state; R if none is set."""

_POINTER = re.compile(r"%p(?![A-Za-z])")
_MARKED = re.compile("\0([0-9a-f]+)\0")
"""A plain pointer, between zero bytes, which no string of an event has."""


class EventPrinter:
    """Prints the events of one format."""

    def __init__(self, event: EventFormat, context: TextContext) -> None:
        self._event = event
        self._symbols = context.symbols
        text = _POINTER.sub("\0%lx\0", event.print_fmt)
        if event.layout.pointer_size == 4:
            text = text.replace("%ld", "%lu")  # it does not extend the sign of a 32-bit long
        plain = replace(event, print_fmt=text, shown_fmt="")
        self._printer = Printer(plain, self._symbol, context.printk_formats)
        self._own = self._plugin()

    def text(self, data: bytes) -> str:
        """Return the text of an event, given its bytes."""
        if self._own is not None:
            try:
                return self._own(Record(data, self._event.layout, self._symbol))
            except (PrintFmtError, KeyError):
                pass
        called = self._caller(data) if self._event.name in _CALLED else ""
        return called + _MARKED.sub(_pointer, self._printer.text(data))

    def _plugin(self) -> Callable[[Record], str] | None:
        if self._event.group != "sched":
            return None
        if self._event.name == "sched_switch":
            return self._switch
        return self._wakeup if self._event.name in _WAKEUPS else None

    def _wakeup(self, record: Record) -> str:
        pid, prio, cpu = (self._number(record, name) for name in ("pid", "prio", "target_cpu"))
        return f"{self._string(record, 'comm')}:{pid} [{prio}] CPU:{cpu:03d}"

    def _switch(self, record: Record) -> str:
        before, after = (
            (self._string(record, f"{task}_comm"), self._number(record, f"{task}_pid"))
            for task in ("prev", "next")
        )
        was, now = (self._number(record, f"{task}_prio") for task in ("prev", "next"))
        state = self._number(record, "prev_state")
        letters = [letter for bit, letter in enumerate(_STATES) if state >> bit & 1]
        left = f"{before[0]}:{before[1]} [{was}] {'|'.join(letters) or 'R'}"
        return f"{left} ==> {after[0]}:{after[1]} [{now}]"

    def _caller(self, data: bytes) -> str:
        try:
            record = Record(data, self._event.layout, self._symbol)
            name = self._symbol(self._number(record, "call_site"), True)
        except (PrintFmtError, KeyError):
            return ""
        return "" if name.startswith("0x") else f"({name}) "

    def _number(self, record: Record, name: str) -> int:
        return record.number(self._event.by_name[name])

    def _string(self, record: Record, name: str) -> str:
        return record.array(self._event.by_name[name]).text

    def _symbol(self, address: int, offset: bool) -> str:
        """Return the symbol at `address`, without its size and its module."""
        if offset:
            return self._symbols.format(address).partition("/")[0]
        return self._symbols.name(address).partition(" ")[0]


def _pointer(found: re.Match[str]) -> str:
    """Return a pointer as the C library prints it."""
    return "(nil)" if found[1] == "0" else f"0x{found[1]}"
