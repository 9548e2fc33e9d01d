"""The column of the error in a typed line of assembly, on every port."""

from __future__ import annotations

import time

import pytest

from dynftrace import arches
from dynftrace.core.asm import error_column
from dynftrace.core.asm.assemble import assemble_line
from dynftrace.core.errors import AssemblyError
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

from ...support.keystone import needs_keystone
from ...support.ports import FAMILIES

pytestmark = needs_keystone

WRONG = {
    "x86": ("mov rax, [rsp+*2]", "[rsp+*2]"),
    "i386": ("mov eax, [esp+*2]", "[esp+*2]"),
    "arm64": ("add x0, x1, w99", "w99"),
    "powerpc": ("addi r3, r3, 99999", "99999"),
    "mips": ("addiu sp, sp, 999999", "999999"),
}
"""A line with one wrong operand, and that operand, by port or family name."""


def refused(name: str, line: str) -> AssemblyError:
    """Return the error that refuses `line` on the port `name`."""
    facts = arches.load(name).facts
    with pytest.raises(AssemblyError) as caught:
        assemble_line(facts, line, facts.map.modules, {}.get)
    return caught.value


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("before", ["", "nop; ", "nop;here:  ", "/* ; bxl */ nop; "])
def test_the_column_of_an_unknown_instruction(name: str, before: str) -> None:
    error = refused(name, f"{before}bxl 0xc000; bxl 1")
    assert error.reason == "unknown instruction 'bxl'"
    assert error.column == len(before)


@pytest.mark.parametrize("name", arches.names())
@pytest.mark.parametrize("before", ["", "nop; "])
def test_the_column_of_one_wrong_operand(name: str, before: str) -> None:
    family = type(arches.load(name)).__module__.split(".")[2]
    line, operand = WRONG.get(name) or WRONG[family]
    error = refused(name, f"{before}{line}")
    assert error.reason == f"wrong operand '{operand}' of '{line.split()[0]}'"
    assert error.column == len(before) + line.rindex(operand)


@pytest.mark.parametrize("name", arches.names())
def test_the_column_of_an_undefined_symbol_and_of_a_directive(name: str) -> None:
    branch = {"x86": "jmp"}.get(type(arches.load(name)).__module__.split(".")[2], "b")
    error = refused(name, f"nop; {branch}  nowhere")
    assert error.reason == "symbol nowhere is not defined"
    assert error.column == 7 + len(branch)
    assert refused(name, "nop;  .long 3").column == 6
    assert refused(name, "nop; n\u00f6p").column == 6


@pytest.mark.parametrize(
    ("line", "reason", "column"),
    [
        ("mov rax, eax", "wrong operands of 'mov'", 4),
        ("push rax; mov rax, rbx, rcx", "wrong operands of 'mov'", 14),
        ("call", "'call' needs operands", 0),
        ("lock bxl [rax]", "unknown instruction 'bxl'", 5),
        ("a: b: bxl", "unknown instruction 'bxl'", 6),
    ],
)
def test_if_no_single_operand_is_wrong_the_column_is_the_first_operand(
    line: str, reason: str, column: int
) -> None:
    error = refused("x86_64", line)
    assert (error.reason, error.column) == (reason, column)


def test_an_instruction_that_keystone_drops_is_reported() -> None:
    error = refused("mips", "nop; sllv $2, 3, $4")
    assert (error.reason, error.column) == ("wrong operand '3' of 'sllv'", 14)


def test_labels_before_the_wrong_instruction_are_known() -> None:
    facts = arches.load("x86_64").facts
    assert assemble_line(facts, "here: nop; jmp here", facts.map.modules, {}.get)
    error = refused("x86_64", "here: nop; jmp here; bxl")
    assert (error.reason, error.column) == ("unknown instruction 'bxl'", 21)


def test_the_search_for_the_column_respects_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynftrace.core.asm.assemble.PATIENCE", 0.6)
    begin = time.monotonic()
    error = refused("x86_64", "mov rax, eax; " * 3000)
    assert time.monotonic() - begin < 5
    assert error.reason


def test_operands_are_split_outside_brackets() -> None:
    (piece,) = error_column.instructions("  ldp x0, x1, [sp, #8]  // last")
    assert [(each.text, each.column) for each in error_column.operands(piece)] == [
        ("x0", 6),
        ("x1", 10),
        ("[sp, #8]", 14),
    ]


@pytest.mark.parametrize("name", arches.names())
def test_poke_marks_the_wrong_column(name: str) -> None:
    session = Session.open(arches.load(name), MachineSpec(boot=False))
    command = "poke schedule 'nop; bxl 0xc000'"
    outcome = Shell(session).execute(command)
    assert (outcome.status, outcome.output) == (1, "")
    assert outcome.error == ("poke: unknown instruction 'bxl'\n  nop; bxl 0xc000\n       ^\n")
    assert outcome.wrong == command.index("bxl")


def test_poke_marks_the_target_of_a_branch_out_of_reach() -> None:
    session = Session.open(arches.load("arm64"), MachineSpec(boot=False))
    outcome = Shell(session).execute("poke schedule nop\\; cbz x0, 0x10000")
    assert outcome.error.splitlines()[1:] == ["  nop; cbz x0, 0x10000", "               ^"]


def test_tabs_do_not_move_the_mark() -> None:
    session = Session.open(arches.load("x86_64"), MachineSpec(boot=False))
    outcome = Shell(session).execute("poke schedule 'nop;\t\tbxl 5\t'")
    assert outcome.error.splitlines()[1:] == ["  nop;  bxl 5 ", "        ^"]
