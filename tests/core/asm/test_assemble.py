"""Assembly: labels, symbols, decimal numbers, and the position of errors."""

from __future__ import annotations

import os
import subprocess

import pytest
from capstone import CS_ARCH_X86, CS_MODE_64, Cs

from dynftrace import arches
from dynftrace.core.asm.assemble import assemble, assemble_line
from dynftrace.core.errors import AssemblyError

from ...support.keystone import needs_keystone

pytestmark = needs_keystone

FACTS = arches.load("x86_64").facts
BASE = 0xFFFF_FFFF_9000_0000
SYMBOLS = {"schedule": 0xFFFF_FFFF_8100_0010, "call_me": BASE + 0x800}


def listing(code: bytes, base: int = BASE) -> list[str]:
    decoder = Cs(CS_ARCH_X86, CS_MODE_64)
    return [f"{i.mnemonic} {i.op_str}".strip() for i in decoder.disasm(code, base)]


def test_exported_labels_report_their_offsets_and_add_no_code() -> None:
    entry = assemble(
        FACTS,
        """
        .globl first
first:  nop
        jmp hidden
        .globl second
second: nop
hidden: ret
        """,
        BASE,
        SYMBOLS.get,
    )
    assert entry.symbols == {"first": 0, "second": 3}
    assert listing(entry.code) == ["nop", f"jmp {BASE + 4:#x}", "nop", "ret"]


@pytest.mark.parametrize("name", SYMBOLS)
def test_calls_of_external_symbols_have_exact_targets(name: str) -> None:
    code = assemble(FACTS, f"nop\ncall {name}\n", BASE, SYMBOLS.get).code
    assert listing(code)[1] == f"call {SYMBOLS[name]:#x}"


def test_a_symbol_is_replaced_only_as_a_whole_word() -> None:
    symbols = {"call_me": BASE + 0x100, "call_me_too": BASE + 0x200}
    code = assemble(FACTS, "call call_me_too\ncall call_me\n", BASE, symbols.get).code
    assert listing(code) == [f"call {BASE + 0x200:#x}", f"call {BASE + 0x100:#x}"]


def test_decimal_numbers_are_always_read_as_decimal() -> None:
    for _ in range(20):
        code = assemble(
            FACTS, "sub rsp, 80\nmov rax, [rsp + 16]\nmov ecx, 0x10\n", BASE, {}.get
        ).code
        assert listing(code) == [
            "sub rsp, 0x50",
            "mov rax, qword ptr [rsp + 0x10]",
            "mov ecx, 0x10",
        ]


def test_comments_of_both_kinds_are_ignored() -> None:
    source = "nop // one\n/* two\n lines */ ret\n"
    assert listing(assemble(FACTS, source, BASE, {}.get).code) == ["nop", "ret"]


@pytest.mark.parametrize(
    ("source", "line", "reason"),
    [
        ("nop\nnop\nbogus rax\nret\n", 3, "Invalid mnemonic: bogus rax"),
        ("nop /* a\nb */\nmov rax, rbx, rcx\n", 3, "Invalid operand"),
        ("nop\ncall nowhere\n", 2, "symbol nowhere is not defined"),
    ],
)
def test_an_error_names_its_line(source: str, line: int, reason: str) -> None:
    with pytest.raises(AssemblyError, match=f"cannot assemble: line {line}: {reason}") as caught:
        assemble(FACTS, source, BASE, SYMBOLS.get)
    assert caught.value.line == line


def test_a_line_for_poke_is_assembled() -> None:
    assert assemble_line(FACTS, "nop; int3", BASE, {}.get) == b"\x90\xcc"
    assert listing(assemble_line(FACTS, "call schedule", BASE, SYMBOLS.get)) == [
        f"call {SYMBOLS['schedule']:#x}"
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("bogus", "cannot assemble: unknown instruction 'bogus'"),
        ("", "not an instruction"),
        ("here:", "not an instruction"),
        ("! ]", "not an instruction"),
        ("%", "not an instruction"),
        ("nop; -x 01", "not an instruction"),
        ("7 rax", "not an instruction"),
        (".fill 1000000000", "directives are not allowed"),
        ("nop; .space 5", "directives are not allowed"),
        ("nop\nnop", "one line"),
        ("jmp nowhere", "symbol nowhere is not defined"),
        ("mov rax, 99999999999999999999999", "cannot assemble: wrong operand '9+' of 'mov'"),
        ("nöp", "cannot assemble"),
        ("mov rax, " + "9" * 5000, "a word is too long"),
    ],
)
def test_a_line_that_is_not_an_instruction_is_refused(line: str, reason: str) -> None:
    with pytest.raises(AssemblyError, match=reason):
        assemble_line(FACTS, line, BASE, SYMBOLS.get)


def test_ctrl_c_at_the_terminal_is_not_for_the_assembler(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = []

    class Watched(subprocess.Popen):
        def __init__(self, *args, **options) -> None:
            super().__init__(*args, **options)
            groups.append(os.getpgid(self.pid))

    monkeypatch.setattr(subprocess, "Popen", Watched)
    assert assemble_line(FACTS, "nop", BASE, SYMBOLS.get) == b"\x90"
    assert len(groups) == 1 and os.getpgrp() not in groups


def test_a_line_that_hangs_the_assembler_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynftrace.core.asm.assemble.PATIENCE", 0.5)
    with pytest.raises(AssemblyError, match="hangs on"):
        assemble_line(FACTS, "lock 0x", BASE, SYMBOLS.get)
