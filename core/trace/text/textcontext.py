"""Inputs of a trace's text besides the events: options, names, and counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...events.formats import EventFormat
from ...events.fprobe import Fprobe
from ...events.syscalls import SyscallEvent
from ...ftrace.latency import MaxTrace


class SymbolNames(Protocol):
    """Kallsyms, as far as the text needs it."""

    def names_of(self, addresses: NDArray[np.uint64]) -> list[str]:
        """Return the symbol that contains each address, or `0x…`."""
        ...

    def name(self, address: int) -> str:
        """Return the symbol that contains an address as `name [module]`, or `0x…`."""
        ...

    def format(self, address: int) -> str:
        """Return an address as `name+0x5/0x80 [module]`."""
        ...


@dataclass(frozen=True, slots=True)
class TextOptions:
    """The trace_options that change the text, with the kernel's defaults."""

    print_parent: bool = True
    sym_offset: bool = False
    sym_addr: bool = False
    verbose: bool = False
    raw: bool = False
    hex: bool = False
    annotate: bool = True
    printk_msg_only: bool = False
    record_tgid: bool = False
    context_info: bool = True
    irq_info: bool = True
    hash_ptr: bool = True


@dataclass(frozen=True, slots=True)
class LatencyFormat:
    """Values that the latency format (option latency-format) shows besides the events."""

    release: str
    """Release of the kernel."""
    section: MaxTrace
    """The section shown; if the events are not those of a section, only its `time_start` is set."""


@dataclass(frozen=True, slots=True)
class TextContext:
    """Inputs of a trace's text besides the events."""

    symbols: SymbolNames
    options: TextOptions = TextOptions()
    tracer: str = "nop"
    cpus: int = 1
    """Number of CPUs of the machine."""
    pointer_size: int = 8
    cmdlines: Mapping[int, str] | None = None
    """Names of tasks by pid, from the table saved_cmdlines."""
    tgids: Mapping[int, int] | None = None
    clock_in_ns: bool = True
    """Whether time stamps are in ns; the clock `counter` gives plain numbers."""
    in_buffer: int = 0
    """Number of events in the buffers."""
    written: int = 0
    """Number of events written: those in the buffers, and the overwritten ones."""
    ftrace_dead: bool = False
    """Whether ftrace has disabled itself after a bug."""
    fprobes: Mapping[int, Fprobe] = field(default_factory=dict)
    """Definitions of dynamic events by the type of their events."""
    syscalls: Mapping[int, SyscallEvent] = field(default_factory=dict)
    """Entries and exits of system calls by the type of their events."""
    events: Mapping[int, EventFormat] = field(default_factory=dict)
    """Formats of trace events by the type of their events; of a recorded trace, all formats."""
    printk_formats: Mapping[int, str] = field(default_factory=dict)
    """The format strings of trace_printk by their addresses."""
    ptr_key: bytes | None = None
    """Key of the hash that %p shows; None if it is not known, so that %p shows the address."""
    text_prefix: str = ""
    """Prefix of the names of code."""
    overran: bool = False
    """Whether a buffer overwrote events, so that the text says where each CPU's events start."""
    lost: Mapping[int, int] = field(default_factory=dict)
    """Number of events lost before an event, by the event's number; -1 if unknown."""
    latency: LatencyFormat | None = None
    """Set if the rows and the header have the latency format."""
