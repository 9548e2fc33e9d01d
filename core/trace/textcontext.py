"""What lines of the trace say beside the events: options, names of tasks, numbers of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .fprobe import Fprobe
from .syscalls import SyscallEvent


class SymbolNames(Protocol):
    """What the text needs of kallsyms."""

    def names_of(self, addresses: NDArray[np.uint64]) -> list[str]:
        """The symbol each address lies in, `0x…` for none."""
        ...

    def format(self, address: int) -> str:
        """`name+0x5/0x80 [module]`."""
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
    record_tgid: bool = False
    context_info: bool = True
    irq_info: bool = True


@dataclass(frozen=True, slots=True)
class TextContext:
    """What the text says beside the events."""

    symbols: SymbolNames
    options: TextOptions = TextOptions()
    tracer: str = "nop"
    cpus: int = 1
    """CPUs of the machine."""
    pointer_size: int = 8
    cmdlines: Mapping[int, str] | None = None
    """Names by pid, from the table saved_cmdlines."""
    tgids: Mapping[int, int] | None = None
    clock_in_ns: bool = True
    """Whether times are ns; else they are plain numbers."""
    in_buffer: int = 0
    """Events the buffers hold."""
    written: int = 0
    """These and the ones that were overwritten."""
    ftrace_dead: bool = False
    """Whether ftrace shut itself off."""
    fprobes: Mapping[int, Fprobe] = field(default_factory=dict)
    """Definitions of events by the type of these."""
    syscalls: Mapping[int, SyscallEvent] = field(default_factory=dict)
    """Entries and exits of system calls, likewise."""
    text_prefix: str = ""
    """What names of code begin with."""
    overran: bool = False
    """Whether a buffer overwrote events: where each CPU's part begins is then told."""
