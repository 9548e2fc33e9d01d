"""A user at the shell of a machine, chosen by port name; shared with the port checks."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from dynftrace import arches
from dynftrace.core.portcheck import user
from dynftrace.core.portcheck.subject import PortUnderTest
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell


@cache
def subject(arch: str) -> PortUnderTest:
    """Return a port, with the machines that tests opened on it."""
    return PortUnderTest(arches.load(arch))


def opened(arch: str = arches.DEFAULT, **options: object) -> Session:
    """Return a session at its start; sessions with equal options are one and the same."""
    return subject(arch).session(MachineSpec(**options))  # type: ignore[arg-type]


def executor(session: Session) -> Callable[[str], str]:
    """Return a function that executes commands, which must succeed, and returns their output."""
    shell = Shell(session)

    def execute(text: str) -> str:
        outcome = shell.execute(text)
        assert (outcome.error, outcome.status) == ("", 0), text
        return outcome.output

    return execute


def at_once(session: Session) -> None:
    """Have the host write text without the guest's help, so that no guest code runs meanwhile."""
    session.boot.machine.updates.dismiss()


class User(user.User):
    """A user who can also inspect call sites; an error is the check's `Failure`.

    Users with equal options share a machine: a new one takes it back to its start. Tests that
    put hooks into the engine must be `alone`.
    """

    def __init__(self, arch: str, alone: bool = False, **options: object) -> None:
        spec = MachineSpec(**options)  # type: ignore[arg-type]
        port = PortUnderTest(arches.load(arch)) if alone else subject(arch)
        super().__init__(port, spec, modules=not spec.modules)

    def state(self, function: str) -> str:
        """Return `nop` or `enabled` from the first line of `site`, and verify all hops."""
        assert all(
            hop.verified
            for hop in self.session.call_path(
                self.session.boot.ftrace.records.ip_of(self.row(function))
            )
        )
        found = re.search(r" ip \w+  (\w+)  ", self(f"site {self.prefix}{function}"))
        assert found is not None
        return found[1]
