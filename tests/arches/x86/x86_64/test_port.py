"""Properties of the x86-64 port beyond the contract."""

from __future__ import annotations

import numpy as np

from dynftrace.arches.x86.x86_64.port import port
from dynftrace.core.arch import Sites

PORT = port()
IP, FAR = 0xFFFF_FFFF_8100_0000, 0x1000_0000_0000


def test_a_call_never_needs_a_stub() -> None:
    site = Sites(np.array([IP], np.uint64), {IP + 64: np.array([IP + 128], np.uint64)})
    edit = PORT.make_call(site, IP + 64)
    assert PORT.stubs is None
    assert PORT.call_target(IP, edit.replacement[0].tobytes()) == IP + 64
    assert edit.via == ()


def test_only_an_impossible_call_is_explained() -> None:
    edit = PORT.make_call(Sites(np.array([IP], np.uint64)), FAR)
    assert not edit.reachable.any()
    nop = edit.expected[0].tobytes()
    assert PORT.explain(IP, nop, nop) == "out of reach of a call rel32 (+-2 GB)"
    assert PORT.explain(IP, nop, bytes(5)) == ""
