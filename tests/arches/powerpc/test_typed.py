"""Typed instructions: registers with and without the assembler's prefix."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.asm.assemble import assemble_line
from dynftrace.core.errors import AssemblyError

from ...support.keystone import needs_keystone

pytestmark = needs_keystone

PPC64, PPC32 = arches.load("ppc64").facts, arches.load("ppc32").facts


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("std r3, 0x30(r1)", 0xF8610030),
        ("std %r3, 48(%r1)", 0xF8610030),
        ("ld 2, 40(1)", 0xE8410028),
        ("mflr r0", 0x7C0802A6),
        ("cmpwi cr7, r31, 10", 0x2F9F000A),
        ("bl .schedule", 0x48000101),
        ("trap", 0x7FE00008),
    ],
)
def test_a_typed_instruction_is_the_manuals_word(line: str, word: int) -> None:
    at = 0xC000_0000_0000_0100
    code = assemble_line(PPC64, line, at, {".schedule": at + 0x100}.get)
    assert int.from_bytes(code, "big") == word


def test_both_widths_accept_the_same_register_names() -> None:
    assert assemble_line(PPC32, "lwz r3, 4(r1); blr", 0xC000_0000, lambda name: None) == (
        bytes.fromhex("80610004 4e800020")
    )


def test_an_unknown_register_is_an_error() -> None:
    for line in ("std r32, 0(r1)", "mflr x0", "ld r2, 40(sp)"):
        with pytest.raises(AssemblyError):
            assemble_line(PPC64, line, 0xC000_0000_0000_0000, lambda name: None)
