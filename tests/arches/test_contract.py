"""What every port owes, whatever its architecture: the checks of `dynftrace port check`."""

from __future__ import annotations

from functools import cache

import pytest

from dynftrace import arches
from dynftrace.core.portcheck import CHECKS, Check, NotProvided, Passed, PortUnderTest

STUBS = {"out of reach", "damaged stub"}

HAS_NOT = {
    "x86_64": STUBS,
    "i386": STUBS,
    "x86_64-2008": {*STUBS, "pt_regs"},
    "ppc64": {"pt_regs"},
    "ppc32": {"pt_regs"},
    "mips": {*STUBS, "pt_regs"},
    "mipsel": {*STUBS, "pt_regs"},
    "mips64": {*STUBS, "pt_regs"},
    "arm64-mcount": {"pt_regs"},
}
"""What ports do not provide, by the names of the checks."""


@cache
def subject(name: str) -> PortUnderTest:
    return PortUnderTest(arches.load(name))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
@pytest.mark.parametrize("name", arches.built_in())
def test_a_port_does_what_it_owes(name: str, check: Check) -> None:
    outcome = check.run(subject(name))
    if isinstance(outcome, NotProvided):
        assert check.name in HAS_NOT.get(name, set())
    else:
        assert outcome == Passed()
