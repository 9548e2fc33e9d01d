"""AArch64 relocations, compared with GNU ld and the ABI's limits."""

from __future__ import annotations

from pathlib import Path
from shutil import which

import numpy as np
import pytest
from elftools.elf.enums import ENUM_RELOC_TYPE_AARCH64

from dynftrace.arches.arm64 import reloc
from dynftrace.core.errors import ModuleError, RelocationOverflow, UnknownRelocation

from ...support.relocating import batch, linked

TOOLS = "aarch64-linux-gnu-"
AT = 0xFFFF_8000_0200_0000
TYPE = {name.removeprefix("R_AARCH64_"): row for name, row in ENUM_RELOC_TYPE_AARCH64.items()}
TYPE["LDST128_ABS_LO12_NC"] = 299

SOURCE = """
        .text
        bl      there
        b       there
        b.eq    there
        cbz     x0, there
        tbz     x1, #33, there
        adr     x2, there
        ldr     x3, there
        adrp    x4, data
        add     x4, x4, :lo12:data + 5
        ldrb    w5, [x4, :lo12:data + 1]
        ldrh    w5, [x4, :lo12:data + 2]
        ldr     w5, [x4, :lo12:data + 4]
        ldr     x5, [x4, :lo12:data + 8]
        ldr     q5, [x4, :lo12:data + 16]
        movz    x6, :abs_g3:data
        movk    x6, :abs_g2_nc:data
        movk    x6, :abs_g1_nc:data
        movk    x6, :abs_g0_nc:data
        .balign 8
        .quad   data + 0x123
        .quad   data - .
        .word   data - .
        .word   there - .
        .balign 64
there:  nop
        .section .far, "aw"
        .balign 16
        .skip   32
data:   .skip   64
"""

needs_ld = pytest.mark.skipif(which(f"{TOOLS}ld") is None, reason=f"no {TOOLS}ld")


@needs_ld
def test_every_type_is_relocated_as_by_gnu_ld(tmp_path: Path) -> None:
    places = {".text": AT, ".far": AT + 0x5_4320}
    old, new, rows = linked(tmp_path, TOOLS, SOURCE, places, "-e", "0")
    assert {row[0] for row in rows} >= {
        TYPE[name]
        for name in (
            *("ABS64", "PREL64", "PREL32", "ADR_PREL_PG_HI21", "ADD_ABS_LO12_NC"),
            *("LDST8_ABS_LO12_NC", "LDST16_ABS_LO12_NC", "LDST32_ABS_LO12_NC"),
            *("LDST64_ABS_LO12_NC", "LDST128_ABS_LO12_NC"),
            *("MOVW_UABS_G3", "MOVW_UABS_G2_NC", "MOVW_UABS_G1_NC", "MOVW_UABS_G0_NC"),
        )
    }
    text = np.frombuffer(old, np.uint8).copy()
    reloc.ABI.relocate("m", text, batch(AT, *rows))
    assert text.tobytes() == new


@needs_ld
def test_branches_to_another_section_agree_with_gnu_ld(tmp_path: Path) -> None:
    source = """
            .text
            bl      away
            b       away
            b.ne    away
            cbnz    x0, away
            tbnz    x1, #5, away
            adr     x2, away
            ldr     x3, away
            .section .away, "ax"
            nop
    away:   nop
    """
    for distance in (0x4000, -0x4000):
        places = {".text": AT, ".away": AT + distance}
        if distance < 0:
            places = dict(reversed(places.items()))
        old, new, rows = linked(tmp_path, TOOLS, source, places, "-e", "0")
        assert {row[0] for row in rows} == {
            TYPE[name]
            for name in ("CALL26", "JUMP26", "CONDBR19", "TSTBR14", "ADR_PREL_LO21", "LD_PREL_LO19")
        }
        text = np.frombuffer(old, np.uint8).copy()
        reloc.ABI.relocate("m", text, batch(AT, *rows))
        assert text.tobytes() == new


