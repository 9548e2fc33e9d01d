"""The cost of call sites for the guest: as nops, and traced."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from unicorn import Uc
from unicorn.unicorn_const import UC_HOOK_CODE

from dynftrace import arches
from dynftrace.core.arch import Port, Sites
from dynftrace.core.asm.assemble import assemble
from dynftrace.core.elf.image import Image
from dynftrace.core.ftrace.sites import call_sites
from dynftrace.core.kernel.kallsyms import Kallsyms
from dynftrace.core.kernel.kernel import load_kernel
from dynftrace.core.machine.machine import Machine
from dynftrace.core.session.session import MachineSpec, Session

from ..support import elf_writer
from .measure import Row, median, paired

ALLOCATIONS = 200_000
CALLS = 300_000
LOOP = 0xFFFF_FFFF_8201_5000
LIMIT = 60_000_000_000


def rows() -> Iterator[Row]:
    """Compare nops with a kernel without sites, and a traced call with a hooked one."""
    port = arches.load(arches.DEFAULT)
    yield _nops(port)
    yield from _calls(port)


def _nops(port: Port) -> Row:
    image = Image.load(port.images() / "vmlinux.elf", port.facts)
    nops = boot(port, image, partial(disable_sites, image=image))
    plain = Image.load(port.images() / "vmlinux-plain.elf", port.facts)
    pair = paired(allocations(nops, image), allocations(boot(port, plain), plain), rounds=15)
    return Row(
        f"{ALLOCATIONS:,} x kmalloc and kfree, sites nops",
        f"{pair.a * 1e3:.0f} ms",
        pair.ratio,
        "the same kernel built without sites",
        "<= 1.05",
        pair.ratio <= 1.05,
    )


def allocations(machine: Machine, image: Image) -> Callable[[], None]:
    """Run a guest task that allocates and frees: short functions that call many others."""
    source = (
        f"push rbx; mov ebx, {ALLOCATIONS}; again: mov edi, 64; xor esi, esi; call __kmalloc; "
        "mov rdi, rax; call kfree; dec ebx; jnz again; xor eax, eax; pop rbx; ret"
    )
    machine.memory.map(LOOP, 4096, "loop")
    code = assemble(machine.port.facts, source, LOOP, image.symbols.address_of).code
    machine.memory.write(LOOP, code)
    return lambda: _finished(machine.requests.call(LOOP, limit_ns=LIMIT))


def disable_sites(machine: Machine, image: Image) -> None:
    """Change all call sites of a kernel as ftrace does at boot."""
    port = machine.port
    ips = call_sites(port, image, machine.memory.read)
    compiled, _ = machine.memory.gather(ips, port.facts.sites.size)
    mcount = image.symbols.address_of(port.facts.sites.mcount_symbols[0]) or 0
    edit = port.init_nop(Sites(ips, compiled=compiled), mcount)
    present, _ = machine.memory.gather(edit.address, edit.expected.shape[1])
    assert edit.reachable.all() and np.array_equal(edit.expected, present)
    machine.memory.scatter(edit.address, edit.replacement)


def _finished(result: int) -> None:
    assert result == 0


def boot(
    port: Port, image: Image, patch: Callable[[Machine], None] = lambda machine: None
) -> Machine:
    """Boot a kernel without ftrace, after `patch` has changed its text."""
    symbols = Kallsyms()
    symbols.add(image.symbols)
    machine = Machine(port, 1, symbols=symbols)
    load_kernel(port, image, machine.memory)
    patch(machine)
    machine.start(image.entry)
    machine.run_until(lambda: machine.vcpus[0].idle_calls > 0, LIMIT, "the boot")
    return machine


def called(session: Session, calls: int = CALLS) -> None:
    """Put a function at LOOP that calls `traced`, `calls` times."""
    session.boot.machine.memory.map(LOOP, 4096, "loop")
    source = (
        f"push rbx; mov ebx, {calls}; again: mov edi, ebx; call traced; dec ebx; jnz again; "
        "pop rbx; ret"
    )
    code = assemble(session.port.facts, source, LOOP, session.boot.kallsyms.address).code
    session.boot.machine.memory.write(LOOP, code)


def _calls(port: Port) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vmlinux"
        path.write_bytes(elf_writer.kernel(["traced"]))
        session = Session.open(port, MachineSpec(kernel=path))
    machine = session.boot.machine
    called(session)

    def loop() -> None:
        machine.requests.call(LOOP, limit_ns=LIMIT)

    nops = median(loop)
    session.boot.tracefs.write("current_tracer", "function")
    before = session.boot.ring.written()
    loop()
    assert session.boot.ring.written() - before == CALLS
    traced = median(loop)
    session.boot.tracefs.write("current_tracer", "nop")
    hooked = median(_hooked(session, loop), rounds=3)
    each = traced - nops
    yield Row(
        "a traced call",
        f"{CALLS / traced / 1e6:.2f} M/s",
        hooked / traced,
        "the same events by a Python hook",
        ">= 7 x",
        hooked / traced >= 7,
    )
    yield Row(
        "a traced call's own cost",
        f"{each / CALLS * 1e9:.0f} ns",
        traced / nops,
        "the same call through a nop",
        "(no target)",
        True,
    )


def _hooked(session: Session, loop: Callable[[], None]) -> Callable[[], None]:
    """Run the loop with enabled sites and a Python tracer that notes ip, parent and time."""
    events: list[tuple[int, int, int]] = []
    vcpu = session.boot.machine.vcpus[0]
    ip, parent = (argument.number for argument in session.port.facts.abi.arguments[:2])

    def tracer(engine: Uc, address: int, size: int, data: object) -> None:
        events.append((vcpu.ticks, engine.reg_read(ip), engine.reg_read(parent)))

    def run() -> None:
        events.clear()
        loop()
        assert len(events) == CALLS

    ftrace = session.boot.ftrace
    session.boot.tracefs.write("current_tracer", "function")
    session.boot.tracefs.write("tracing_on", "0")
    place = ftrace.entry["function_trace_call"]
    vcpu._uc.hook_add(UC_HOOK_CODE, tracer, None, place, place)
    session.boot.machine.flush()
    return run
