"""The output of `site` and `tramp` fits a terminal of 80 columns, on every port."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell

FEW = 120
"""Test every Nth site."""


@pytest.mark.parametrize("name", arches.names())
def test_site_and_tramp_fit_80_columns(name: str) -> None:
    session = Session.open(arches.load(name))
    shell = Shell(session)
    shell.execute("insmod usbcore; run syscalls; sleep 1; echo function > current_tracer")
    functions = session.boot.ftrace.records.names[::FEW]
    assert functions
    for command in (*(f"site '{each}'" for each in functions), "tramp", "tramp usbcore"):
        outcome = shell.execute(command)
        assert outcome.output and not outcome.error
        assert max(map(len, outcome.output.splitlines())) <= 80, command
