"""Small data and a driver without a machine, for tests of widgets and screens."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dynftrace.core.abi import TraceType
from dynftrace.core.ftrace.patch import Performed
from dynftrace.core.shell.outcome import NotWritten
from dynftrace.core.trace.buffer.events import EVENT, EventTable
from dynftrace.core.trace.select.explorer import TraceExplorer
from dynftrace.core.trace.text.columns import Fields
from dynftrace.core.trace.text.defaultformat import DefaultFormatter
from dynftrace.core.trace.text.rowmap import RowMap, stack_rows
from dynftrace.core.trace.text.textcontext import TextContext, TextOptions
from dynftrace.core.trace.text.tracetext import TraceText
from dynftrace.core.views.call_site import CallSite, Code, SiteRow
from dynftrace.core.views.drawing import Drawing
from dynftrace.tui.explore.function_table import FunctionIndex, FunctionTable
from dynftrace.tui.present.call_site import SiteText
from dynftrace.tui.present.view import Done, State, Status, View

NAMES = [
    "start_kernel",
    "schedule",
    "__schedule",
    "pick_next_task",
    "context_switch",
    "finish_task_switch",
    "scheduler_tick",
    "try_to_wake_up",
    "wake_up_process",
    "kernel_clone",
    "do_execve",
    "mutex_lock",
    "mutex_unlock",
    "_raw_spin_lock",
    "_raw_spin_unlock",
    "kmalloc",
    "kfree",
    "kmem_cache_alloc",
    "kmem_cache_free",
    "vfs_read",
    "vfs_write",
    "vfs_open",
    "ramfs_read",
    "proc_reg_write",
    "do_syscall_64",
    "sys_read",
    "sys_write",
    "sys_close",
    "do_IRQ",
    "irq_enter",
    "irq_exit",
    "__do_softirq",
    "run_timer_softirq",
]
BASE = 0xFFFF_FFFF_8100_0000
MODULE_NAMES = ["usb_ifnum_to_if", "usb_get_intf", "usb_put_intf", "hub_probe"]


def index(count: int | None = None) -> FunctionIndex:
    """Return the functions above, or `count` made-up ones."""
    if count is not None:
        names = [f"{('vfs', 'sched', 'tcp')[i % 3]}_function_{i:05d}" for i in range(count)]
        modules = [""] * count
    else:
        names = [*NAMES, *MODULE_NAMES]
        modules = [""] * len(NAMES) + ["usbcore"] * len(MODULE_NAMES)
    ips = np.uint64(BASE) + np.arange(len(names), dtype=np.uint64) * 64
    return FunctionIndex(names, modules, ips.astype(np.uint64))


def table(
    functions: FunctionIndex, traced: Sequence[str] = (), refused: Sequence[str] = ()
) -> FunctionTable:
    """Return the functions with those named in `traced` and `refused` marked."""
    states = np.zeros(len(functions), np.uint8)
    for name in traced:
        states[functions.names.index(name)] = State.TRACED
    for name in refused:
        states[functions.names.index(name)] = State.REFUSED
    return FunctionTable(functions, states, states == State.TRACED)


TASKS = ("bash", "kworker/0:1", "swapper/0")


class Names:
    """Symbols at the addresses that `index` gives the functions."""

    def names_of(self, addresses: NDArray[np.uint64]) -> list[str]:
        """Return the function at each address; address 0 is in none."""
        return [NAMES[(at - BASE) // 64] if at else "0x0" for at in addresses.tolist()]

    def format(self, address: int) -> str:
        """Return an address at the start of a function."""
        return f"{NAMES[(address - BASE) // 64]}+0x0/0x40"


class Formatter(DefaultFormatter):
    """A formatter that counts formatted rows; it has 120 tasks with three names."""

    formatted = 0

    @property
    def header(self) -> list[str]:
        """Return a short header."""
        return [
            "# tracer: function",
            "#",
            "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION",
            "#              | |         |   |||||     |         |",
        ]

    def fields(self, events: NDArray[np.intp], parts: NDArray[np.intp]) -> list[Fields]:
        """Return the fields, counted in `formatted`."""
        self.formatted += len(events)
        return super().fields(events, parts)

    def _task(self, pid: int) -> str:
        return f"{TASKS[pid % 3]:>16s}-{pid % 40:<7d} "


class Events(TraceExplorer):
    """A trace of `count` made-up events 3 us apart, after `lost` overwritten ones."""

    def __init__(self, count: int, lost: int = 0) -> None:
        self.count = count
        self.lost = lost
        number = np.arange(lost, lost + count)
        events = np.zeros(count, EVENT)
        events["ts"], events["pid"], events["cpu"] = 3000 * number, number % 120, number % 2
        events["ip"], events["parent"] = number % len(NAMES) + 1, 1
        events["type"] = TraceType.FN
        addresses = np.uint64(BASE) + np.arange(len(NAMES), dtype=np.uint64) * np.uint64(64)
        table = EventTable(events, np.append(np.uint64(0), addresses))
        context = TextContext(
            Names(), tracer="function", cpus=2, in_buffer=count, written=count + lost
        )
        self.formatter = Formatter(table, context)
        super().__init__(
            TraceText(RowMap(count, *stack_rows(table, TextOptions())), self.formatter)
        )

    def hit(self, row: int) -> str | None:
        """Return every seventh event, as if it had saved registers."""
        number = (row + self.lost) // 7 * 7
        return f"{number * 3 / 1_000_000:.9f} 0" if number >= self.lost else None


CALL = Code(bytes.fromhex("e85b002000"), "call ftrace_caller")
SITE = CallSite(
    name="schedule",
    module=None,
    ip=BASE + 64,
    symbol="schedule+0x0/0x40",
    state="enabled",
    users=1,
    ops=("global_ops",),
    via=None,
    source=("sched.c", 41),
    readable=True,
    reason="",
    rows=(SiteRow(BASE + 64, CALL, CALL, CALL, True, switches=True),),
)


class StoppedClock:
    """A clock that advances only in `sleep`."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds


