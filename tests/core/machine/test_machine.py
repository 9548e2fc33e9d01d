"""The run loop: turns, idle CPUs, interrupts, stepping, stopping, borrowed calls."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from dynftrace.core.abi import TICK_NS, Hypercall, Vector
from dynftrace.core.errors import (
    GuestError,
    GuestHang,
    GuestInterrupted,
    GuestOops,
    MemoryFault,
    UsageError,
)
from dynftrace.core.machine.machine import Machine
from dynftrace.core.machine.scheduler import SLICE_NS
from dynftrace.core.machine.vcpu import State

from .guest import DATA, PORT, STACK, TEXT, Guest, assemble, hypercall, irqs

COUNT_INTERRUPTS = f"mov rax, {DATA}; inc qword ptr [rax + rsi * 8]; " + hypercall(
    Hypercall.IRET, "rdi"
)
"""common_interrupt(regs, vector): count by vector at DATA and return."""


@pytest.mark.parametrize("cpus", [0, 9, -1])
def test_a_machine_has_1_to_8_cpus(cpus: int) -> None:
    with pytest.raises(UsageError):
        Machine(PORT, cpus)


def test_a_run_takes_the_requested_time() -> None:
    guest = Guest()
    guest.boot("l: inc rbx; jmp l")
    guest.machine.run(1_000_000)
    assert 1_000_000 <= guest.machine.now < 1_000_000 + SLICE_NS
    assert guest.register("rbx") == (guest.machine.now - 7) // 5


def test_a_machine_that_was_not_started_does_nothing() -> None:
    guest = Guest(2)
    guest.machine.run(1_000_000)
    guest.machine.sync()
    assert guest.machine.now == 0
    with pytest.raises(GuestError, match="not running"):
        guest.machine.step(0)


def test_interrupts_come_at_each_tick_and_preserve_all_registers() -> None:
    guest = Guest()
    guest.put(
        "common_interrupt",
        0x1000,
        f"mov r8, 7; mov rbx, r8; mov ecx, 1; xor edx, edx; {COUNT_INTERRUPTS}",
    )
    # The carry is live from one block to the next.
    guest.boot(
        f"{irqs(True)}; l: inc rbx; add ecx, 0x10000001; jmp n; n: adc rdx, 0; jmp m; m: jmp l"
    )
    guest.machine.run(200 * TICK_NS + SLICE_NS)
    assert guest.word(DATA) == 200
    rounds = guest.register("rbx")
    assert rounds > 1_000_000
    added = rounds * 0x1000_0001
    carries = guest.register("rdx") + (guest.register("rflags") & 1)
    assert guest.register("rcx") == added % 2**32
    assert added >> 32 in (carries, carries - (guest.register("rflags") & 1))
    assert guest.register("rsp") == STACK
    assert guest.register("r8") == 0


def test_a_tick_waits_while_interrupts_are_off() -> None:
    guest = Guest()
    guest.put("common_interrupt", 0x1000, COUNT_INTERRUPTS)
    guest.boot(f"l: inc rbx; cmp rbx, 1000000; jb l; {irqs(True)}; m: inc rcx; jmp m")
    guest.machine.run(5 * TICK_NS)
    assert guest.word(DATA) == 0
    guest.machine.run(10 * TICK_NS)
    late = 15 * TICK_NS - 1_000_000 * 12
    assert guest.word(DATA) == late // TICK_NS + 1  # ticks missed meanwhile came once


def test_an_idle_cpu_costs_nothing_and_wakes_at_its_tick() -> None:
    guest = Guest()
    guest.put("common_interrupt", 0x1000, COUNT_INTERRUPTS)
    guest.boot(f"{irqs(True)}; again: inc rbx; {hypercall(Hypercall.IDLE)}; jmp again")
    guest.machine.run(2_000 * TICK_NS)
    assert guest.word(DATA) in (1999, 2000)
    assert guest.register("rbx") == guest.machine.vcpus[0].idle_calls
    assert abs(guest.register("rbx") - 2000) <= 1


def test_time_passes_for_sleepers_even_in_short_runs() -> None:
    guest = Guest()
    guest.put("common_interrupt", 0x1000, COUNT_INTERRUPTS)
    guest.boot(f"{irqs(True)}; again: {hypercall(Hypercall.IDLE)}; jmp again")
    guest.machine.run(1000)
    start = guest.machine.now
    for _ in range(100):
        guest.machine.run(20_000)
    assert start + 2_000_000 <= guest.machine.now <= start + 2_100_000
    assert guest.word(DATA) == 2


def test_waiting_for_an_interrupt_is_idle_time() -> None:
    guest = Guest()
    guest.put("common_interrupt", 0x1000, COUNT_INTERRUPTS)
    guest.boot(f"{irqs(True)}; again: inc rbx; hlt; jmp again")
    guest.machine.run(10 * TICK_NS)
    assert guest.word(DATA) in (9, 10)
    assert guest.register("rbx") in (10, 11)


def start_second(guest: Guest, entry: int) -> str:
    return hypercall(Hypercall.CPU_UP, 1, entry, STACK + 0x1000, 0x1234, label="up")


def test_a_second_cpu_starts_with_its_argument_and_wakes_by_ipi() -> None:
    guest = Guest(2)
    guest.put("common_interrupt", 0x1000, COUNT_INTERRUPTS)
    idle = hypercall(Hypercall.IDLE)
    second = guest.put(
        "second",
        0x2000,
        f"mov rbx, rdi; mov r15, r15; mov r15, {guest.machine.port.facts.map.local + 4096};"
        f"{irqs(True)}; again: {idle}; jmp again",
    )
    send = hypercall(Hypercall.SEND_IPI, 1, int(Vector.DEVICE), label="ipi")
    guest.boot(
        f"{start_second(guest, second)}; mov rbx, [r15 + 0x50]; xor ecx, ecx;"
        f"l: inc ecx; cmp ecx, 20000; jb l; {send}; m: jmp m"
    )
    guest.machine.run(300_000)
    assert guest.register("rbx", 0) == 0
    assert guest.register("rbx", 1) == 0x1234
    assert guest.word(DATA + 8 * Vector.DEVICE) == 1
    assert guest.machine.vcpus[1].ticks < TICK_NS  # it did not wait for its tick
    assert [int(vcpu.local["cpu"]) for vcpu in guest.machine.vcpus] == [0, 1]
    assert int(guest.machine.vcpus[0].local["nr_cpus"]) == 2


def test_cpu_up_refuses_invalid_cpus() -> None:
    guest = Guest(2)
    entry = guest.put("second", 0x2000, "l: jmp l")
    again = start_second(guest, entry).replace("up", "again")
    seventh = hypercall(Hypercall.CPU_UP, 7, entry, STACK, 0, label="seventh")
    guest.boot(
        f"{start_second(guest, entry)}; mov rbx, [r15 + 0x50]; {again}; mov rcx, [r15 + 0x50];"
        f"{seventh}; mov rdx, [r15 + 0x50]; l: jmp l"
    )
    guest.machine.run(SLICE_NS)
    values = [guest.register(name) for name in ("rbx", "rcx", "rdx")]
    assert values == [0, 2**64 - 16, 2**64 - 22]  # 0, -EBUSY, -EINVAL


def test_an_interrupted_task_resumes_on_any_cpu_that_loads_its_registers() -> None:
    guest = Guest(2)
    # CPU 0 hands the interrupted registers to CPU 1 and stays in its handler.
    back = hypercall(Hypercall.IRET, "rdi", label="back")
    guest.put(
        "common_interrupt",
        0x1000,
        f"cmp dword ptr [r15 + 4], 0; jne other; mov rax, {DATA}; mov [rax], rdi; l: jmp l;"
        f"other: {back}",
    )
    local = guest.machine.port.facts.map.local + 4096
    second = guest.put(
        "second",
        0x2000,
        f"mov r15, {local}; mov rbx, {DATA}; w: mov rdi, [rbx]; test rdi, rdi; je w;"
        + hypercall(Hypercall.IRET, "rdi"),
    )
    guest.boot(f"{start_second(guest, second)}; {irqs(True)}; mov rbx, 1000; l: inc rbx; jmp l")
    guest.machine.run(TICK_NS // 2)
    middle = guest.register("rbx")
    assert middle > 1000
    guest.machine.run(TICK_NS)
    assert guest.register("rip") in range(TEXT + 0x1000, TEXT + 0x1040)
    assert guest.register("rbx", 1) > middle
    assert guest.register("rip", 1) < TEXT + 0x1000
    assert STACK - 0x100 < guest.register("rsp", 1) <= STACK


def test_the_cpu_with_the_lowest_time_runs_next() -> None:
    guest = Guest(2)
    second = guest.put("second", 0x2000, "l: jmp l")
    guest.boot(f"{start_second(guest, second)}; l: jmp l")
    for _ in range(5):
        guest.machine.run(333_333)
        first, other = (vcpu.ticks for vcpu in guest.machine.vcpus)
        assert abs(first - other) <= SLICE_NS + 100


def test_printk_reaches_dmesg_with_a_timestamp() -> None:
    guest = Guest()
    guest.machine.memory.write(DATA, b"Booting on CPU 0\n\0")
    guest.boot(f"{hypercall(Hypercall.PRINTK, DATA, 17)}; l: jmp l")
    guest.machine.run(SLICE_NS)
    assert guest.machine.dmesg.lines == ("[    0.000000] Booting on CPU 0",)


def test_a_vcpu_that_was_not_flushed_runs_the_old_bytes() -> None:
    guest = Guest(2)
    guest.put("patched", 0x3000, "mov ebx, 1; ret")
    second = guest.put("second", 0x2000, f"l: call {TEXT + 0x3000}; jmp l")
    guest.boot(f"{start_second(guest, second)}; l: call {TEXT + 0x3000}; jmp l")
    guest.machine.run(4 * SLICE_NS)
    new = assemble("mov ebx, 2; ret")
    guest.machine.memory.write(TEXT + 0x3000, new)
    guest.machine.flush(TEXT + 0x3000, TEXT + 0x3000 + len(new), cpus=[0])
    guest.machine.run(4 * SLICE_NS)
    assert (guest.register("rbx", 0), guest.register("rbx", 1)) == (2, 1)
    guest.machine.flush()
    guest.machine.run(4 * SLICE_NS)
    assert guest.register("rbx", 1) == 2


@pytest.mark.parametrize("span", [None, 5, 0x800])
def test_a_flush_reaches_code_in_the_middle_of_a_block_and_across_pages(span: int | None) -> None:
    guest = Guest()
    site = TEXT + 0x2FFE
    guest.put(
        "patched",
        0x2FF0,
        "nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; mov ebx, 1; ret",
    )
    guest.boot(f"l: call {TEXT + 0x2FF0}; jmp l")
    guest.machine.run(2 * SLICE_NS)
    assert guest.register("rbx") == 1
    guest.machine.memory.write(site, assemble("mov ebx, 2"))
    if span is None:
        guest.machine.flush()
    else:
        guest.machine.flush(site, site + span)
    guest.machine.run(2 * SLICE_NS)
    assert guest.register("rbx") == 2


def test_mapping_and_unmapping_reaches_every_cpu() -> None:
    guest = Guest(2)
    module = 0xFFFF_FFFF_A000_0000
    second = guest.put("second", 0x2000, f"mov rcx, {module}; l: call rcx; jmp l")
    guest.machine.memory.map(module, 0x1000, "module")
    guest.machine.memory.write(module, assemble("inc rbx; ret"))
    guest.boot(f"{start_second(guest, second)}; mov rcx, {module}; l: call rcx; jmp l")
    guest.machine.run(4 * SLICE_NS)
    assert min(guest.register("rbx", 0), guest.register("rbx", 1)) > 1000
    guest.machine.memory.unmap("module")
    guest.machine.run(4 * SLICE_NS)
    assert sorted(oops.cpu for oops in guest.machine.oopses) == [0, 1]
    assert not guest.machine.alive


@pytest.mark.parametrize("native", [None, False])
def test_a_store_to_one_region_does_not_end_a_block_of_another(native: bool | None) -> None:
    guest = Guest(native_clock=native)
    bases = [0x1000_0000 * row for row in range(1, 8)]
    for row, base in enumerate(bases):
        guest.machine.memory.map(base, 0x2000 << row, f"region {row}")
    # The store has the same offset in its page as the code that stores.
    for code in bases:
        for data in bases:
            if code != data:
                source = f"mov rbx, {data + 8}; nop; nop; mov [rbx], rax; nop; jmp l; l: jmp l"
                text = assemble(source, code)
                guest.machine.memory.write(code, text)
                guest.machine.flush()
                guest.machine.start(code)
                vcpu = guest.machine.vcpus[0]
                before = vcpu.ticks
                vcpu.run(before + 1)
                vcpu.run(vcpu.ticks + 1)
                assert vcpu.ticks - before == len(text), (hex(code), hex(data))


def test_memory_cannot_be_mapped_over_local_pages() -> None:
    guest = Guest()
    with pytest.raises(MemoryFault, match="overlaps cpu local"):
        guest.machine.memory.map(PORT.facts.map.local, 0x1000, "new")


def test_steps_add_up_to_the_time_of_a_run() -> None:
    source = "push rbx; call f; pop rbx; l: jmp l; f: nop; inc rbx; ret"
    stepped = Guest()
    stepped.boot(source)
    before, length = 0, []
    for _ in range(8):
        stepped.machine.step(0)
        length.append(stepped.machine.vcpus[0].ticks - before)
        before += length[-1]
    assert length == [7, 1, 5, 1, 3, 1, 1, 2]
    ran = Guest()
    ran.boot(source)
    ran.machine.vcpus[0].run(before)
    assert ran.machine.vcpus[0].ticks == before
    assert ran.machine.registers(0) == stepped.machine.registers(0)
    stepped.machine.run(SLICE_NS)
    ran.machine.run(SLICE_NS)
    assert stepped.machine.now == ran.machine.now


def test_a_step_serves_a_hypercall_and_wakes_an_idle_cpu() -> None:
    guest = Guest()
    guest.put("common_interrupt", 0x1000, COUNT_INTERRUPTS)
    guest.boot(f"{irqs(True)}; {hypercall(Hypercall.IDLE)}; l: jmp l")
    vcpu, steps = guest.machine.vcpus[0], 0
    while vcpu.state is State.RUNNING and steps < 8:
        guest.machine.step(0)
        steps += 1
    assert vcpu.state is State.IDLE and steps > 4, (
        "a step must serve the request at the end of the block, as a run does"
    )
    guest.machine.step(0)
    assert guest.register("rip") == TEXT + 0x1000
    assert vcpu.ticks == TICK_NS
    while guest.register("rip") >= TEXT + 0x1000:
        guest.machine.step(0)
    assert guest.word(DATA) == 1
    assert vcpu.local["irqs_disabled"] == 0


def test_a_stopped_run_continues_without_loss() -> None:
    guest = Guest()
    guest.boot("l: inc rbx; jmp l")
    timer = threading.Timer(0.1, guest.machine.stop)
    timer.start()
    guest.machine.run(1_000_000_000_000)
    timer.join()
    assert 0 < guest.machine.now < 1_000_000_000_000
    whole = guest.machine.now
    guest.machine.run(SLICE_NS)
    assert guest.register("rbx") == (guest.machine.now - 7) // 5
    assert guest.machine.now >= whole + SLICE_NS


def test_stop_without_a_run_does_nothing() -> None:
    guest = Guest()
    guest.boot("l: jmp l")
    guest.machine.stop()
    guest.machine.run(10 * SLICE_NS)
    assert guest.machine.now >= 10 * SLICE_NS


def test_run_until_ends_on_success_timeout_or_stop() -> None:
    guest = Guest()
    guest.boot("l: inc rbx; jmp l")
    guest.machine.run_until(lambda: guest.register("rbx") > 50_000, TICK_NS, "counting")
    assert 50_000 < guest.register("rbx") <= TICK_NS // 5
    with pytest.raises(GuestHang, match="boot did not finish"):
        guest.machine.run_until(lambda: False, TICK_NS, "boot")
    timer = threading.Timer(0.05, guest.machine.stop)
    timer.start()
    with pytest.raises(GuestInterrupted):
        guest.machine.run_until(lambda: False, 10**15, "boot")


def test_run_until_fails_when_a_cpu_dies_or_none_is_left() -> None:
    guest = Guest()
    guest.boot("xor eax, eax; mov rbx, [rax]")
    with pytest.raises(GuestOops, match="boot did not finish: CPU 0 has stopped"):
        guest.machine.run_until(lambda: False, TICK_NS, "boot")
    with pytest.raises(GuestError, match="no CPU is running"):
        guest.machine.run_until(lambda: False, TICK_NS, "boot")


def test_a_borrowed_call_returns_and_restores_the_cpu() -> None:
    guest = Guest()
    add = guest.put("add", 0x2000, "mov rbx, 99; lea rax, [rdi + rsi * 2]; nop; ret")
    guest.boot("l: inc rbx; jmp l")
    assert guest.machine.vcpus[0].state is State.RUNNING
    guest.machine.run(SLICE_NS)
    before, now = guest.machine.registers(0), guest.machine.now
    assert guest.machine.requests.call(add, [40, 1]) == 42
    assert guest.machine.requests.call(add, [-1, 0]) == 2**64 - 1
    assert guest.machine.registers(0) == before
    assert guest.machine.now == now + 2 * 13


def test_a_borrowed_call_works_before_boot() -> None:
    guest = Guest()
    add = guest.put("add", 0x2000, "lea rax, [rdi + rsi * 2]; ret")
    assert guest.machine.requests.call(add, [40, 1]) == 42
    assert guest.machine.vcpus[0].state is State.OFF


def test_a_borrowed_call_that_fails_leaves_the_cpu_alive() -> None:
    guest = Guest()
    bad = guest.put("bad", 0x2000, "mov rax, [rdi]; ret")
    spin = guest.put("spin", 0x2100, "l: jmp l")
    deep = guest.put("deep", 0x2200, "l: push rax; jmp l")
    guest.boot("l: inc rbx; jmp l")
    guest.machine.run(SLICE_NS)
    before = guest.machine.registers(0)
    with pytest.raises(GuestOops, match="NULL pointer dereference, address: 0000000000000008"):
        guest.machine.requests.call(bad, [8])
    with pytest.raises(GuestHang):
        guest.machine.requests.call(spin, [], limit_ns=TICK_NS)
    with pytest.raises(GuestOops, match="stack guard page"):
        guest.machine.requests.call(deep)
    with pytest.raises(UsageError):
        guest.machine.requests.call(bad, range(7))
    assert guest.machine.registers(0) == before
    guest.machine.run(SLICE_NS)
    assert guest.register("rbx") > before["rbx"]


def test_two_machines_run_identically() -> None:
    def run() -> tuple[list[dict[str, int]], bytes]:
        guest = Guest(2)
        guest.put("common_interrupt", 0x1000, COUNT_INTERRUPTS)
        local = guest.machine.port.facts.map.local + 4096
        work = f"l: mov rax, {DATA + 64}; inc qword ptr [rax]; imul rbx, [rax]; jmp l"
        second = guest.put("second", 0x2000, f"mov r15, {local}; mov rbx, 3; {irqs(True)}; {work}")
        guest.boot(f"{start_second(guest, second)}; {irqs(True)}; mov rbx, 5; {work}")
        guest.machine.run(7_654_321)
        registers = [guest.machine.registers(cpu) for cpu in (0, 1)]
        return registers, np.asarray(guest.machine.memory.region("kernel").bytes).tobytes()

    assert run() == run()
