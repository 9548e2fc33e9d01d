"""trace_printk(): how its messages reach the buffer, and the file printk_formats.

An event has only the address of a constant format. The kernel keeps a copy of each format, and
replaces the module's pointers by those of the copies, so that the trace stays readable after the
module is gone. Source: hold_module_trace_bprintk_format() and t_show() in
kernel/trace/trace_printk.c, trace_printk_init_buffers() in kernel/trace/trace.c, 6.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..abi import TraceType
from ..events.fields import Layout
from ..events.formats import EventFormat
from ..ftrace.tracepoint import Tracepoint
from ..kernel.kallsyms import Kallsyms
from ..machine.machine import Machine
from ..memento import Restore, attributes
from .events.eventfile import EventMemory
from .ftrace_events import layouts
from .tree import File, Node

SECTION = "__trace_printk_fmt"
"""The section of a module with pointers to its formats."""

_POINT, _FUNCTION = "__tracepoint_trace_printk", "trace_printk_write"
"""What the kernel calls for each message: a tracepoint, and the tracer's function."""

_MOST = 512
"""Limit for the length of a format, in bytes."""

_ESCAPES = str.maketrans({"\n": "\\n", "\t": "\\t", '"': '\\"'})


class TracePrintk:
    """The formats of trace_printk() that the kernel keeps."""

    def __init__(
        self,
        machine: Machine,
        kallsyms: Kallsyms,
        memory: EventMemory,
        first: Callable[[], None],
    ) -> None:
        """`memory` is for the copies; `first` is called when the first module has formats."""
        self._machine = machine
        self._memory = memory
        self._first = first
        self._kept: dict[str, int] = {}
        facts = machine.port.facts
        layout = Layout(facts.byteorder, facts.pointer_size)
        self.events: Mapping[int, EventFormat] = {
            each.number: EventFormat(
                "ftrace", each.name, each.number, each.fields, each.print_fmt, layout
            )
            for each in layouts(facts.pointer_size)
            if each.number in (TraceType.BPRINT, TraceType.BPUTS)
        }
        """The formats of the events that it makes, by type."""
        point = Tracepoint.find(machine.memory, kallsyms, _POINT, _FUNCTION)
        if point is not None:
            point.enable(True)

    @property
    def used(self) -> bool:
        """Whether a module with formats was loaded."""
        return bool(self._kept)

    @property
    def by_address(self) -> Mapping[int, str]:
        """The formats by the addresses of their copies."""
        return {address: text for text, address in self._kept.items()}

    def hold(self, table: range) -> None:
        """Replace the pointers in `table`, at these addresses, by those of kept copies."""
        memory = self._machine.memory
        for at in range(table.start, table.stop, memory.pointer_size):
            address = memory.read_int(at)
            if address:
                memory.write_int(at, self._copy(address))

    def _copy(self, address: int) -> int:
        data = self._machine.memory.read_mapped(address, _MOST).split(b"\0")[0]
        text = data.decode("utf-8", "backslashreplace")
        if not self._kept:
            now = max(vcpu.ticks for vcpu in self._machine.vcpus)
            self._machine.dmesg.write(now, "trace_printk() being used. Allocating extra memory.")
            self._kept[text] = self._memory.place(data + b"\0")
            self._first()
        if text not in self._kept:
            self._kept[text] = self._memory.place(data + b"\0")
        return self._kept[text]

    def text(self) -> str:
        """Return the content of printk_formats."""
        return "".join(
            f'0x{address:x} : "{text.translate(_ESCAPES)}"\n'
            for text, address in self._kept.items()
        )

    def save(self) -> Restore:
        """Return a function that restores which formats are kept; the machine saves the copies."""
        return attributes(self, "_kept")


class PrintkFormats(File):
    """The formats of trace_printk(), with the addresses that events have for them."""

    def __init__(self, printk: TracePrintk) -> None:
        self._printk = printk

    def read(self) -> str:
        """Return one format a line."""
        return self._printk.text()


def files(printk: TracePrintk) -> Mapping[str, Node]:
    """Return the files of this module by name."""
    return {"printk_formats": PrintkFormats(printk)}
