"""The contract of every port: the checks of `dynftrace port check`."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.portcheck import CHECKS, NotProvided, Passed

from ..support.keystone import INSTALLED
from ..support.user import subject

FAR = {"out of reach", "stub code"}
STUBS = {*FAR, "damaged stub", "stub calls"}

SHARED = {"trampoline", "own trampolines"}
REGS = {"pt_regs", "changed pt_regs"}
STORED = {"breakpoint"}

HAS_NOT = {
    "x86_64": STUBS,
    "i386": {*STUBS, *SHARED},
    "x86_64-2008": {*STUBS, *SHARED, *REGS, "disabled", "nmi"},
    "ppc64": {*SHARED, *REGS, *STORED},
    "ppc32": {*SHARED, *REGS, *STORED},
    "mips": {*FAR, *SHARED, *REGS, *STORED},
    "mipsel": {*FAR, *SHARED, *REGS, *STORED},
    "mips64": {*FAR, *SHARED, *REGS, *STORED},
    "arm64": {*SHARED, *STORED},
    "arm64-mcount": {*SHARED, *REGS, *STORED},
}
"""Optional parts that ports do not provide, by name of the check."""


@pytest.mark.parametrize("heading", dict.fromkeys(check.heading for check in CHECKS))
@pytest.mark.parametrize("name", arches.built_in())
def test_a_port_fulfils_its_contract(name: str, heading: str) -> None:
    outcomes = {
        check.name: check.run(subject(name)) for check in CHECKS if check.heading == heading
    }
    absent = {each for each, outcome in outcomes.items() if isinstance(outcome, NotProvided)}
    has_not = HAS_NOT[name] | (set() if INSTALLED else {"engines"})
    assert absent == has_not & outcomes.keys()
    failed = {each: outcome for each, outcome in outcomes.items() if outcome != Passed()}
    assert failed.keys() == absent, failed
