"""Fault reports, line by line in the PowerPC kernel's words, and the traps that cause them."""

from __future__ import annotations

import random

import pytest
from unicorn import Uc
from unicorn.ppc_const import UC_PPC_REG_3, UC_PPC_REG_PC
from unicorn.unicorn_const import (
    UC_ARCH_PPC,
    UC_HOOK_INTR,
    UC_MODE_32,
    UC_MODE_64,
    UC_MODE_BIG_ENDIAN,
    UC_TLB_VIRTUAL,
)

from dynftrace.arches import load
from dynftrace.arches.powerpc import oops
from dynftrace.arches.powerpc.ppc32.port import FACTS as PPC32
from dynftrace.arches.powerpc.ppc64.port import FACTS as PPC64
from dynftrace.core.crash import Access, Crash, Fault
from dynftrace.core.facts import Facts
from dynftrace.core.machine.machine import Machine

from ...support.booted import boot

TEXT32, TEXT64 = 0xC000_0000, 0xC000_0000_0000_0000


def crash(
    fault: Fault,
    base: int = TEXT32,
    *,
    nip: int | None = None,
    words: int = 32,
    stack: bytes = b"",
    trace: tuple[int, ...] = (),
) -> Crash:
    """Report a fault in 32 words of code from `base`; by default NIP is at the 17th."""
    registers = {f"r{number}": number for number in range(32)}
    named = {"ctr": base + 0x300, "lr": base + 0x104, "xer": 0x2000_0000, "cr": 0x2400_0288}
    return Crash(
        fault=fault,
        count=1,
        cpu=0,
        pid=5,
        registers={
            **registers,
            "r1": base + 0x1_0000,
            "nip": base + 0x40 if nip is None else nip,
            **named,
        },
        text=b"".join((0x6000_0000 + row).to_bytes(4, "big") for row in range(words)),
        text_address=base if words else base + 0x40,
        stack=stack,
        trace=trace,
        symbol=lambda address: f"sym+0x{address - base:x}",
    )


def test_a_64_bit_report_has_the_kernels_format() -> None:
    lines = oops.report(crash(Fault(Access.READ, 0x10), TEXT64), PPC64)
    assert lines[:15] == (
        "BUG: Kernel NULL pointer dereference on read at 0x00000010",
        "Faulting instruction address: 0xc000000000000040",
        "Oops: Kernel access of bad area, sig: 11 [#1]",
        "BE PAGE_SIZE=4K SMP",
        "CPU: 0 PID: 5",
        "NIP:  c000000000000040 LR: c000000000000104 CTR: c000000000000300",
        "CR: 24000288  XER: 20000000",
        "DAR: 0000000000000010",
        "GPR00: 0000000000000000 c000000000010000 0000000000000002 0000000000000003",
        "GPR04: 0000000000000004 0000000000000005 0000000000000006 0000000000000007",
        "GPR08: 0000000000000008 0000000000000009 000000000000000a 000000000000000b",
        "GPR12: 000000000000000c 000000000000000d 000000000000000e 000000000000000f",
        "GPR16: 0000000000000010 0000000000000011 0000000000000012 0000000000000013",
        "GPR20: 0000000000000014 0000000000000015 0000000000000016 0000000000000017",
        "GPR24: 0000000000000018 0000000000000019 000000000000001a 000000000000001b",
    )
    assert lines[15:] == (
        "GPR28: 000000000000001c 000000000000001d 000000000000001e 000000000000001f",
        "NIP [c000000000000040] sym+0x40",
        "LR [c000000000000104] sym+0x104",
        "Call Trace:",
        "Instruction dump:",
        "60000004 60000005 60000006 60000007 60000008 60000009 6000000a 6000000b",
        "6000000c 6000000d 6000000e 6000000f <60000010> 60000011 60000012 60000013",
        "---[ end trace 0000000000000000 ]---",
    )


