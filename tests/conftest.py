"""What all tests share: a plain environment, and an open session."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from dynftrace.core.session import Session


# A test of the console leaves an app of many objects behind; looking for it among all that
# thousands of tests have made takes as long as the tests.
gc.set_threshold(100_000)


@pytest.fixture(autouse=True)
def plain_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Colours and themes of the caller's terminal stay outside, and the caller's settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "no-settings"))
    for name in list(os.environ):
        if name == "NO_COLOR" or name.startswith("TEXTUAL_"):
            monkeypatch.delenv(name)


@pytest.fixture
def session() -> Session:
    """The teaching kernel, booted, two CPUs."""
    # Here, so that tests of small parts load only what they test.
    from dynftrace import arches
    from dynftrace.core.session import Session

    return Session.open(arches.load(arches.DEFAULT))


@pytest.fixture
def sh(session: Session) -> Callable[[str], str]:
    """Executes a command list in `session`, which must succeed; returns its output."""
    from dynftrace.core.shell.shell import Shell

    shell = Shell(session)

    def execute(text: str) -> str:
        outcome = shell.execute(text)
        assert (outcome.error, outcome.status) == ("", 0), text
        return outcome.output

    return execute
