"""The output of `site` and `tramp` fits a terminal of 80 columns, on every port."""

from __future__ import annotations

import pytest

from dynftrace import arches

from ...support.user import User

FEW = 120
"""Test every Nth site."""


@pytest.mark.parametrize("name", arches.names())
def test_site_and_tramp_fit_80_columns(name: str) -> None:
    user = User(name)
    user.insmod("usbcore")
    user("echo function > current_tracer")
    functions = user.session.boot.ftrace.records.names[::FEW]
    assert functions
    for command in (*(f"site '{each}'" for each in functions), "tramp", "tramp usbcore"):
        assert max(map(len, user(command).splitlines())) <= 80, command
