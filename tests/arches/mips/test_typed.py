"""Typed instructions: register names, jumps with an empty slot, branches to addresses."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.asm.assemble import assemble_line
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

from ...support.keystone import needs_keystone

pytestmark = needs_keystone

AT = 0x8020_0040
SYMBOLS = {"near": AT + 0x1C0}


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("addiu sp, sp, -8", 0x27BDFFF8),
        ("addiu $sp, $sp, -8", 0x27BDFFF8),
        ("lui v1, 0x8020", 0x3C038020),
        ("move at, ra", 0x03E00825),
        ("lw v0, 20(a0)", 0x8C820014),
        ("jal near", 0x0C080080),
        ("jr ra", 0x03E00008),
        ("b near", 0x1000006F),
        ("b near + 8", 0x10000071),
        ("beq v0, zero, near", 0x1040006F),
        ("bnez a0, 0x80200000", 0x1480FFEF),
    ],
)
def test_a_typed_instruction_is_the_manuals_word(line: str, word: int) -> None:
    for name in ("mips", "mipsel"):
        facts = arches.load(name).facts
        code = assemble_line(facts, line, AT, SYMBOLS.get)
        assert code.hex() == word.to_bytes(4, facts.byteorder).hex()  # type: ignore[arg-type]


@pytest.mark.parametrize("line", ["jal kfree", "b usb_get_dev+0x80000", "beq v0, a0, schedule"])
def test_a_target_out_of_reach_is_refused(line: str) -> None:
    session = Session.open(arches.load("mips"), MachineSpec(modules=("usbcore",)))
    address = session.address_of("usb_get_dev")
    before = session.boot.machine.memory.read(address, 8)
    outcome = Shell(session).execute(f"poke usb_get_dev {line}")
    assert "does not reach that far" in outcome.error
    assert session.boot.machine.memory.read(address, 8) == before
