"""A user at the shell of a machine, chosen by port name; shared with the port checks."""

from __future__ import annotations

import re

from dynftrace import arches
from dynftrace.core.portcheck import user
from dynftrace.core.portcheck.subject import PortUnderTest
from dynftrace.core.session.session import MachineSpec


class User(user.User):
    """A user who can also inspect call sites; an error is the check's `Failure`."""

    def __init__(self, arch: str, **options: object) -> None:
        spec = MachineSpec(**options)  # type: ignore[arg-type]
        super().__init__(PortUnderTest(arches.load(arch)), spec, modules=not spec.modules)

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
