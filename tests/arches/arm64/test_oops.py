"""Fault reports, line by line in the arm64 kernel's words, and the traps that cause them."""

from __future__ import annotations

import pytest
from unicorn import Uc, UcError
from unicorn.unicorn_const import UC_HOOK_INTR, UC_TLB_VIRTUAL

from dynftrace import arches
from dynftrace.arches.arm64 import oops
from dynftrace.arches.arm64.arm64.port import FACTS
from dynftrace.core.crash import Access, Crash, Fault
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell

TEXT = 0xFFFF_8000_0800_0000
SP = 0xFFFF_0000_0001_0F00

RAISED = {
    1: (0x0000_0000, oops.UNDEFINED),  # udf #0
    2: (0xD400_0001, oops.SVC),  # svc #0
    4: (0xC85F_7C20, oops.ALIGNMENT),  # ldxr x0, [x1]
    7: (0xD421_0000, oops.BREAKPOINT),  # brk #0x800
    13: (0xD400_0003, oops.SMC),  # smc #0
}


def crash(
    fault: Fault,
    *,
    pc: int = TEXT + 0x40,
    words: tuple[int, ...] = tuple(range(0xA000_0000, 0xA000_0020)),
    stack: tuple[int, ...] = (),
    fp: int = 0x1D,
    pstate: int = 0x6000_03C5,
) -> Crash:
    """Report a fault in 32 words of code; by default pc is at the 17th."""
    registers = {each.name: number for number, each in enumerate(FACTS.abi.pt_regs)}
    named = {"sp": SP, "x29": fp, "x30": TEXT + 0x104, "pc": pc, "pstate": pstate}
    return Crash(
        fault=fault,
        count=1,
        cpu=0,
        pid=5,
        registers={**registers, **named},
        text=b"".join(word.to_bytes(4, "little") for word in words),
        text_address=TEXT if words else pc,
        stack=b"".join(word.to_bytes(8, "little") for word in stack),
        trace=(),
        symbol=lambda address: f"sym+0x{address - TEXT:x}",
    )


def report(fault: Fault, **options: object) -> tuple[str, ...]:
    return oops.report(crash(fault, **options), FACTS)  # type: ignore[arg-type]


def test_the_report_has_the_kernels_format() -> None:
    stack = (0, 0, SP + 0x20, TEXT + 0x204, 0, TEXT + 0x304)
    assert report(Fault(Access.WRITE, 0x10), stack=stack, fp=SP + 0x10) == (
        "Unable to handle kernel NULL pointer dereference at virtual address 0000000000000010",
        "Mem abort info:",
        "  EC = 0x25: DABT (current EL), IL = 32 bits",
        "Data abort info:",
        "  CM = 0, WnR = 1",
        "Internal error: Oops [#1] SMP",
        "CPU: 0 PID: 5",
        "pstate: 600003c5 (nZCv DAIF -PAN -UAO -TCO -DIT -SSBS BTYPE=--)",
        "pc : sym+0x40",
        "lr : sym+0x104",
        "sp : ffff000000010f00",
        "x29: ffff000000010f10 x28: 000000000000001c x27: 000000000000001b",
        "x26: 000000000000001a x25: 0000000000000019 x24: 0000000000000018",
        "x23: 0000000000000017 x22: 0000000000000016 x21: 0000000000000015",
        "x20: 0000000000000014 x19: 0000000000000013 x18: 0000000000000012",
        "x17: 0000000000000011 x16: 0000000000000010 x15: 000000000000000f",
        "x14: 000000000000000e x13: 000000000000000d x12: 000000000000000c",
        "x11: 000000000000000b x10: 000000000000000a x9 : 0000000000000009",
        "x8 : 0000000000000008 x7 : 0000000000000007 x6 : 0000000000000006",
        "x5 : 0000000000000005 x4 : 0000000000000004 x3 : 0000000000000003",
        "x2 : 0000000000000002 x1 : 0000000000000001 x0 : 0000000000000000",
        "Call trace:",
        " sym+0x40",
        " sym+0x204",
        " sym+0x304",
        "Code: a000000c a000000d a000000e a000000f (a0000010)",
        "---[ end trace 0000000000000000 ]---",
    )


