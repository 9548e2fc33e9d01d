"""The forms of a call site in 2008, byte by byte."""

from __future__ import annotations

import numpy as np
import pytest
from capstone import CS_ARCH_X86, CS_MODE_64, Cs

from dynftrace.arches.x86.x86_64_2008.port import port
from dynftrace.core.arch import Sites

PORT = port()
MCOUNT, CALLER = 0xFFFF_FFFF_8100_0040, 0xFFFF_FFFF_9000_0000
IP = 0xFFFF_FFFF_8100_2044

SITE = Sites(
    np.array([IP], np.uint64),
    compiled=np.frombuffer(bytes.fromhex("e8 f7 df ff ff"), np.uint8).reshape(1, 5),
)
"""`call MCOUNT`."""


@pytest.mark.parametrize(
    ("nop", "disabled"), [("nop", "0f 1f 44 00 00"), ("jmp", "eb 03 df ff ff")]
)
def test_a_site_goes_through_its_forms(nop: str, disabled: str) -> None:
    chosen = PORT.with_nop(nop)
    forms = [
        (edit.expected[0].tobytes().hex(" "), edit.replacement[0].tobytes().hex(" "))
        for edit in (
            chosen.init_nop(SITE, MCOUNT),
            chosen.make_call(SITE, CALLER),
            chosen.make_nop(SITE, CALLER),
        )
    ]
    compiled, enabled = "e8 f7 df ff ff", "e8 b7 df ff 0e"
    assert forms == [(compiled, disabled), (disabled, enabled), (enabled, disabled)]


def test_the_jmp_goes_to_the_end_of_the_site() -> None:
    jmp = PORT.with_nop("jmp").init_nop(SITE, MCOUNT).replacement[0].tobytes()
    (insn,) = list(Cs(CS_ARCH_X86, CS_MODE_64).disasm(jmp, IP, 1))
    assert (insn.mnemonic, int(insn.op_str, 16)) == ("jmp", IP + 5)
    assert PORT.call_target(IP, jmp) is None
    assert dict(PORT.emulate({"rip": IP, "rsp": 0x1000}, IP, jmp).registers) == {"rip": IP + 5}
    assert PORT.call_target(IP, b"\xeb\x04" + jmp[2:]) == IP + 6, (
        "any other jump must have a target"
    )


def test_only_two_nops_are_accepted() -> None:
    assert PORT.facts.nops == ("nop", "jmp")
    with pytest.raises(ValueError, match="unknown nop 'b'"):
        PORT.with_nop("b")


def test_the_port_has_no_list_of_sites() -> None:
    assert PORT.facts.sites.sections == ()
    assert PORT.facts.discovery == ("ftraced", "ftraced-batch")
