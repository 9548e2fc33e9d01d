"""Small data and a driver without a machine, for tests of widgets and screens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dynftrace.core.ftrace.filter import Glob
from dynftrace.core.trace.place import Place
from dynftrace.core.trace.rowfilter import RowFilter
from dynftrace.core.trace.selection import Folded, Folds, Selection
from dynftrace.tui.functions import FunctionIndex, FunctionTable
from dynftrace.tui.spans import Line, line
from dynftrace.tui.view import Done, State, Status, View

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
MODULE_NAMES = ["usb_ifnum_to_if", "usb_get_intf", "usb_put_intf", "hub_probe"]


def index(count: int | None = None) -> FunctionIndex:
    """The functions above, or `count` of made-up ones."""
    if count is not None:
        names = [f"{('vfs', 'sched', 'tcp')[i % 3]}_function_{i:05d}" for i in range(count)]
        modules = [""] * count
    else:
        names = [*NAMES, *MODULE_NAMES]
        modules = [""] * len(NAMES) + ["usbcore"] * len(MODULE_NAMES)
    ips = np.uint64(0xFFFF_FFFF_8100_0000) + np.arange(len(names), dtype=np.uint64) * 64
    return FunctionIndex(names, modules, ips.astype(np.uint64))


def table(
    functions: FunctionIndex, traced: Sequence[str] = (), refused: Sequence[str] = ()
) -> FunctionTable:
    """The functions with those named `traced` or `refused`."""
    states = np.zeros(len(functions), np.uint8)
    for name in traced:
        states[functions.names.index(name)] = State.TRACED
    for name in refused:
        states[functions.names.index(name)] = State.REFUSED
    return FunctionTable(functions, states, states == State.TRACED)


class Events:
    """A trace of `count` made-up events, `lost` of them overwritten at its front."""

    header = (
        "# tracer: function",
        "#",
        "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION",
        "#              | |         |   |||||     |         |",
    )

    def __init__(self, count: int, lost: int = 0) -> None:
        self.count = count
        self.lost = lost
        self.written = count + lost
        self.formatted = 0

    def __len__(self) -> int:
        return self.count

    def lines(self, start: int, stop: int) -> list[str]:
        """Rows, counted in `formatted`."""
        self.formatted += stop - start
        return [self._text(row + self.lost) for row in range(start, stop)]

    def _text(self, number: int) -> str:
        name = NAMES[number % len(NAMES)]
        task = ("bash", "kworker/0:1", "swapper/0")[number % 3]
        time = f"{number * 3 // 1_000_000:5d}.{number * 3 % 1_000_000:06d}"
        return (
            f"{task:>16s}-{number % 40:<7d} [{number % 2:03d}] ..... {time}: {name} <-start_kernel"
        )

    def site(self, row: int) -> int | None:
        """The address `index` gives the function."""
        return 0xFFFF_FFFF_8100_0000 + (row + self.lost) % len(NAMES) * 64

    def next_call(self, ip: int, start: int, among: NDArray[np.intp] | None = None) -> int | None:
        """Row by row."""
        rows = range(self.count) if among is None else among.tolist()
        return next((row for row in rows if row >= start and self.site(row) == ip), None)

    clock_in_ns = True

    def time(self, row: int) -> int:
        """Three microseconds apart."""
        return 3000 * (row + self.lost)

    def hit(self, row: int) -> str | None:
        """Every seventh event saved registers."""
        number = (row + self.lost) // 7 * 7
        return f"{number * 3 / 1_000_000:.9f} 0" if number >= self.lost else None

    def lines_at(self, rows: NDArray[np.intp]) -> list[str]:
        """As `lines`."""
        self.formatted += len(rows)
        return [self._text(row + self.lost) for row in rows.tolist()]

    def place(self, row: int) -> Place:
        """Every event has a time of its own."""
        return Place(self.time(row), (row + self.lost) % 2, self.site(row) or 0)

    def rows_at(self, places: Sequence[Place]) -> list[int | None]:
        """By their times."""
        rows = [place.time // 3000 - self.lost for place in places]
        return [row if 0 <= row < self.count else None for row in rows]

    def select(self, only: RowFilter | None, folds: Folds | None = None) -> Selection:
        """By CPU alone."""
        rows = np.arange(self.count)
        if only is not None:
            (word,) = only.words
            assert word.kind == "cpu" and not isinstance(word.meant, Glob)
            rows = rows[(rows + self.lost) % 2 == word.meant[0][0]]
        return Selection(rows)

    def fold(
        self, folds: Folds | None, row: int, only: RowFilter | None = None
    ) -> tuple[Folds, int] | None:
        """These are no calls."""
        return None

    def fold_all(self, only: RowFilter | None = None) -> Folds:
        """None."""
        return Folds()

    def folded_line(self, row: int, folded: Folded) -> str:
        """There are none."""
        raise NotImplementedError

    def filter_words(self, row: int | None) -> list[str]:
        """CPUs, that of the row first, and one function."""
        cpus = [0, 1] if row is None or (row + self.lost) % 2 == 0 else [1, 0]
        return [*(f"cpu:{cpu}" for cpu in cpus), "func:schedule"]

    def find(
        self, needle: str, start: int, step: int, among: NDArray[np.intp] | None = None
    ) -> int | None:
        """Row by row."""
        row = start
        shown = None if among is None else set(among.tolist())
        while 0 <= row < self.count:
            if (shown is None or row in shown) and needle in self._text(row + self.lost):
                return row
            row += step
        return None


SITE: tuple[Line, ...] = (
    line(("schedule", "strong"), "   ip ffffffff81000040   ", ("ENABLED", "good"), "   1 user"),
    line(("sched.c:41", "dim")),
)


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
            Status("x86_64", 2, events=1204, now=self.ticks, patch="stop_machine"), site=SITE
        )
        self.ip: int | None = None
        self.events = Events(1204)

    def run(self, ns: int) -> None:
        """Time goes by, and events come."""
        self.ticks += ns
        self.events = Events(self.events.count + 10)

    def now(self) -> int:
        """Virtual ns."""
        return self.ticks

    def stop(self) -> None:
        """Count."""
        self.stopped += 1

    def look_at(self, ip: int) -> None:
        """Remember."""
        self.ip = ip

    def watch(self, step: int | None) -> None:
        """There is no CPU."""

    def view(self, *, hurry: bool = False) -> View:
        """The state now."""
        traced = self.filtered if self.tracer == "function" else []
        states = table(self.functions, traced)
        filtered = np.isin(np.array(self.functions.names), self.filtered)
        states.states[filtered & (states.states == State.NOP)] = State.CHOSEN
        return replace(
            self.base,
            status=replace(self.base.status, tracer=self.tracer, now=self.ticks),
            functions=replace(states, filtered=filtered),
            trace=self.events,
            ip=self.ip,
        )

    def execute(self, command: str) -> Done:
        """echo to set_ftrace_filter and current_tracer."""
        self.executed.append(command)
        words = command.replace("'", "").split()
        if words[-1] == "set_ftrace_filter" and len(words) == 4:
            name = words[1]
            if name.startswith("!"):
                self.filtered.remove(name[1:])
            elif name in self.functions.names:
                self.filtered = [*self.filtered, name] if words[2] == ">>" else [name]
            else:
                return Done(command, error="write error: Invalid argument\n", status=1)
        elif words[-1] == "current_tracer":
            self.tracer = words[1]
        elif words[0] == "cat":
            return Done(command, "".join(f"{name}\n" for name in self.filtered))
        return Done(command)

    def complete(self, text: str) -> list[str]:
        """Names of files."""
        files = ["available_filter_functions", "available_tracers", "set_ftrace_filter"]
        before, space, word = text.rpartition(" ")
        return [before + space + file for file in files if file.startswith(word)]

    def preview(self, text: str) -> str:
        """How long it is."""
        return f"{len(text)} characters" if text else ""

    def workloads(self) -> list[str]:
        """Some."""
        return ["boot", "syscalls", "usb"]