@pytest.mark.parametrize(
    ("fault", "first"),
    [
        (Fault(Access.READ, 0xDEAD_0000), "paging request at virtual address 00000000dead0000"),
        (Fault(Access.READ), "paging request"),
        (Fault(Access.FETCH, 8), "NULL pointer dereference at virtual address 0000000000000008"),
        (
            Fault(Access.WRITE, TEXT, mapped=True),
            "write to read-only memory at virtual address ffff800008000000",
        ),
        (
            Fault(Access.READ, TEXT, mapped=True),
            "read from unreadable memory at virtual address ffff800008000000",
        ),
        (
            Fault(Access.FETCH, TEXT, mapped=True),
            "execute from non-executable memory at virtual address ffff800008000000",
        ),
    ],
)
def test_the_report_describes_a_bad_access(fault: Fault, first: str) -> None:
    lines = report(fault)
    assert lines[0] == f"Unable to handle kernel {first}"
    assert lines[1] == "Mem abort info:"
    fetch = fault.access is Access.FETCH
    assert lines[2].startswith("  EC = 0x21: IABT" if fetch else "  EC = 0x25: DABT")
    assert any("WnR" in line for line in lines) != fetch
    assert "Internal error: Oops [#1] SMP" in lines


@pytest.mark.parametrize(
    ("fault", "lines"),
    [
        (
            Fault(Access.ILLEGAL, detail=oops.UNDEFINED),
            ("Internal error: Oops - Undefined instruction: 0000000002000000 [#1] SMP",),
        ),
        (
            Fault(Access.OTHER, detail=oops.SVC),
            (oops.SVC, "Internal error: Oops - bad mode [#1] SMP"),
        ),
        (
            Fault(Access.OTHER, detail=oops.ALIGNMENT),
            (
                "Unable to handle kernel paging request",
                "Mem abort info:",
                "  EC = 0x25: DABT (current EL), IL = 32 bits",
                "  FSC = 0x21: alignment fault",
                "Internal error: Oops [#1] SMP",
            ),
        ),
        (
            Fault(Access.INTERRUPT, detail="no stack"),
            ("Insufficient stack space to handle exception!", "CPU: 0 PID: 5"),
        ),
        (Fault(Access.OTHER), ("Internal error: Oops - bad mode [#1] SMP",)),
    ],
)
def test_the_report_describes_other_faults(fault: Fault, lines: tuple[str, ...]) -> None:
    assert report(fault)[: len(lines)] == lines


def test_the_number_of_a_brk_is_in_its_syndrome() -> None:
    words = (*range(16), 0xD421_0000)  # brk #0x800
    lines = report(Fault(Access.OTHER, detail=oops.BREAKPOINT), words=words)
    assert lines[:2] == (
        "Unexpected kernel BRK exception at EL1",
        "Internal error: BRK handler: 00000000f2000800 [#1] SMP",
    )


def test_an_unaligned_pc_has_its_own_message() -> None:
    lines = report(Fault(Access.ILLEGAL, detail=oops.UNDEFINED), pc=TEXT + 0x42)
    assert lines[0] == "Internal error: SP/PC alignment exception: 000000008a000000 [#1] SMP"


def test_a_fault_without_a_stack_is_a_panic() -> None:
    assert report(Fault(Access.INTERRUPT))[-1] == (
        "Kernel panic - not syncing: kernel stack overflow"
    )


def test_unreadable_code_is_reported() -> None:
    assert "Code: bad PC value" in report(Fault(Access.FETCH, 8), pc=8, words=())
    assert "Code: a0000000 (a0000001)" in report(Fault(Access.READ, 8), pc=TEXT + 4)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0x4000_03C5, "nZcv DAIF -PAN -UAO -TCO -DIT -SSBS BTYPE=--"),
        (0x9000_0005, "NzcV daif -PAN -UAO -TCO -DIT -SSBS BTYPE=--"),
        (0x0340_1885, "nzcv daIf +PAN -UAO +TCO +DIT +SSBS BTYPE=-c"),
    ],
)
def test_flags_are_shown_as_letters(value: int, shown: str) -> None:
    assert oops.pstate(value) == shown


