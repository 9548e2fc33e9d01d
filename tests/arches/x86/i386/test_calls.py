"""Calls made by the machine on i386, with more arguments than argument registers."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.asm.assemble import assemble
from dynftrace.core.errors import UsageError
from dynftrace.core.session.session import MachineSpec, Session

from ....support.keystone import needs_keystone

pytestmark = needs_keystone

PORT = arches.load("i386")
PLACE = PORT.facts.map.host_stack + 0x10_0000

DIGITS = """
        shl     edx, 4
        or      eax, edx
        shl     ecx, 8
        or      eax, ecx
        mov     edx, [esp + 4]
        shl     edx, 12
        or      eax, edx
        mov     edx, [esp + 8]
        shl     edx, 16
        or      eax, edx
        mov     edx, [esp + 12]
        shl     edx, 20
        or      eax, edx
        ret
"""
"""A function that makes a number of its six arguments; the first is the lowest digit."""


@pytest.fixture(params=[True, False], ids=["in a task", "on a borrowed CPU"])
def session(request: pytest.FixtureRequest) -> Session:
    session = Session.open(PORT, MachineSpec(boot=request.param))
    code = assemble(PORT.facts, DIGITS, PLACE, lambda name: None).code
    session.boot.machine.memory.map(PLACE, 0x1000, "a function")
    session.boot.machine.memory.write(PLACE, code)
    return session


def test_six_arguments_are_passed(session: Session) -> None:
    assert session.call(hex(PLACE), range(1, 7)) == 0x654321


def test_seven_arguments_are_refused(session: Session) -> None:
    with pytest.raises(UsageError, match="a call takes at most 6 arguments"):
        session.call(hex(PLACE), range(7))