def test_a_32_bit_report_has_its_own_registers() -> None:
    lines = oops.report(crash(Fault(Access.ILLEGAL)), PPC32)
    assert lines[3:11] == (
        "NIP:  c0000040 LR: c0000104 CTR: c0000300",
        "CR: 24000288  XER: 20000000",
        "GPR00: 00000000 c0010000 00000002 00000003 00000004 00000005 00000006 00000007",
        "GPR08: 00000008 00000009 0000000a 0000000b 0000000c 0000000d 0000000e 0000000f",
        "GPR16: 00000010 00000011 00000012 00000013 00000014 00000015 00000016 00000017",
        "GPR24: 00000018 00000019 0000001a 0000001b 0000001c 0000001d 0000001e 0000001f",
        "NIP [c0000040] sym+0x40",
        "LR [c0000104] sym+0x104",
    )


BAD_AREA = "Oops: Kernel access of bad area, sig: 11 [#1]"
AT = "Faulting instruction address: 0xc0000040"


@pytest.mark.parametrize(
    ("fault", "lines"),
    [
        (
            Fault(Access.WRITE, 0xD000_0000),
            ("BUG: Unable to handle kernel data access on write at 0xd0000000", AT, BAD_AREA),
        ),
        (
            Fault(Access.WRITE, TEXT32 + 0xFFF0),
            (
                "BUG: Unable to handle kernel data access on write at 0xc000fff0",
                AT,
                "Thread overran stack, or stack corrupted",
                BAD_AREA,
            ),
        ),
        (Fault(Access.READ), ("BUG: Unable to handle kernel data access on read", AT, BAD_AREA)),
        (
            Fault(Access.FETCH, TEXT32 + 0x40),
            ("BUG: Unable to handle kernel instruction fetch", AT, BAD_AREA),
        ),
        (
            Fault(Access.FETCH, TEXT32 + 0x40, mapped=True),
            (
                "kernel tried to execute exec-protected page (c0000040)",
                "BUG: Unable to handle kernel instruction fetch",
                AT,
                BAD_AREA,
            ),
        ),
        (
            Fault(Access.ILLEGAL, detail="no such"),
            ("Oops: Exception in kernel mode, sig: 4 [#1]",),
        ),
        (
            Fault(Access.OTHER, detail="bad call of the machine"),
            ("bad call of the machine", "Oops: Exception in kernel mode, sig: 5 [#1]"),
        ),
        (
            Fault(Access.INTERRUPT, detail="no stack"),
            (
                "Bad kernel stack pointer c0010000 at c0000040",
                "Oops: Bad kernel stack pointer, sig: 6 [#1]",
            ),
        ),
        (
            Fault(Access.OTHER, detail=oops.FLOATING_POINT),
            (
                "Unrecoverable FP Unavailable Exception 800 at c0000040",
                "Oops: Unrecoverable FP Unavailable Exception, sig: 6 [#1]",
            ),
        ),
        (
            Fault(Access.OTHER, detail=oops.ALIGNMENT),
            (
                "BUG: Unable to handle kernel unaligned access",
                AT,
                "Oops: Kernel access of bad area, sig: 7 [#1]",
            ),
        ),
    ],
)
def test_the_report_describes_the_fault(fault: Fault, lines: tuple[str, ...]) -> None:
    assert oops.report(crash(fault), PPC32)[: len(lines)] == lines


def test_a_jump_to_unmapped_memory_is_reported() -> None:
    lines = oops.report(crash(Fault(Access.FETCH, 0), nip=0, words=0), PPC32)
    assert lines[0] == "BUG: Unable to handle kernel instruction fetch (NULL pointer?)"
    assert lines[-3:-1] == (" ".join(["XXXXXXXX"] * 8),) * 2


