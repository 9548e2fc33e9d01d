"""`dynftrace doctor`."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from dynftrace import __version__
from dynftrace.core.errors import HostMemoryError
from dynftrace.core.session.session import Session

from ...support.terminal import Terminal, needs_tmux
from .command_line import here


def test_the_report_says_what_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = here(capsys, "doctor", "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert found["dynftrace"]["version"] == __version__
    assert found["libraries"]["unicorn"] == version("unicorn")
    assert found["machine"]["boots and traces"].startswith("yes, in ")
    assert str(Path.home()) + "/" not in out


def test_a_machine_that_does_not_work_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise HostMemoryError

    monkeypatch.setattr(Session, "open", refuse)
    status, out, _ = here(capsys, "doctor")
    assert status == 1 and str(HostMemoryError()) in out and "libraries\n" in out


@needs_tmux
def test_the_terminal_is_asked(tmp_path: Path) -> None:
    # The shell keeps the terminal open after the program has ended.
    with Terminal(tmp_path, "doctor", 100, 50, hold=True) as terminal:
        terminal.see(r"size +100x50")
        terminal.see(r"width of characters +right")
        assert "R" not in terminal.screen().split("FUSE")[1].splitlines()[-1]
