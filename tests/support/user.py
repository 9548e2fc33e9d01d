"""Somebody at the shell of a machine, by the name of its port: as the checks of a port have it."""

from __future__ import annotations

import re

from dynftrace import arches
from dynftrace.core.portcheck import user
from dynftrace.core.portcheck.subject import PortUnderTest
from dynftrace.core.session.session import MachineSpec


class User(user.User):
    """One who can look at call sites as well; what fails is a `Failure` in the check's words."""

    def __init__(self, arch: str, **options: object) -> None:
        spec = MachineSpec(**options)  # type: ignore[arg-type]
        super().__init__(PortUnderTest(arches.load(arch)), spec, modules=not spec.modules)

    def state(self, function: str) -> str:
        """`nop` or `enabled`, as the first line about its call site says; all hops are right."""
        assert all(
            hop.verified
            for hop in self.session.call_path(
                self.session.boot.ftrace.records.ip_of(self.row(function))
            )
        )
        found = re.search(r" ip \w+  (\w+)  ", self(f"site {self.prefix}{function}"))
        assert found is not None
        return found[1]
