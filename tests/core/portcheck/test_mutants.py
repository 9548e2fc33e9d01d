"""Every broken port of `mutants` is caught, by the check that it names.

`--all-checks` runs all checks on each, and prints which of them fail.
"""

from __future__ import annotations

from functools import cache

import pytest

from dynftrace import arches
from dynftrace.core.elf.image import Image
from dynftrace.core.portcheck import CHECKS, Failed, Passed, PortUnderTest, check_port

from ...support.keystone import INSTALLED, REASON
from .mutants import MUTANTS, Mutant

BY_NAME = {check.name: check for check in CHECKS}


@cache
def kernel(port: str) -> Image:
    """Return the kernel of a true port, which no mutant changes."""
    return PortUnderTest(arches.load(port)).kernel


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_broken_port_is_caught(mutant: Mutant, request: pytest.FixtureRequest) -> None:
    port = mutant.made()
    if type(port).entry_source is not type(arches.load(mutant.port)).entry_source and not INSTALLED:
        pytest.skip(REASON)
    subject = PortUnderTest(port)
    subject.kernel = kernel(mutant.port)
    outcome = BY_NAME[mutant.check].run(subject)
    assert isinstance(outcome, Failed), f"{mutant.check}: {outcome}"
    assert outcome.reason
    if request.config.getoption("--all-checks"):
        caught = [check.name for check, each in check_port(mutant.made()) if each != Passed()]
        print(f"{mutant}: {', '.join(caught)}")


def test_there_are_enough_mutants_of_enough_ports() -> None:
    assert len({str(mutant) for mutant in MUTANTS}) == len(MUTANTS) > 150
    assert len({mutant.port for mutant in MUTANTS}) >= 5
    assert {mutant.check for mutant in MUTANTS} <= BY_NAME.keys()
