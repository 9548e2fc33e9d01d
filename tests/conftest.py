"""What all tests share: a plain environment, and an open session."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from dynftrace import arches
from dynftrace.core.session import MachineSpec, Session
from dynftrace.core.shell import Outcome, Shell


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colours and themes of the caller's terminal stay outside."""
    for name in list(os.environ):
        own = name.startswith("TEXTUAL_") and name != "TEXTUAL_SNAPSHOT_TEMPDIR"
        if own or name == "NO_COLOR":
            monkeypatch.delenv(name)


@pytest.fixture
def session() -> Session:
    """The teaching kernel, booted, two CPUs."""
    return Session.open(arches.load(arches.DEFAULT), MachineSpec())


@pytest.fixture
def sh(session: Session) -> Callable[[str], str]:
    """Executes a command list in `session`, which must succeed; returns its output."""
    shell = Shell(session)

    def execute(text: str) -> str:
        outcome: Outcome = shell.execute(text)
        assert (outcome.error, outcome.status) == ("", 0), text
        return outcome.output

    return execute