@pytest.mark.parametrize(
    ("nip", "words", "row"),
    [
        (TEXT32, 32, 8 * ["XXXXXXXX"]),
        (TEXT32 + 8, 3, ["XXXXXXXX", "60000000", "60000001", "<60000002>", "XXXXXXXX"]),
    ],
)
def test_code_at_the_edge_of_memory_is_reported(nip: int, words: int, row: list[str]) -> None:
    lines = oops.report(crash(Fault(Access.ILLEGAL), nip=nip, words=words), PPC32)
    assert any(" ".join(row) in line for line in lines[-3:-1])


def frames(facts: Facts, size: int, words: dict[int, int]) -> bytes:
    """Return a stack of `size` bytes from r1 up, with the word `words[offset]` at each offset."""
    stack = bytearray(size)
    for offset, value in words.items():
        width = facts.pointer_size
        stack[offset : offset + width] = value.to_bytes(width, "big")
    return bytes(stack)


def trace(facts: Facts, base: int, stack: bytes, known: tuple[int, ...] = ()) -> list[str]:
    lines = oops.report(crash(Fault(Access.ILLEGAL), base, stack=stack, trace=known), facts)
    return list(lines[lines.index("Call Trace:") + 1 : lines.index("Instruction dump:")])


@pytest.mark.parametrize(("facts", "base", "save"), [(PPC32, TEXT32, 4), (PPC64, TEXT64, 16)])
def test_the_call_trace_follows_the_back_chain(facts: Facts, base: int, save: int) -> None:
    r1, digits = base + 0x1_0000, 2 * facts.pointer_size
    words = {0: r1 + 0x80, save: base + 0x900, 0x80: r1 + 0x100, 0x80 + save: base + 0x304}
    words |= {0x40: base + 0x104, 0x100: 0, 0x100 + save: base + 0x404}
    stack = frames(facts, 0x400, words)
    chain = [
        f"[{r1 + 0x80:0{digits}x}] [{base + 0x304:0{digits}x}] sym+0x304",
        f"[{r1 + 0x100:0{digits}x}] [{base + 0x404:0{digits}x}] sym+0x404",
    ]
    assert trace(facts, base, stack) == chain
    first = f"[{r1:0{digits}x}] [{base + 0x900:0{digits}x}] sym+0x900 (unreliable)"
    assert trace(facts, base, stack, (base + 0x900,)) == [first, *chain]


@pytest.mark.parametrize(("facts", "base", "save"), [(PPC32, TEXT32, 4), (PPC64, TEXT64, 16)])
def test_the_call_trace_continues_past_an_interrupt(facts: Facts, base: int, save: int) -> None:
    r1, width, abi = base + 0x1_0000, facts.pointer_size, facts.abi
    regs = 0x80 + abi.call_frame + -abi.call_frame % 16
    below = regs + width * len(abi.pt_regs) + abi.red_zone
    before = below + -below % 16  # the interrupted stack pointer
    names = [register.name for register in abi.pt_regs]
    words = {0: r1 + 0x80, save: 0, 0x80: 0, 0x80 + save: 0}
    saved = {"r1": r1 + before, "nip": base + 0x500, "lr": base + 0x604}
    words |= {regs + width * names.index(name): value for name, value in saved.items()}
    words |= {before: r1 + before + 0x40, before + 0x40 + save: base + 0x704}
    stack = frames(facts, 0x800, words)
    frame = f"[{r1 + before + 0x40:0{2 * width}x}] [{base + 0x704:0{2 * width}x}] sym+0x704"
    assert trace(facts, base, stack) == [
        "--- interrupt: at sym+0x500",
        "    LR = sym+0x604",
        frame,
    ]
    other = stack.replace(saved["r1"].to_bytes(width, "big"), bytes(width))
    assert trace(facts, base, other) == []


@pytest.mark.parametrize("back", [-0x10, 0, 0x7000])
def test_a_broken_chain_ends_the_call_trace(back: int) -> None:
    r1 = TEXT32 + 0x1_0000
    stack = frames(PPC32, 0x100, {0: r1 + 0x20, 0x20: r1 + 0x20 + back, 0x24: 0x304})
    assert len(trace(PPC32, TEXT32, stack)) == 1


