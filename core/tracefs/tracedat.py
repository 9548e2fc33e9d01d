"""A trace array as a file trace.dat."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import DynftraceError
from ..kernel.kallsyms import Kallsyms
from ..machine.machine import Machine
from ..trace.buffer.ringbuffer import RingBuffer
from ..trace.export.formats import NOTHING
from ..trace.export.tracedat import VERSIONS, Description, trace_dat
from .event import TraceEvent, format_text
from .ftrace_events import HEADER_EVENT, header_page, layouts
from .latency import Latency
from .printk import TracePrintk


class Recorded(Protocol):
    """A trace array, as far as the file needs it."""

    @property
    def machine(self) -> Machine:
        """The machine."""
        ...

    @property
    def kallsyms(self) -> Kallsyms:
        """The symbols of everything that is loaded."""
        ...

    @property
    def ring(self) -> RingBuffer:
        """The ring buffers."""
        ...

    @property
    def events(self) -> Sequence[TraceEvent]:
        """All events that exist now."""
        ...

    @property
    def latency(self) -> Latency:
        """The latency tracers, which know the kernel's release."""
        ...

    @property
    def clock(self) -> str:
        """The clock in use."""
        ...

    @property
    def clocks(self) -> Sequence[str]:
        """The clocks that can be used."""
        ...

    @property
    def printk(self) -> TracePrintk:
        """The formats of trace_printk()."""
        ...

    def cmdlines(self) -> Mapping[int, str]:
        """Return the names of tasks by pid."""
        ...

    def pages(self) -> Sequence[NDArray[np.uint8]]:
        """Return the pages for readers of each CPU, with the events of the file trace."""
        ...


def recorded(array: Recorded, version: int = VERSIONS[0]) -> bytes:
    """Return trace.dat with the events of the file trace; they stay in the buffers.

    `version` is one of `VERSIONS`. Raises `DynftraceError` if there are no events.
    """
    ring, pages = array.ring, array.pages()
    if not any(map(len, pages)):
        raise DynftraceError(NOTHING)
    layout = ring.layout
    # The numbers of a buffer do not hold for a section that a latency tracer kept.
    counted = () if array.latency.on else ring.cpus
    formats: dict[str, list[str]] = defaultdict(list)
    for event in array.events:
        formats[event.group].append(format_text(event))
    clocks = (f"[{name}]" if name == array.clock else name for name in array.clocks)
    about = Description(
        header_page=header_page(layout.pointer_size),
        header_event=HEADER_EVENT,
        ftrace_formats=[format_text(each) for each in layouts(layout.pointer_size)],
        formats=formats,
        kallsyms=array.kallsyms.text(layout.pointer_size),
        cmdlines="".join(f"{pid} {comm}\n" for pid, comm in array.cmdlines().items()),
        printk_formats=array.printk.text(),
        trace_clock=" ".join(clocks),
        clock=array.clock,
        uname=f"Linux {array.latency.release} {array.machine.port.facts.name}",
        stats=[f"CPU: {cpu}\n{ring.stats(cpu).text()}" for cpu in counted],
    )
    return trace_dat(layout, pages, about, version)
