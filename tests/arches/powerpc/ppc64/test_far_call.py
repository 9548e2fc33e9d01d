"""A module calls the kernel through traced functions and keeps its TOC pointer."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.machine.function import enter, function_at
from dynftrace.core.machine.vcpu import State
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

LD_R2 = 0xE841_0028
STACK = 0xC000_0000_5000_0000
DEVICE = STACK + 0x4000  # a zeroed struct usb_device
TRACE = "echo function > current_tracer"


@pytest.fixture
def session() -> Session:
    session = Session.open(arches.load("ppc64"), MachineSpec(modules=("usbcore",)))
    session.boot.machine.memory.map(STACK, 0x10000, "test stack")
    return session


def steps(session: Session, function: str, *arguments: int) -> list[tuple[int, int, int]]:
    """Yield (pc, instruction, r2) at each step of a call on CPU 0; then (.., 0, the result)."""
    machine, names = session.boot.machine, session.boot.kallsyms
    vcpu = machine.vcpus[0]
    pointer = names.address(function)
    assert pointer is not None
    top = STACK + 0x8000
    effect = enter(session.port, machine.memory, names, pointer, arguments, top, STACK)
    vcpu.apply(effect, machine.memory)
    vcpu.state = State.RUNNING
    seen = []
    while (pc := vcpu.registers.pc) != STACK:
        seen.append((pc, machine.memory.read_int(pc, 4), vcpu.registers.read()["r2"]))
        assert len(seen) < 5000
        session.step(0)
    return [*seen, (pc, 0, vcpu.registers.result)]


def test_r2_is_the_toc_pointer_of_the_running_code(
    session: Session,
) -> None:
    """usb_get_dev takes a lock of the module, which it finds through r2 after its site."""
    facts, memory, names = session.port.facts, session.boot.machine.memory, session.boot.kallsyms
    (module,) = session.boot.modules.loaded
    stubs = range(module.stubs[0].address, module.stubs[-1].address + 48)
    entry = session.boot.ftrace.entry
    between = range(entry.address, entry.address + len(entry.code))
    own = module.linked.toc
    pointer, mcount = names.address("usb_get_dev"), names.address("_mcount")
    assert pointer is not None and mcount is not None
    assert function_at(facts, memory, names, pointer).toc == own
    kernel = function_at(facts, memory, names, mcount).toc
    assert kernel != own

    quiet = steps(session, "usb_get_dev", DEVICE)
    assert Shell(session).execute(TRACE).status == 0
    traced = steps(session, "usb_get_dev", DEVICE)
    assert len(traced) > len(quiet) + 100, "functions of kernel and module must be traced"
    assert quiet[-1] == traced[-1] == (STACK, 0, DEVICE)

    restored = 0
    for pc, word, r2 in traced[:-1]:
        if pc in stubs or pc in between:
            continue  # r2 changes here
        if pc < module.base:
            assert r2 == kernel, hex(pc)
        elif word == LD_R2:
            restored += 1
        else:
            assert r2 == own, hex(pc)
    assert restored == 4, "usb_get_dev and usb_ref must have called the lock and the unlock"


def test_both_sides_of_a_far_call_are_traced(session: Session) -> None:
    shell = Shell(session)
    shell.execute(TRACE)
    steps(session, "usb_get_dev", DEVICE)
    trace = shell.execute("cat trace").output
    for function, parent in (
        (".usb_ref", ".usb_get_dev"),
        ("._raw_spin_lock", ".usb_ref"),
        ("._raw_spin_unlock", ".usb_ref"),
    ):
        assert f": {function} <-{parent}" in trace
