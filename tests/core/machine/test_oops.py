"""Faults: the vCPU stops for good with the kernel's report; the others continue."""

from __future__ import annotations

import random
import re

import pytest

from dynftrace.core.abi import Hypercall
from dynftrace.core.machine.scheduler import SLICE_NS
from dynftrace.core.machine.services import NoServices
from dynftrace.core.machine.vcpu import State

from .guest import CLOCK, DATA, LOCAL, STACK, TEXT, Guest, assemble, hypercall

WILD = 0xFFFF_8880_DEAD_B000


def crash(source: str, *, at: str = "bad") -> Guest:
    """Call `source` from a caller's frame on CPU 0 while CPU 1 counts."""
    guest = Guest(2)
    second = guest.put("second", 0x2000, "l: inc rbx; jmp l")
    guest.put(at, 0x3000, source)
    guest.put("caller", 0x4000, f"push 5; call {TEXT + 0x3000}; pop rax; ret")
    up = hypercall(Hypercall.CPU_UP, 1, second, STACK + 0x1000, 0)
    guest.boot(f"{up}; mov rbx, 0x1234; call {TEXT + 0x4000}; l: jmp l")
    guest.machine.run(4 * SLICE_NS)
    return guest


@pytest.mark.parametrize(
    ("source", "first"),
    [
        (f"mov rax, {WILD}; nop; mov rcx, [rax + 8]", f"for address: {WILD + 8:016x}"),
        (f"mov rax, {WILD}; mov [rax], rcx", f"for address: {WILD:016x}"),
        (f"mov rax, {CLOCK}; mov [rax], rcx", f"for address: {CLOCK:016x}"),
        (
            "xor eax, eax; mov rcx, [rax + 0x10]",
            "NULL pointer dereference, address: 0000000000000010",
        ),
        ("ud2", "illegal instruction"),
        ("int3", "unexpected breakpoint"),
        ("int 0x81", "unexpected interrupt 0x81"),
        ("xor ecx, ecx; div ecx", "unexpected interrupt 0x00"),
        (f"mov rsp, {TEXT + 16}; l: push rax; jmp l", "stack guard page was hit"),
        (f"mov rax, {WILD}; jmp rax", f"for address: {WILD:016x}"),
        ("xor eax, eax; push rax; ret", "NULL pointer dereference"),
        ("xor esp, esp; push rax", "BUG:"),
    ],
)
def test_a_fault_stops_one_cpu_and_is_described(source: str, first: str) -> None:
    guest = crash(source)
    (oops,) = guest.machine.oopses
    assert first in str(oops)
    assert (oops.cpu, guest.machine.vcpus[0].state) == (0, State.DEAD)
    assert any(re.search(r": [0-9a-f]{4} \[#1\] SMP$", line) for line in oops.report)
    assert [line.split("] ", 1)[1] for line in guest.machine.dmesg.lines] == list(oops.report)
    counted = guest.register("rbx", 1)
    guest.machine.run(4 * SLICE_NS)
    assert guest.register("rbx", 1) > counted
    assert len(guest.machine.oopses) == 1


def test_the_report_shows_registers_code_and_call_trace() -> None:
    guest = crash(f"nop; mov rax, {WILD}; mov rcx, [rax + 8]; nop; ret")
    (oops,) = guest.machine.oopses
    report = "\n".join(oops.report)
    pc = TEXT + 0x3000 + 1 + 10
    assert oops.pc == pc
    assert oops.report[0] == f"BUG: unable to handle page fault for address: {WILD + 8:016x}"
    assert oops.report[1] == "#PF: supervisor read access in kernel mode"
    assert "CPU: 0 PID: 0" in oops.report
    assert f"RIP: {pc:016x} bad+0xb" in oops.report
    assert f"RAX: {WILD:016x}" in report
    assert "RBX: 0000000000001234" in report
    code = next(line for line in oops.report if line.startswith("Code: "))
    bad = assemble(f"nop; mov rax, {WILD}; mov rcx, [rax + 8]; nop; ret")
    shown = [f"{byte:02x}" for byte in bad[11:]]
    assert f"{bad[10]:02x} <{shown[0]}> {' '.join(shown[1:])} 00" in code
    trace = oops.report[oops.report.index("Call Trace:") + 1 : -1]
    assert [line.split("+")[0].strip(" ?") for line in trace] == ["caller", "start"]


def test_a_report_needs_neither_code_nor_stack() -> None:
    guest = crash(f"mov rsp, {WILD}; mov rax, {WILD + 0x1000}; jmp rax")
    (oops,) = guest.machine.oopses
    assert f"Code: Unable to access opcode bytes at 0x{WILD + 0x1000 - 42:x}." in oops.report
    assert oops.report[-2] == "Call Trace:"


def test_a_stack_at_the_end_of_memory_gives_a_report() -> None:
    guest = crash(f"mov rsp, {TEXT + 0x40000 - 3}; ud2")
    (oops,) = guest.machine.oopses
    assert oops.report[-2] == "Call Trace:"


def test_the_call_trace_of_a_wild_stack_is_bounded() -> None:
    guest = Guest()
    back = guest.put("f", 0x3000, f"call {TEXT}; nop") + 5
    for row in range(0x800):
        guest.machine.memory.write_int(DATA + 8 * row, back)
    guest.boot(f"mov rsp, {DATA}; ud2")
    guest.machine.run(SLICE_NS)
    (oops,) = guest.machine.oopses
    assert len(oops.report) < 60


def test_reports_do_not_need_symbols() -> None:
    guest = Guest()
    guest.boot("ud2")
    guest.names.by_name.clear()
    guest.machine.run(SLICE_NS)
    (oops,) = guest.machine.oopses
    assert f"RIP: {TEXT + 7:016x} 0x{TEXT + 7:x}" in oops.report