@pytest.mark.parametrize(
    ("name", "fits", "fails"),
    [
        ("CALL26", (1 << 27) - 4, 1 << 27),
        ("JUMP26", -(1 << 27), -(1 << 27) - 4),
        ("CALL26", 4, 2),
        ("CONDBR19", (1 << 20) - 4, 1 << 20),
        ("TSTBR14", -(1 << 15), -(1 << 15) - 4),
        ("LD_PREL_LO19", -(1 << 20), -(1 << 20) - 4),
        ("ADR_PREL_LO21", (1 << 20) - 1, 1 << 20),
        ("ADR_PREL_PG_HI21", (1 << 32) - 1, 1 << 32),
        ("ADR_PREL_PG_HI21", -(1 << 32), -(1 << 32) - 1),
        ("PREL32", -(1 << 31), -(1 << 31) - 1),
        ("PREL16", -(1 << 15), -(1 << 15) - 1),
    ],
)
def test_a_distance_out_of_range_is_an_overflow(name: str, fits: int, fails: int) -> None:
    text = np.zeros(8, np.uint8)
    reloc.ABI.relocate("m", text, batch(AT, (TYPE[name], 0, AT + fits, 0)))
    text[:] = 0
    rows = (TYPE["ABS32"], 4, 5, 0), (TYPE[name], 0, AT + fails, 0)
    with pytest.raises(RelocationOverflow, match=rf"m: relocation overflow, .*R_AARCH64_{name}"):
        reloc.ABI.relocate("m", text, batch(AT, *rows))
    assert not text.any()


@pytest.mark.parametrize(
    ("name", "fits", "fails"),
    [
        ("ABS32", 2**32 - 1, 2**32),
        ("ABS32", -(2**31), -(2**31) - 1),
        ("ABS16", 2**16 - 1, 2**16),
        ("MOVW_UABS_G0", 2**16 - 1, 2**16),
        ("MOVW_UABS_G1", 2**32 - 1, 2**32),
        ("MOVW_UABS_G2", 2**48 - 1, 2**48),
        ("LDST16_ABS_LO12_NC", AT + 2, AT + 1),
        ("LDST64_ABS_LO12_NC", AT + 8, AT + 4),
        ("LDST128_ABS_LO12_NC", AT + 16, AT + 8),
    ],
)
def test_an_address_out_of_range_is_an_overflow(name: str, fits: int, fails: int) -> None:
    text = np.zeros(8, np.uint8)
    reloc.ABI.relocate("m", text, batch(AT, (TYPE[name], 0, fits, 0)))
    with pytest.raises(RelocationOverflow, match=name):
        reloc.ABI.relocate("m", text, batch(AT, (TYPE[name], 0, fails, 0)))


def test_a_relocation_keeps_the_opcode() -> None:
    text = np.frombuffer(bytes.fromhex("ffffff97"), np.uint8).copy()
    reloc.ABI.relocate("m", text, batch(AT, (TYPE["CALL26"], 0, AT + 8, 0)))
    assert text.tobytes().hex() == "02000094"


def test_unknown_types_and_fields_outside_are_refused() -> None:
    text = np.zeros(8, np.uint8)
    for name in ("RELATIVE", "GLOB_DAT", "LD64_GOT_LO12_NC"):
        with pytest.raises(UnknownRelocation, match=f"R_AARCH64_{name}"):
            reloc.ABI.relocate("m", text, batch(AT, (TYPE[name], 0, AT, 0)))
    for offset in (1, 8, 2**64 - 4):
        with pytest.raises(ModuleError, match="outside its section"):
            reloc.ABI.relocate("m", text, batch(AT, (TYPE["ABS64"], offset % 2**64, AT, 0)))
    reloc.ABI.relocate("m", text, batch(AT, (0, 0, AT, 0), (256, 0, AT, 0)))
    assert not text.any()
