"""Typed instructions."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.asm.assemble import assemble_line
from dynftrace.core.errors import AssemblyError
from dynftrace.core.session.session import MachineSpec, Session

from ...support.keystone import needs_keystone

pytestmark = needs_keystone

ARM64 = arches.load("arm64").facts
AT = 0xFFFF_8000_0800_0100


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("nop", 0xD503201F),
        ("mov x9, x30", 0xAA1E03E9),
        ("bl schedule", 0x94000040),
        ("b schedule", 0x14000040),
        ("bl schedule+8", 0x94000042),
        ("b 0xffff800008000000", 0x17FFFFC0),
        ("cbz x3, schedule", 0xB4000803),
        ("b.eq schedule", 0x54000800),
        ("adrp x16, 0xffff800008001000", 0xB0000010),
        ("stp x29, x30, [sp, #-32]!", 0xA9BE7BFD),
        ("ldr x2, [x29, #8]", 0xF94007A2),
        ("brk #0x800", 0xD4210000),
        ("ret", 0xD65F03C0),
        ("udf", None),
        ("mov x0, x35", None),
        ("adrp x16, schedule", None),  # not the start of a page
    ],
)
def test_a_typed_instruction_is_the_manuals_word(line: str, word: int | None) -> None:
    symbols = {"schedule": AT + 0x100}
    if word is None:
        with pytest.raises(AssemblyError):
            assemble_line(ARM64, line, AT, symbols.get)
        return
    code = assemble_line(ARM64, line, AT, symbols.get)
    assert int.from_bytes(code, "little") == word, code.hex()


@pytest.mark.parametrize(
    ("line", "reach"),
    [
        ("b", 1 << 27),
        ("bl", 1 << 27),
        ("b.ne", 1 << 20),
        ("cbnz x0,", 1 << 20),
        ("tbz x0, #3,", 1 << 15),
    ],
)
def test_a_branch_out_of_reach_is_refused(line: str, reach: int) -> None:
    session = Session.open(arches.load("arm64"), MachineSpec(boot=False))
    for target in (AT + reach - 4, AT - reach):
        (insn,) = session.boot.disassembler.decode(AT, session.assemble(f"{line} {target:#x}", AT))
        assert insn.target == target
    for target in (AT + reach, AT - reach - 4):
        with pytest.raises(AssemblyError, match="does not reach that far"):
            session.assemble(f"{line} {target:#x}", AT)
