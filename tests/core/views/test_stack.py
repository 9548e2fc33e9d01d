"""The stack word by word: its names against registers and memory that the run itself had."""

from __future__ import annotations

import pytest

from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell
from dynftrace.core.views.stack import Word

from ...support.ports import FAMILIES
from ...support.user import subject


def _sh(session: Session, text: str) -> str:
    outcome = Shell(session).execute(text)
    assert (outcome.error, outcome.status) == ("", 0)
    return outcome.output


@pytest.mark.parametrize("arch", FAMILIES)
def test_the_words_that_ftrace_caller_saves_hold_the_registers_of_the_site(arch: str) -> None:
    """Registers are read at ftrace_caller's entry, the stack is read when the tracer begins."""
    session = subject(arch).session(MachineSpec())
    _sh(session, "echo vfs_write > set_ftrace_filter; echo function > current_tracer")
    _sh(session, "until ftrace_caller syscalls")
    boot = session.boot
    cpu = boot.stepper.last or 0
    registers = boot.machine.registers(cpu)
    _sh(session, f"until {boot.kallsyms.name(boot.ftrace.slot)}")
    rows = {row.what.partition(" saved by")[0]: row for row in session.stack(cpu, 64).rows}
    saved = {name: rows[name] for name in registers if name in rows}
    arguments = {each.name for each in session.port.facts.abi.arguments[:3]}
    assert arguments <= saved.keys()
    for name, row in saved.items():
        assert (row.word, row.value) == (Word.SAVED, registers[name]), name
    assert any("vfs_write" in row.what for row in session.stack(cpu, 64).rows)


def test_the_stub_saves_the_toc_of_the_module() -> None:
    session = subject("ppc64").session(MachineSpec())
    _sh(session, "insmod usbcore; echo function > current_tracer; until usb_ifnum_to_if usb")
    assert "writes" not in _sh(session, "step 2")
    assert "-> d00000000000d600 (TOC of usbcore)" in _sh(session, "step 1")
    assert "[sp+0x28]" in _sh(session, "step 1")
    assert "TOC save slot: TOC of usbcore" in _sh(session, "stack")
    assert session.boot.modules.loaded[0].linked.toc == 0xD00000000000D600
