"""Restoring a checkpoint: the machine and all the host keeps about it are as they were."""

from __future__ import annotations

import gc
import random
import types
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import fields
from enum import Enum
from functools import partial

import numpy as np
import pytest

from dynftrace import arches
from dynftrace.core.elf.image import Image
from dynftrace.core.elf.lines import SourceLines
from dynftrace.core.elf.symbols import SymbolTable
from dynftrace.core.port.base_port import BasePort
from dynftrace.core.session import checkpoint
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell

COMMANDS = (
    "echo function > current_tracer",
    "echo function_graph > current_tracer",
    "echo nop > current_tracer",
    "echo schedule 'vfs_*' 'usb*:mod:usbcore' > set_ftrace_filter",
    "echo kfree >> set_ftrace_notrace",
    "echo kfree:dump do_exit:traceoff vfs_read:snapshot:3 >> set_ftrace_filter",
    "echo '!do_exit:traceoff' >> set_ftrace_filter",
    "echo > set_ftrace_filter; echo > set_ftrace_notrace",
    "echo vfs_open > set_graph_function; echo 3 > max_graph_depth",
    "echo 0 > options/sleep-time; echo 1 > options/funcgraph-retval",
    "echo 1 > options/func_stack_trace; echo nooverwrite > trace_options",
    "echo 2 > set_ftrace_pid; echo 4 > set_ftrace_notrace_pid",
    "echo 'f:fire vfs_read' >> dynamic_events; echo 1 > events/fprobes/enable",
    "echo 0 > events/fprobes/enable; echo > dynamic_events",
    "echo 1 > events/syscalls/enable",
    "echo 0 > events/enable",
    "echo 1 > function_profile_enabled",
    "echo 0 > function_profile_enabled",
    "echo 1 > /proc/sys/kernel/stack_tracer_enabled",
    "echo 0 > /proc/sys/kernel/stack_tracer_enabled",
    "echo counter > trace_clock; echo 40 > buffer_size_kb",
    "echo local > trace_clock; cat trace_pipe",
    "echo 0 > tracing_on; echo 1 > tracing_cpumask",
    "echo 1 > tracing_on; echo 3 > tracing_cpumask; echo hello > trace_marker",
    "echo 1 > snapshot",
    "insmod usbcore; run usb",
    "rmmod usbcore",
    "run syscalls",
    "run boot 2",
    "sleep 0.002",
    "step 5; next; finish",
    "until vfs_read syscalls",
    "patch breakpoint",
    "icache flush; patch stop_machine",
    "cat trace enabled_functions",
)
"""Changes of every kind of state, in no order."""

BUG = (
    "echo nop > current_tracer; echo 0 > function_profile_enabled; echo 0 > events/enable;"
    "echo 0 > /proc/sys/kernel/stack_tracer_enabled; echo > set_ftrace_filter;"
    "echo > set_ftrace_notrace; poke schedule 9090909090; echo function > current_tracer"
)
"""Shuts ftrace off."""

OOPS = "icache skip 1; call 16"
"""Kills a CPU."""

SCRATCH = {
    *("_batches", "_cache", "_engine", "_follower", "_kernel_exports", "_listing", "_merged"),
    *("generation", "resets", "_hooks", "_passing", "_reached", "_seen", "_targets", "_trap"),
    *("snapshots", "begin", "between", "end", "_restored"),
}
"""Caches and their counters, handles of hooks, what each run of a vCPU sets anew, checkpoints."""

VALUES = (int, float, str, bytes, Enum, type)

FILES = (Image, SourceLines, BasePort)
"""Types of objects that no command changes."""


def state(root: object) -> dict[str, object]:
    """Return every value reachable from `root`, by the path of attributes that leads to it."""
    found: dict[str, object] = {}
    seen: dict[int, str] = {}
    todo: list[tuple[str, object]] = [("", root)]
    kept: list[object] = []
    while todo:
        path, value = todo.pop()
        if value is None or isinstance(value, VALUES):
            found[path] = value
        elif isinstance(value, FILES):
            found[path] = type(value)
        elif isinstance(value, np.ndarray | np.void):
            found[path] = (value.dtype.str, value.shape, hash(value.tobytes()))
        elif id(value) in seen:
            found[path] = ("same as", seen[id(value)])
        else:
            seen[id(value)] = path
            kept.append(value)  # or its id may be used again
            todo += [(f"{path}.{name}", part) for name, part in parts(value)]
            found[path] = type(value)
    return found


def parts(value: object) -> Iterator[tuple[object, object]]:
    """Yield the parts of `value`, each with its name."""
    if isinstance(value, SymbolTable):
        yield from ((field.name, getattr(value, field.name)) for field in fields(value))
    elif isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list | tuple | deque):
        yield from enumerate(value)
    elif isinstance(value, set | frozenset):
        yield "members", tuple(sorted(map(repr, value)))
    elif isinstance(value, types.MethodType):
        yield "self", value.__self__
    elif isinstance(value, partial):
        yield from (("func", value.func), ("args", value.args))
    elif isinstance(value, types.FunctionType):
        yield from enumerate(cell.cell_contents for cell in value.__closure__ or ())
    elif type(value).__module__.startswith("dynftrace."):
        names = {*getattr(value, "__dict__", ())}
        names |= {name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())}
        yield from ((name, getattr(value, name)) for name in sorted(names - SCRATCH))


def moment(session: Session) -> dict[str, object]:
    """Return the state of the machine and of the host."""
    registers = [vcpu.registers.read() for vcpu in session.boot.machine.vcpus]
    return state((session.boot, registers))


@pytest.mark.parametrize(("arch", "seed"), [("x86_64", 2), ("x86_64-2008", 5)])
def test_any_earlier_moment_comes_back_and_goes_on_as_before(arch: str, seed: int) -> None:
    """Restores moments in any order; the commands after each lead to the next one again."""
    session = Session.open(arches.load(arch))
    shell, dice = Shell(session), random.Random(seed)
    order = dice.sample(COMMANDS, len(COMMANDS))
    parts = [*(order[at : at + 7] for at in range(0, len(order), 7)), [BUG], [OOPS]]
    restores, moments = [], []
    for part in parts:
        restores.append(checkpoint.save(session.boot))
        moments.append(moment(session))
        for command in part:
            shell.execute(command)
    assert session.boot.ftrace.disabled and session.boot.machine.oopses
    moments.append(moment(session))
    for number in dice.sample(range(len(parts)), len(parts)):
        restores[number]()
        assert moment(session) == moments[number]
        for command in parts[number]:
            shell.execute(command)
        assert moment(session) == moments[number + 1]


def test_a_machine_is_freed_with_its_session() -> None:
    """Its checkpoints do not keep it alive: each machine takes megabytes."""
    session = Session.open(arches.load("x86_64"))
    Shell(session).execute("run syscalls; step; back")
    memory = weakref.ref(session.boot.machine.memory)
    del session
    gc.collect()
    assert memory() is None
