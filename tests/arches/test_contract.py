"""The contract of every port: the checks of `dynftrace port check`."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.portcheck import CHECKS, Check, NotProvided, Passed

from ..support.user import subject

FAR = {"out of reach", "stub code"}
STUBS = {*FAR, "damaged stub", "stub calls"}

SHARED = {"trampoline", "own trampolines"}
REGS = {"pt_regs", "changed pt_regs"}
STORED = {"breakpoint"}

HAS_NOT = {
    "x86_64": STUBS,
    "i386": {*STUBS, *SHARED},
    "x86_64-2008": {*STUBS, *SHARED, *REGS, "disabled"},
    "ppc64": {*SHARED, *REGS, *STORED},
    "ppc32": {*SHARED, *REGS, *STORED},
    "mips": {*FAR, *SHARED, *REGS, *STORED},
    "mipsel": {*FAR, *SHARED, *REGS, *STORED},
    "mips64": {*FAR, *SHARED, *REGS, *STORED},
    "arm64": {*SHARED, *STORED},
    "arm64-mcount": {*SHARED, *REGS, *STORED},
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