REPORTED = [
    (5, "7c801828"),  # lwarx r4, 0, r3
    (6, "7fe00008"),  # trap
    (7, "fc22102a"),  # fadd f1, f2, f2
    (8, "44000002"),  # sc
    (73, "10000000"),  # vaddubm v0, v0, v0
    (96, "00000000"),  # none
]
VSX = (94, "f00007e4")  # xvnegdp vs0, vs0, which the 32-bit model does not know


@pytest.mark.parametrize(
    ("mode", "number", "insn"),
    [(mode, *each) for mode in (UC_MODE_32, UC_MODE_64) for each in REPORTED]
    + [(UC_MODE_64, *VSX)],
)
def test_the_emulators_exceptions_are_understood(mode: int, number: int, insn: str) -> None:
    uc = Uc(UC_ARCH_PPC, mode | UC_MODE_BIG_ENDIAN)
    uc.ctl_set_tlb_mode(UC_TLB_VIRTUAL)
    start = TEXT32 if mode == UC_MODE_32 else TEXT64
    uc.mem_map(start, 4096)
    uc.mem_write(start, bytes.fromhex("60000000" + insn + "60000000"))
    uc.reg_write(UC_PPC_REG_3, start + 3)
    seen: list[int] = []

    def interrupt(uc: Uc, number: int, data: object) -> None:
        seen.append(number)
        uc.emu_stop()

    uc.hook_add(UC_HOOK_INTR, interrupt)
    uc.emu_start(start, start + 12)
    assert seen == [number]
    assert uc.reg_read(UC_PPC_REG_PC) == start + 4 + oops.TRAPS[number].reported_at
    assert oops.TRAPS[number].illegal == (number == 96)


@pytest.mark.parametrize(("arch", "dot"), [("ppc32", ""), ("ppc64", ".")])
def test_a_fault_in_an_interrupt_is_reported(arch: str, dot: str) -> None:
    guest = boot(arch, 1)
    tick = guest.address(f"{dot}scheduler_tick")
    guest.machine.memory.write(tick, bytes(4))
    guest.machine.vcpus[0].flush()
    guest.machine.run(20_000_000)
    (found,) = guest.machine.oopses
    assert (str(found), found.pc) == ("program interrupt: illegal instruction", tick)
    assert "Oops: Exception in kernel mode, sig: 4 [#1]" in found.report
    way = [line.split("] ")[-1].split("+")[0] for line in found.report]
    at = way.index(f"{dot}do_IRQ")
    assert way[at : at + 3] == [
        f"{dot}do_IRQ",
        f"{dot}common_interrupt",
        f"--- interrupt: at {dot}arch_cpu_idle",
    ]
    assert at < way.index(f"{dot}do_idle") < way.index(f"{dot}start_kernel")


@pytest.mark.parametrize("facts", [PPC32, PPC64])
@pytest.mark.parametrize("seed", range(6))
def test_the_machine_survives_any_word(facts: Facts, seed: int) -> None:
    chance = random.Random(seed)
    base = TEXT32 if facts is PPC32 else TEXT64
    machine = Machine(load(facts.name), 1)
    machine.memory.map(base, 0x20000, "kernel")
    machine.memory.write(base, chance.randbytes(0x8000))
    machine.start(base, base + 0x10000)
    bits = 8 * facts.pointer_size
    near = [base + chance.randrange(0x20000) for _ in range(32)]
    values = {
        f"r{row}": chance.choice([chance.getrandbits(bits), at]) for row, at in enumerate(near)
    }
    machine.set_registers(0, {**values, "lr": base + 0x4000, "ctr": base + 0x5000})
    machine.run(200_000)
    assert machine.now >= 200_000 or machine.oopses[0].report
