"""Processor time that the host spends outside the engine while the guest runs flat out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from unittest.mock import patch

from unicorn import Uc

from dynftrace import arches
from dynftrace.core.asm.assemble import assemble
from dynftrace.core.session.session import MachineSpec, Session

from .guest import LIMIT, LOOP
from .measure import Limit, Row, at_most

ROUNDS = 200_000
"""Times that the guest allocates and frees."""

TARGET = 0.05

STOPS = {
    1: Limit(0.22, "2.6 stops a virtual ms, for the tick and its hypercalls, at 40 us each"),
    2: Limit(0.32, "4.7 stops a virtual ms, as turns change at each 50 us, at 40 us each"),
}
"""By vCPUs. The engine takes 0.6 ms for a virtual ms, and a stop must read and write registers."""


def rows() -> Iterator[Row]:
    """Yield the share for one vCPU, and for two of which one is busy; nothing is traced."""
    for cpus in (1, 2):
        total, outside = _seconds(cpus)
        yield at_most(
            f"guest flat out, untraced, {cpus} vCPU{'s' * (cpus > 1)}: outside the engine",
            f"{outside * 1e3:.0f} ms",
            outside / total,
            "the run",
            TARGET,
            STOPS[cpus],
        )


def _seconds(cpus: int) -> tuple[float, float]:
    """Return the processor seconds of a run, and those of them outside the engine."""
    session = Session.open(arches.load(arches.DEFAULT), MachineSpec(cpus=cpus))
    machine, kallsyms = session.boot.machine, session.boot.kallsyms
    machine.memory.map(LOOP, 4096, "loop")
    source = (
        f"push rbx; mov ebx, {ROUNDS}; again: mov edi, 64; xor esi, esi; call __kmalloc; "
        "mov rdi, rax; call kfree; dec ebx; jnz again; xor eax, eax; pop rbx; ret"
    )
    machine.memory.write(LOOP, assemble(machine.port.facts, source, LOOP, kallsyms.address).code)
    machine.requests.call(LOOP, limit_ns=LIMIT)  # translates the code
    inside = 0.0
    plain = Uc.emu_start

    def start(engine: Uc, *arguments: int, **more: int) -> None:
        nonlocal inside
        begin = time.thread_time()
        try:
            plain(engine, *arguments, **more)
        finally:
            inside += time.thread_time() - begin

    with patch.object(Uc, "emu_start", start):
        begin = time.thread_time()
        machine.requests.call(LOOP, limit_ns=LIMIT)
        total = time.thread_time() - begin
    return total, total - inside