class CannedDriver:
    """Keeps set_ftrace_filter and the tracer in Python; executes the few commands tests use."""

    def __init__(self, view: View | None = None) -> None:
        self.functions = index()
        self.executed: list[str] = []
        self.filtered: list[str] = []
        self.tracer = "nop"
        self.ticks = 4_812_310
        self.stopped = 0
        self.base = view or View(
            Status("x86_64", 2, events=1204, now=self.ticks, patch="stop_machine"),
            site=SiteText(SITE),
        )
        self.ip: int | None = None
        self.events = Events(1204)
        self._table = cache(self._states)  # a tour checks its step for each table that is new

    def run(self, ns: int) -> None:
        """Advance the time and add events."""
        self.ticks += ns
        self.events = Events(self.events.count + 10)

    def now(self) -> int:
        """Return the virtual time in ns."""
        return self.ticks

    def stop(self) -> None:
        """Count the call."""
        self.stopped += 1

    def look_at(self, ip: int) -> None:
        """Remember the call."""
        self.ip = ip

    def watch(self, step: int | None) -> None:
        """Do nothing: there is no CPU."""

    def view(self, *, old_s: float = 0.0) -> View:
        """Return the current state."""
        return replace(
            self.base,
            status=replace(self.base.status, tracer=self.tracer, now=self.ticks),
            functions=self._table(tuple(self.filtered), self.tracer == "function"),
            trace=self.events,
            ip=self.ip,
        )

    def _states(self, names: tuple[str, ...], enabled: bool) -> FunctionTable:
        """Return the functions, those with `names` chosen or traced."""
        states = table(self.functions, names if enabled else ())
        filtered = np.isin(np.array(self.functions.names), names)
        states.states[filtered & (states.states == State.NOP)] = State.CHOSEN
        return replace(states, filtered=filtered)

    def execute(self, command: str, typed: bool = False) -> Done:
        """Execute an echo to set_ftrace_filter or current_tracer."""
        self.executed.append(command)
        words = command.replace("'", "").split()
        if words[-1] == "set_ftrace_filter" and len(words) == 4:
            name = words[1]
            if name.startswith("!"):
                self.filtered.remove(name[1:])
            elif name in self.functions.names:
                self.filtered = [*self.filtered, name] if words[2] == ">>" else [name]
            else:
                refused = NotWritten(words[-1], errno.EINVAL, emptied=words[2] == ">")
                error = "write error: Invalid argument\n"
                return Done(command, error=error, status=1, effects=(refused,))
        elif words[-1] == "current_tracer":
            self.tracer = words[1]
        elif words[0] == "cat":
            return Done(command, "".join(f"{name}\n" for name in self.filtered))
        return Done(command)

    def complete(self, text: str) -> list[str]:
        """Return file names."""
        files = ["available_filter_functions", "available_tracers", "set_ftrace_filter"]
        before, space, word = text.rpartition(" ")
        return [before + space + file for file in files if file.startswith(word)]

    progress = ""

    def preview(self, text: str) -> str:
        """Return a fixed duration."""
        return f"{len(text)} characters" if text else ""

    def trace_dat(self) -> bytes:
        return b""

    def patches(self) -> Sequence[Performed]:
        return ()

    def picture(self, name: str, function: str = "") -> Drawing:
        """Return an empty picture."""
        return Drawing(name, ())

    def workloads(self) -> list[str]:
        """Return a few workloads."""
        return ["boot", "syscalls", "usb"]

    def lines(self) -> int:
        """Nothing can be undone."""
        return 0