def test_an_interrupt_without_a_stack_is_a_double_fault() -> None:
    guest = Guest()
    guest.put("common_interrupt", 0x1000, "l: jmp l")
    guest.boot("mov rsp, 64; mov dword ptr [r15 + 12], 0; l: jmp l")
    guest.machine.run(2_000_000)
    (oops,) = guest.machine.oopses
    assert str(oops).startswith("no stack for interrupt 0: guest memory at")
    assert oops.report[0].startswith("double fault: no stack for interrupt 0")


HOSTILE = [
    (hypercall(Hypercall.PRINTK, WILD, 100), "bad hypercall: guest memory at 0xffff8880"),
    (hypercall(Hypercall.PRINTK, -1, 2**63), "bad hypercall"),
    (hypercall(Hypercall.PANIC, 0, 8), "bad hypercall"),
    (hypercall(Hypercall.IRET, 8), "bad hypercall"),
    (hypercall(Hypercall.CPU_UP, 1, TEXT, 0x1000, 0), "bad hypercall"),
    (hypercall(99), "unknown hypercall 99"),
]


@pytest.mark.parametrize(("source", "first"), HOSTILE)
def test_a_bad_hypercall_is_an_oops(source: str, first: str) -> None:
    guest = Guest(2)
    guest.boot(f"{source}; l: jmp l")
    guest.machine.run(SLICE_NS)
    (oops,) = guest.machine.oopses
    assert first in str(oops)
    assert guest.machine.vcpus[1].state is State.OFF


def test_a_stop_request_without_a_hypercall_is_harmless() -> None:
    guest = Guest()
    guest.boot(f"mov rax, {LOCAL}; mov dword ptr [rax], 1; l: inc rbx; jmp l")
    guest.machine.run(SLICE_NS)
    assert guest.register("rbx") > 1000
    assert not guest.machine.oopses


def test_a_panic_stops_every_cpu() -> None:
    guest = Guest(2)
    text = b"VFS: Unable to mount root fs\n"
    guest.machine.memory.write(DATA, text)
    second = guest.put("second", 0x2000, "l: inc rbx; jmp l")
    up = hypercall(Hypercall.CPU_UP, 1, second, STACK + 0x1000, 0)
    panic = hypercall(Hypercall.PANIC, DATA, len(text), label="panic")
    guest.boot(f"{up}; xor ecx, ecx; l: inc ecx; cmp ecx, 50000; jb l; {panic}; ud2")
    guest.machine.run(10_000_000)
    (oops,) = guest.machine.oopses
    assert str(oops) == "Kernel panic - not syncing: VFS: Unable to mount root fs"
    assert not guest.machine.alive
    assert guest.machine.now < 10_000_000
    assert str(oops) in guest.machine.dmesg.text()


def test_a_breakpoint_handler_gets_the_breakpoints_address() -> None:
    seen: list[tuple[int, int]] = []

    class Skip(NoServices):
        def breakpoint(self, cpu: int, ip: int) -> bool:
            seen.append((cpu, ip))
            guest.machine.set_registers(cpu, {"rip": ip + 5})
            return True

    guest = Guest(services=Skip())
    ip = guest.put("site", 0x3000, "int3; nop; nop; nop; nop; mov ebx, 7; ret")
    guest.boot(f"call {ip}; l: jmp l")
    guest.machine.run(SLICE_NS)
    assert seen == [(0, ip)]
    assert guest.register("rbx") == 7
    assert not guest.machine.oopses


def test_an_unhandled_breakpoint_is_an_oops_at_its_address() -> None:
    guest = Guest()
    ip = guest.put("site", 0x3000, "nop; int3; nop")
    guest.boot(f"call {ip}; l: jmp l")
    guest.machine.run(SLICE_NS)
    (oops,) = guest.machine.oopses
    assert oops.pc == ip + 1


def test_a_handler_that_changes_nothing_cannot_hang_the_machine() -> None:
    class Again(NoServices):
        def breakpoint(self, cpu: int, ip: int) -> bool:
            guest.machine.set_registers(cpu, {"rip": ip})
            return True

    guest = Guest(services=Again())
    guest.boot("int3; nop")
    ip = TEXT + 7
    guest.machine.run(1000)
    assert guest.register("rip") == ip
    assert guest.machine.now >= 1000


def test_a_step_into_a_fault_is_an_oops_too() -> None:
    guest = Guest()
    guest.boot("ud2")
    guest.machine.step(0)
    guest.machine.step(0)
    (oops,) = guest.machine.oopses
    assert (str(oops), oops.pc) == ("illegal instruction", TEXT + 7)
    assert oops.report[0] == "invalid opcode: 0000 [#1] SMP"


@pytest.mark.parametrize("seed", range(24))
def test_the_machine_survives_any_guest_code(seed: int) -> None:
    chance = random.Random(seed)
    guest = Guest()
    guest.put("common_interrupt", 0x1000, hypercall(Hypercall.IRET, "rdi"))
    memory = guest.machine.memory
    memory.write(TEXT + 0x4000, chance.randbytes(0x4000))
    values = [
        chance.choice([chance.getrandbits(64), TEXT + chance.randrange(0x40000), DATA])
        for _ in range(18)
    ]
    memory.write(DATA, b"".join(value.to_bytes(8, "little") for value in values))
    wild = hypercall(Hypercall.IRET, DATA) if seed % 2 else f"jmp {TEXT + 0x4000}"
    guest.boot(f"mov dword ptr [r15 + 12], 0; {wild}")
    guest.machine.run(1_000_000)
    vcpu = guest.machine.vcpus[0]
    if vcpu.state is State.DEAD:
        assert guest.machine.oopses[0].report
    else:
        assert guest.machine.now >= 1_000_000
