"""The contract of every port: the checks of `dynftrace port check`."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.portcheck import CHECKS, NotProvided, Passed

from ..support.keystone import INSTALLED
from ..support.ports import FAMILIES
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

RUNNING = {
    *("boot", "oops", "function", "all functions", "refused", "patch methods"),
    *("modules", "out of reach", "damaged stub", "nmi", "syscalls"),
    *("graph", "graph in a module", "frame pointer", "bad frame pointer", "graph patched"),
}
"""Checks of a running kernel. Of the ports of a family one does them here, and all in `.ci/run`
(`port check --all`); each port does the checks of its encoders and its entry code."""


@pytest.mark.parametrize("heading", dict.fromkeys(check.heading for check in CHECKS))
@pytest.mark.parametrize("name", arches.built_in())
def test_a_port_fulfils_its_contract(name: str, heading: str) -> None:
    checks = [check for check in CHECKS if check.heading == heading]
    if name not in (*FAMILIES, "x86_64-2008"):
        checks = [check for check in checks if check.name not in RUNNING]
    outcomes = {check.name: check.run(subject(name)) for check in checks}
    absent = {each for each, outcome in outcomes.items() if isinstance(outcome, NotProvided)}
    has_not = HAS_NOT[name] | (set() if INSTALLED else {"engines"})
    assert absent == has_not & outcomes.keys()
    failed = {each: outcome for each, outcome in outcomes.items() if outcome != Passed()}
    assert failed.keys() == absent, failed


def test_the_checks_of_a_running_kernel_exist() -> None:
    assert {check.name for check in CHECKS} >= RUNNING
