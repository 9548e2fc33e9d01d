"""The contract of every port: the checks of `dynftrace port check`."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.portcheck import CHECKS, Check, NotProvided, Passed

from ..support.user import subject

STUBS = {"out of reach", "damaged stub"}

SHARED = {"trampoline", "own trampolines"}

HAS_NOT = {
    "x86_64": STUBS,
    "i386": {*STUBS, *SHARED},
    "x86_64-2008": {*STUBS, *SHARED, "pt_regs"},
    "ppc64": {*SHARED, "pt_regs"},
    "ppc32": {*SHARED, "pt_regs"},
    "mips": {*STUBS, *SHARED, "pt_regs"},
    "mipsel": {*STUBS, *SHARED, "pt_regs"},
    "mips64": {*STUBS, *SHARED, "pt_regs"},
    "arm64": SHARED,
    "arm64-mcount": {*SHARED, "pt_regs"},
}
"""Optional parts that ports do not provide, by name of the check."""


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
@pytest.mark.parametrize("name", arches.built_in())
def test_a_port_fulfils_its_contract(name: str, check: Check) -> None:
    outcome = check.run(subject(name))
    if isinstance(outcome, NotProvided):
        assert check.name in HAS_NOT.get(name, set())
    else:
        assert outcome == Passed()
