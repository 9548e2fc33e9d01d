"""return_to_handler and results in two registers, which the contract does not name."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.ftrace.entry import RETURN_TO_HANDLER
from dynftrace.core.portcheck.bench import BACK, code_of, entered, everything, run_to
from dynftrace.core.portcheck.entrycode import HANDLER
from dynftrace.core.portcheck.subject import PortUnderTest

SECOND = {"rax": "rdx", "eax": "edx", "x0": "x1", "r3": "r4", "v0": "v1"}
"""The register for the upper half of a wide result, by result register."""


@pytest.mark.parametrize("name", arches.built_in())
def test_the_upper_half_of_a_wide_result_is_kept(name: str) -> None:
    subject = PortUnderTest(arches.load(name))
    port, back = subject.port, subject.base + BACK
    start, abi = subject.labels[RETURN_TO_HANDLER], port.facts.abi
    numbers = {register.name: register.number for register in everything(port)}
    second = numbers[SECOND[abi.result.name]]
    uc = entered(subject, start, start)
    uc.reg_write(second, 0x89ABCDE)
    handler = code_of(subject, subject.called[HANDLER])
    assert run_to(uc, port, start, handler)[0] == handler
    uc.reg_write(second, 0x5555)
    uc.reg_write(abi.result.number, back)
    assert run_to(uc, port, handler, back)[0] == back
    assert uc.reg_read(second) == 0x89ABCDE
