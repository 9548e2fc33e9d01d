"""Copies of ftrace_caller, checked with Capstone, and entry code that cannot be copied."""

from __future__ import annotations

import pytest
from capstone import CS_OP_IMM, CS_OP_MEM, Cs
from capstone.x86 import X86_REG_RIP

from dynftrace import arches
from dynftrace.arches.x86.x86_64.trampoline import CALLERS, Copies
from dynftrace.core.arch import EntryCode, TrampolineCode, trampolines_of

from ....support.entry import entry_code

PORT = arches.load("x86_64")
ENTRY = entry_code(PORT)
BASE = PORT.facts.map.tracer
AT, FUNC, OP = BASE + 0x12345000, BASE + 0x2340, 0xFFFF_FFFF_9000_3030


def made(caller: str, entry: EntryCode = ENTRY, at: int = AT) -> TrampolineCode | None:
    return Copies().make(entry, BASE, caller, at, FUNC, OP)


def outward(code: bytes, at: int) -> list[tuple[int, str, int]]:
    """Return offset, mnemonic and target of every instruction that refers outside `code`."""
    engine = PORT.facts.engine
    decoder = Cs(engine.cs_arch, engine.cs_mode)
    decoder.detail = True
    found, end = [], at
    for insn in decoder.disasm(code, at):
        end = insn.address + insn.size
        for operand in insn.operands:
            target = None
            if operand.type == CS_OP_MEM and operand.mem.base == X86_REG_RIP:
                target = end + operand.mem.disp
            elif operand.type == CS_OP_IMM and insn.mnemonic[0] in "jc" and insn.mnemonic != "cmp":
                target = operand.imm % (1 << 64)
            if target is not None and not at <= target < at + len(code):
                found.append((insn.address - at, insn.mnemonic, target))
    assert end == at + len(code), "Capstone must decode every byte"
    return found


@pytest.mark.parametrize("caller", CALLERS)
def test_a_copy_differs_only_in_its_user(caller: str) -> None:
    trampoline = made(caller)
    assert trampoline is not None
    code = trampoline.code[: trampoline.op].rstrip(b"\0")
    labels = {name: BASE + offset for name, offset in ENTRY.symbols.items()}
    reached = outward(code, AT)
    assert [(mnemonic, target) for _, mnemonic, target in reached] == [
        ("cmp", labels["function_trace_stop"]),
        ("mov", AT + trampoline.op),
        ("call", FUNC),
        ("jmp", labels["ftrace_graph_call"]),
    ]
    assert trampoline.slot == reached[2][0] == labels[CALLERS[caller]] - labels[caller]
    assert trampoline.code[trampoline.op :] == OP.to_bytes(8, "little")
    start = ENTRY.symbols[caller]
    changed = {
        offset
        for offset, (old, new) in enumerate(zip(ENTRY.code[start:], code, strict=False))
        if old != new
    }
    fields = {place + n for place, *_ in reached for n in range(7)}
    assert changed and changed <= fields


def test_unsuitable_entry_code_is_not_copied() -> None:
    for name in ("ftrace_graph_call", "function_trace_op", "function_trace_stop", "ftrace_call"):
        symbols = {label: at for label, at in ENTRY.symbols.items() if label != name}
        assert made("ftrace_caller", EntryCode(ENTRY.code, symbols)) is None
    code = bytearray(ENTRY.code)
    code[code.index(b"\x48\x8b\x15") + 3] ^= 1
    assert made("ftrace_caller", EntryCode(bytes(code), ENTRY.symbols)) is None
    assert made("ftrace_regs_caller", EntryCode(bytes(code), ENTRY.symbols)) is not None
    assert made("ftrace_graph_caller") is None
    for distance in (0x7FF0_0000, 0x8000_0000):
        near = made("ftrace_caller", at=BASE - distance)
        assert (near is None) == (distance > 0x7FFF_FFFF)


def test_other_ports_have_no_trampolines() -> None:
    having = [name for name in arches.built_in() if trampolines_of(arches.load(name)) is not None]
    assert having == ["x86_64"]
