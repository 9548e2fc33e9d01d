"""The tracers of calls: against uftrace's, against a traced call, and on each of the ports.

uftrace is the nearest peer: it records calls and returns of a native program, here of a loop
that calls a function which does nothing. The emulator executes each of the tracer's instructions
in some ten of its own, so this ratio has a limit: that of a loop which only makes the calls and the
accesses to memory (floor.py).
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median

from unicorn.unicorn_const import UC_HOOK_BLOCK, UC_HOOK_MEM_READ, UC_HOOK_MEM_WRITE

from dynftrace import arches
from dynftrace.core.session.session import MachineSpec, Session

from ..support import elf_writer
from . import floor
from .guest import CALLS, LIMIT, LOOP, called
from .measure import Limit, Row, at_least, at_most, in_turn, paired, seconds, skipped

ROUNDS = 20
"""Rounds of the workload `syscalls` on each port."""

PEER = "uftrace record of the same loop"

FEW = 3_000
"""Calls if each has a stack trace, for which the emulator stops."""

PLACES = 5
"""Machines that are compared with uftrace. A loop's speed depends by some 8 % on the addresses that
the host gives to the emulator's code and to the guest's memory, which stay the same in a machine.
"""

WORST = 1.5
"""A port's ratio may be this multiple of that of x86-64."""

MIPS = Limit(
    3.8,
    "57 blocks of code for each call with its return (19 on x86-64), of which 26 read the "
    "prologue backwards for the return address",
)
"""As Linux's ftrace_get_parent_ra_addr, which reads back from the call site to the store of ra."""

_NATIVE = """
#include <stdio.h>
#include <time.h>
__attribute__((noinline)) void traced(int n) { __asm__ volatile("" : : "r"(n)); }
int main(void)
{
	struct timespec a, b;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	for (int n = CALLS; n; n--)
		traced(n);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	printf("%f\\n", (b.tv_sec - a.tv_sec) + (b.tv_nsec - a.tv_nsec) * 1e-9);
}
"""


def rows() -> Iterator[Row]:
    """Compare with uftrace, then the tracers with each other, then the ports."""
    yield from _uftrace()
    yield from _tracers()
    yield from _ports()


def _session() -> Session:
    """Open a kernel with the function `traced`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vmlinux"
        path.write_bytes(elf_writer.kernel(["traced"]))
        return Session.open(arches.load(arches.DEFAULT), MachineSpec(kernel=path, cpus=1))


def _loop(*commands: tuple[str, str], calls: int = CALLS) -> Callable[[], None]:
    """Return a function that makes `calls` calls on x86-64, after writing `commands` to files."""
    session = _session()
    called(session, calls)
    for file, text in commands:
        session.boot.tracefs.write(file, text)

    def run() -> None:
        session.boot.machine.requests.call(LOOP, limit_ns=LIMIT)

    return run


def _uftrace() -> Iterator[Row]:
    names = ("a traced call", "a call and its return, traced")
    tracers, targets = ("function", "function_graph"), (0.40, 0.20)
    missing = [tool for tool in ("uftrace", "gcc") if shutil.which(tool) is None]
    if missing:
        for name, target in zip(names, targets, strict=True):
            yield skipped(name, PEER, f">= {target:g}", f"no {' and no '.join(missing)}")
        return
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "loop.c", Path(folder) / "loop"
        source.write_text(_NATIVE.replace("CALLS", str(CALLS)))
        subprocess.run(["gcc", "-O2", "-pg", source, "-o", program], check=True)
        command = ["uftrace", "record", "--no-libcall", "-d", f"{folder}/data", str(program)]

        def native() -> float:
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            return float(done.stdout)

        floors = (floor.function, floor.graph)
        for name, tracer, least, target in zip(names, tracers, floors, targets, strict=True):
            rounds = []
            for _ in range(PLACES):
                run, bare = _loop(("current_tracer", tracer)), least(_session())
                run()
                bare()
                rounds += in_turn(native, partial(seconds, run), partial(seconds, bare), rounds=7)
            each = median(ours for _, ours, _ in rounds) / CALLS * 1e9
            yield at_least(
                name,
                f"{each:.0f} ns",
                median(theirs / ours for theirs, ours, _ in rounds),
                PEER,
                target,
                Limit(
                    median(theirs / least for theirs, _, least in rounds) / floor.CHECKS,
                    floor.REASON,
                ),
            )


def _tracers() -> Iterator[Row]:
    stack = (("options/func_stack_trace", "1"), ("current_tracer", "function"))
    fprobe = (("dynamic_events", "f:hit traced"), ("events/fprobes/hit/enable", "1"))
    for name, commands, calls in (
        ("a profiled call", (("function_profile_enabled", "1"),), CALLS),
        ("an fprobe hit, with all registers", fprobe, CALLS),
        ("a traced call and its stack", stack, FEW),
    ):
        traced = _loop(("current_tracer", "function"), calls=calls)
        pair = paired(_loop(*commands, calls=calls), traced, rounds=5)
        blocks, accesses = _counted(*commands)
        what = f"{blocks:.0f} blocks and {accesses:.0f} accesses each"
        if calls == FEW:
            what = "the emulator stops at each, and the host finds the callers"
        yield Row(
            name,
            f"{pair.a / calls * 1e9:.0f} ns",
            pair.ratio,
            "a traced call",
            "(no target)",
            True,
            what,
        )


def _counted(*commands: tuple[str, str], calls: int = 500) -> tuple[float, float]:
    """Return the blocks of code and the accesses to memory that a call takes."""
    session = _session()
    called(session, calls)
    for file, text in commands:
        session.boot.tracefs.write(file, text)
    run = partial(session.boot.machine.requests.call, LOOP, limit_ns=LIMIT)
    run()
    counts = {UC_HOOK_BLOCK: 0, UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE: 0}

    def count(kind: int, *event: object) -> None:
        counts[kind] += 1

    for kind in counts:
        session.boot.machine.vcpus[0]._uc.hook_add(kind, partial(count, kind))
    session.boot.machine.flush()
    run()
    blocks, accesses = counts.values()
    return blocks / calls, accesses / calls


def _ports() -> Iterator[Row]:
    """Compare each port's ratios with those of x86-64, the first of them."""
    targets: tuple[float, ...] = ()
    for name in arches.built_in():
        rounds = in_turn(*_workload(name), rounds=5)
        _, function, graph = (median(each) for each in zip(*rounds, strict=True))
        ratios = tuple(median(each[at + 1] / each[at] for each in rounds) for at in range(2))
        targets = targets or tuple(round(WORST * ratio, 2) for ratio in ratios)
        what = (
            ("a workload, calls traced", function, "the same, sites nops"),
            ("a workload, calls and returns", graph, "the same, calls traced"),
        )
        reasons = (None, MIPS if name.startswith("mips") else None)
        for (row, took, reference), ratio, target, reason in zip(
            what, ratios, targets, reasons, strict=True
        ):
            measured = f"{took * 1e3:.0f} ms"
            yield at_most(f"{name}: {row}", measured, ratio, reference, target, reason)


def _workload(name: str) -> Iterator[Callable[[], float]]:
    """Return a workload on a port with its sites nops, calls, and calls with returns.

    Each returns its processor seconds.
    """
    for tracer in ("nop", "function", "function_graph"):
        session = Session.open(arches.load(name), MachineSpec(cpus=1))
        session.run_workload("syscalls", 2)
        session.boot.tracefs.write("current_tracer", tracer)
        work = partial(session.run_workload, "syscalls", ROUNDS)
        work()  # translates the code
        yield partial(seconds, work)