def trace(lines: tuple[str, ...]) -> list[str]:
    start = lines.index("Call trace:") + 1
    return [line for line in lines[start:] if line.startswith(" ")]


@pytest.mark.parametrize("up", [SP, SP + 0x10, SP - 8, SP + 0x4000, 2**64 - 8])
def test_a_broken_chain_ends_the_trace(up: int) -> None:
    """The frame at sp + 16 has a bad pointer to the next frame."""
    lines = report(Fault(Access.READ, 8), stack=(0, 0, up, TEXT + 0x204), fp=SP + 0x10)
    assert trace(lines) == [" sym+0x40", " sym+0x204"]


def test_a_broken_frame_pointer_leaves_pc() -> None:
    for fp in (0, SP - 16, SP + 0x1000):
        assert trace(report(Fault(Access.READ, 8), stack=(1, 2), fp=fp)) == [" sym+0x40"]


def test_the_trace_continues_past_an_interrupt() -> None:
    """From the handler's frame to the saved registers, and on to the frames of their x29."""
    names = [register.name for register in FACTS.abi.pt_regs]
    regs = SP + 0x20
    after = regs + 8 * len(names)
    saved = dict.fromkeys(names, 0) | {"x29": after + 16, "sp": after, "pc": TEXT + 0x404}
    handler = (after + 16, 0, 7, 7)
    rest = (0, 0, 0, TEXT + 0x504)
    stack = (*handler, *saved.values(), *rest)
    lines = report(Fault(Access.READ, 8), stack=stack, fp=SP)
    assert trace(lines) == [" sym+0x40", " sym+0x404", " sym+0x504"]
    stack = (*handler, *({**saved, "sp": 5}).values(), *rest)
    assert trace(report(Fault(Access.READ, 8), stack=stack, fp=SP)) == [" sym+0x40"]


@pytest.mark.parametrize(("number", "word", "meaning"), [(n, *each) for n, each in RAISED.items()])
def test_the_emulators_exceptions_are_understood(number: int, word: int, meaning: str) -> None:
    uc = Uc(FACTS.engine.uc_arch, FACTS.engine.uc_mode)
    uc.ctl_set_tlb_mode(UC_TLB_VIRTUAL)
    uc.mem_map(TEXT, 0x1000)
    nop = 0xD503_201F
    uc.mem_write(TEXT, b"".join(each.to_bytes(4, "little") for each in (nop, word, nop)))
    uc.reg_write(FACTS.abi.arguments[1].number, TEXT + 0x101)
    seen: list[int] = []

    def on_interrupt(uc: Uc, what: int, data: object) -> None:
        seen.append(what)
        uc.emu_stop()

    uc.hook_add(UC_HOOK_INTR, on_interrupt)
    try:
        uc.emu_start(TEXT, TEXT + 12)
    except UcError:
        assert seen
    assert seen == [number]
    trap = FACTS.engine.traps[number]
    assert trap.meaning == meaning
    assert trap.illegal == (number == 1)
    assert uc.reg_read(FACTS.abi.pc.number) - (trap.reported_at or 0) == TEXT + 4


NULL = "Unable to handle kernel NULL pointer dereference at virtual address 0000000000000010"


@pytest.mark.parametrize(
    ("poked", "said"),
    [
        ("00fa20d4", "Internal error: BRK handler: 00000000f20007d0 [#1] SMP"),
        ("010000d4", "Internal error: Oops - bad mode [#1] SMP"),
        ("140280d2810240f9", NULL),
        ("140280d29f0200f9", NULL),
    ],
    ids=("brk #0x7d0", "svc #0", "mov x20, #0x10; ldr x1, [x20]", "mov x20, #0x10; str xzr, [x20]"),
)
def test_a_running_machine_reports(poked: str, said: str) -> None:
    session = Session.open(arches.load("arm64"))
    shell = Shell(session)
    assert not shell.execute(f"poke sys_getppid {poked}").error
    assert shell.execute("call sys_getppid").error
    lines = shell.execute("dmesg").output
    assert said in lines
    assert "pc : sys_getppid+0x" in lines
    assert " serve_request+0x" in lines
