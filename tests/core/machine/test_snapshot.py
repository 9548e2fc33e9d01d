"""Restoring the whole machine, then repeating the run byte for byte."""

from __future__ import annotations

import hashlib

import pytest

from dynftrace.core.abi import TICK_NS, Hypercall
from dynftrace.core.errors import MemoryFault
from dynftrace.core.machine.memory import PAGE_SIZE
from dynftrace.core.machine.scheduler import SLICE_NS
from dynftrace.core.machine.vcpu import State

from ...support.digest import of_memory
from .guest import DATA, LOCAL, STACK, TEXT, Guest, assemble, hypercall, irqs

COUNT = f"mov rax, {DATA}; inc qword ptr [rax]; " + hypercall(Hypercall.IRET, "rdi")


def busy(native: bool | None = None) -> Guest:
    """Return two CPUs that write to the same memory, with interrupts and messages."""
    guest = Guest(2, native_clock=native)
    guest.put("common_interrupt", 0x1000, COUNT)
    guest.machine.memory.write(DATA + 0x100, b"tick tock")
    work = (
        f"l: mov rax, {DATA + 64}; inc qword ptr [rax]; imul rbx, [rax]; mov [rax + 8], rbx;"
        f"push rbx; pop rcx; jmp l"
    )
    second = guest.put("second", 0x2000, f"mov r15, {LOCAL}; mov rbx, 3; {irqs(True)}; {work}")
    up = hypercall(Hypercall.CPU_UP, 1, second, STACK + 0x1000, 0, label="up")
    say = hypercall(Hypercall.PRINTK, DATA + 0x100, 9, label="say")
    guest.boot(f"{up}; {say}; {irqs(True)}; mov rbx, 5; {work}")
    return guest


def digest(guest: Guest) -> str:
    machine = guest.machine
    seen = hashlib.sha256(of_memory(machine.memory).encode())
    for vcpu in machine.vcpus:
        seen.update(repr((vcpu.state, vcpu.ticks, machine.registers(vcpu.number))).encode())
        seen.update(vcpu.local.tobytes())
    seen.update(machine.dmesg.text().encode())
    return seen.hexdigest()


@pytest.mark.parametrize("native", [None, False])
def test_a_run_from_a_snapshot_repeats_byte_for_byte(native: bool | None) -> None:
    guest = busy(native)
    guest.machine.run(TICK_NS + 123_456)
    restore, before = guest.machine.save(), digest(guest)
    guest.machine.run(2 * TICK_NS)
    after = digest(guest)
    for _ in range(2):
        restore()
        assert digest(guest) == before
        guest.machine.run(2 * TICK_NS)
        assert digest(guest) == after
    assert before != after


def test_two_machines_agree_with_either_clock() -> None:
    native, python = busy(), busy(native=False)
    for guest in (native, python):
        guest.machine.run(3 * TICK_NS)
    assert digest(native) == digest(python)


def test_restoring_maps_and_unmaps_regions() -> None:
    guest = busy()
    memory = guest.machine.memory
    memory.map(0x10000, 0x4000, "module")
    memory.write(0x11000, b"data of the module")
    restore, before = guest.machine.save(), digest(guest)
    memory.unmap("module")
    memory.map(0x10000, 0x2000, "module")
    memory.write(0x10000, b"another of that name")
    memory.map(0x20000, 0x1000, "ring buffer")
    restore()
    assert digest(guest) == before
    with pytest.raises(MemoryFault):
        memory.read(0x20000, 1)


def test_restored_code_runs_as_before() -> None:
    guest = Guest()
    guest.put("f", 0x3000, "mov ebx, 1; ret")
    guest.boot(f"l: call {TEXT + 0x3000}; jmp l")
    guest.machine.run(SLICE_NS)
    restore = guest.machine.save()
    guest.machine.memory.write(TEXT + 0x3000, assemble("mov ebx, 2; ret"))
    guest.machine.flush()
    guest.machine.run(SLICE_NS)
    assert guest.register("rbx") == 2
    restore()
    guest.machine.run(SLICE_NS)
    assert guest.register("rbx") == 1


def test_restoring_revives_a_dead_cpu() -> None:
    guest = Guest()
    guest.boot("xor ecx, ecx; l: inc ecx; cmp ecx, 50000; jb l; ud2")
    guest.machine.run(SLICE_NS)
    restore = guest.machine.save()
    guest.machine.run(TICK_NS)
    (oops,) = guest.machine.oopses
    restore()
    assert guest.machine.vcpus[0].state is State.RUNNING
    assert not guest.machine.oopses
    assert len(guest.machine.dmesg) == 0
    guest.machine.run(TICK_NS)
    assert guest.machine.oopses[0].report == oops.report


def test_a_snapshot_keeps_only_pages_in_use() -> None:
    guest = Guest()
    guest.machine.memory.map(0x1000_0000, 64 << 20, "ram")
    guest.machine.memory.write(0x1000_0000 + 0x5010, b"x")
    image = guest.machine.snapshots.take()
    assert {each.name: each.row.tolist() for each in image.regions} == {"ram": [5], "kernel": []}


def test_a_page_is_stored_once_until_it_changes_and_freed_with_its_last_snapshot() -> None:
    guest = Guest()
    memory, snapshots = guest.machine.memory, guest.machine.snapshots
    memory.map(0x1000_0000, 1 << 20, "ram")
    memory.write(0x1000_0000, b"x" * 8 * PAGE_SIZE)
    first, second = snapshots.take(), snapshots.take()
    assert snapshots.size == 8 * PAGE_SIZE
    memory.write(0x1000_0000, b"y")
    memory.write(0x1000_0000 + 7 * PAGE_SIZE, bytes(PAGE_SIZE))  # needs no storage any more
    third = snapshots.take()
    assert snapshots.size == 9 * PAGE_SIZE
    snapshots.restore(second)
    assert memory.read(0x1000_0000, 8 * PAGE_SIZE) == b"x" * 8 * PAGE_SIZE
    del third
    assert snapshots.size == 8 * PAGE_SIZE
    del first, second
    snapshots.restore(snapshots.take())
    assert snapshots.size == 8 * PAGE_SIZE
