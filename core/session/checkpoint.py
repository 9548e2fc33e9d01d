"""A checkpoint: the whole state of a `Boot` at one moment, and how to restore it.

The machine's part is its memory and vCPUs (machine/snapshot.py). The rest is what the host
keeps about them: symbols, records and users of ftrace, modules, the ring buffer's
bookkeeping, the spare buffer, the commands of set_ftrace_filter and the stepper's marks.

A checkpoint leaves out the settings of the trace array: current_tracer, trace_options, events,
the profiler and the stack tracer. `restore` therefore needs them to be as they were.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..elf.symbols import SymbolTable
from ..ftrace.ftrace import SavedFtrace
from ..ftrace.probes import SavedProbes
from ..machine.snapshot import Snapshot
from ..modules.module import Module
from ..trace.buffer.contents import Contents
from ..trace.buffer.ringbuffer import Saved
from .boot import Boot
from .stepping import SavedStepper


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """State of a `Boot` between two runs, for that boot only."""

    machine: Snapshot
    kallsyms: tuple[tuple[str | None, SymbolTable], ...]
    ftrace: SavedFtrace
    modules: tuple[Module, ...]
    ring: Saved
    spare: tuple[Contents, ...] | None
    probes: SavedProbes
    stepper: SavedStepper


def save(boot: Boot) -> Checkpoint:
    """Return the state of `boot`, between two runs."""
    return Checkpoint(
        machine=boot.machine.snapshot(),
        kallsyms=boot.kallsyms.save(),
        ftrace=boot.ftrace.save(),
        modules=boot.modules.save(),
        ring=boot.ring.save(),
        spare=boot.array.snapshot.save(),
        probes=boot.array.commands.probes.save(),
        stepper=boot.stepper.save(),
    )


def restore(boot: Boot, checkpoint: Checkpoint) -> None:
    """Go back to a checkpoint of the same `boot`."""
    boot.machine.restore(checkpoint.machine)  # first: the others read guest memory
    boot.kallsyms.restore(checkpoint.kallsyms)
    boot.ftrace.restore(checkpoint.ftrace)
    boot.modules.restore(checkpoint.modules)
    boot.ring.restore(checkpoint.ring)
    boot.array.snapshot.restore(checkpoint.spare)
    boot.array.commands.probes.restore(checkpoint.probes)
    boot.stepper.restore(checkpoint.stepper)
