"""Properties of the i386 port beyond the contract."""

from __future__ import annotations

import numpy as np
import pytest

from dynftrace.arches.x86.i386.port import port
from dynftrace.core.arch import Sites

PORT = port()
IP = 0xC100_0000
NOP, CALL = bytes.fromhex("3e 8d 74 26 00"), bytes.fromhex("e8 0b 00 00 00")


def site(compiled: bytes, ip: int = IP) -> Sites:
    return Sites(np.array([ip], np.uint64), compiled=np.frombuffer(compiled, np.uint8)[None, :])


@pytest.mark.parametrize("compiled", [CALL, bytes.fromhex("0f 1f 44 00 00")])
def test_both_compiled_forms_become_the_32_bit_nop(compiled: bytes) -> None:
    edit = PORT.init_nop(site(compiled), IP + 0x10)
    assert edit.reachable.all()
    assert (edit.expected[0].tobytes(), edit.replacement[0].tobytes()) == (compiled, NOP)


def test_any_other_form_is_refused() -> None:
    assert PORT.init_nop(site(NOP), IP + 0x10).expected[0].tobytes() == CALL


def test_a_call_wraps_around_the_end_of_the_address_space() -> None:
    edit = PORT.make_call(site(NOP, 0xFFFF_FFF0), 0x20)
    assert edit.reachable.all() and PORT.stubs is None
    assert edit.replacement[0].tobytes() == bytes.fromhex("e8 2b 00 00 00")
    assert PORT.call_target(0xFFFF_FFF0, edit.replacement[0].tobytes()) == 0x20


def test_further_arguments_are_above_the_return_address() -> None:
    effect = PORT.enter_call(IP, [1, 2, 3, 4, -5], 0x1_0002, 0xC000_1234)
    assert effect.registers == {"eip": IP, "eax": 1, "edx": 2, "ecx": 3, "esp": 0xFFF4}
    words = (0xC000_1234, 4, 2**32 - 5)
    assert effect.stores == ((0xFFF4, b"".join(word.to_bytes(4, "little") for word in words)),)
    assert PORT.enter_call(IP, [1], 0x1_0000, 0).registers["esp"] == 0xFFFC


def test_every_address_is_within_reach() -> None:
    area = PORT.facts.map
    for target in (area.tracer, area.modules, area.modules_end, area.local):
        assert PORT.make_call(site(NOP), target).reachable.all()
