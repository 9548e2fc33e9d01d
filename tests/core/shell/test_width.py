"""What `site` and `tramp` print fits a terminal of 80 columns, on every port."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell

FEW = 9
"""Of so many sites one is looked at."""


@pytest.mark.parametrize("name", arches.names())
def test_sites_and_trampolines_fit(name: str) -> None:
    session = Session.open(arches.load(name))
    shell = Shell(session)
    shell.execute("insmod usbcore; run syscalls; sleep 1; echo function > current_tracer")
    functions = session.boot.ftrace.records.names[::FEW]
    assert functions
    for command in (*(f"site '{each}'" for each in functions), "tramp", "tramp usbcore"):
        outcome = shell.execute(command)
        assert outcome.output and not outcome.error
        assert max(map(len, outcome.output.splitlines())) <= 80, command
