"""The line that shows how far a long task has come."""

from __future__ import annotations

import io

import pytest

from dynftrace.tui.files.status_line import StatusLine


class Terminal(io.StringIO):
    """A stream that says whether it is a terminal."""

    def __init__(self, tty: bool) -> None:
        super().__init__()
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty


@pytest.mark.parametrize("tty", [True, False])
def test_it_appears_after_two_seconds_and_is_removed(tty: bool) -> None:
    seconds = iter([0, 1, 30, 200, 300])
    terminal = Terminal(tty)
    line = StatusLine("checks", 4, terminal, lambda: next(seconds))
    shown = []
    for _ in line.over(range(4)):
        shown.append(terminal.getvalue().rpartition("\x1b[K")[2])
        terminal.write("\r\x1b[K")
    if not tty:
        assert terminal.getvalue().replace("\r\x1b[K", "") == ""
        return
    written = terminal.getvalue()
    assert "1 of 4" not in written  # after one second
    assert "checks: 2 of 4, about 30 s left" in written
    assert "checks: 3 of 4, about 67 s left" in written
    assert "4 of 4" not in written and written.endswith("\r\x1b[K")
    assert shown == ["", "", "", ""]  # removed before each item's own output


def test_a_dumb_terminal_gets_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    seconds = iter([0, 60])
    terminal = Terminal(True)
    StatusLine("steps", 5, terminal, lambda: next(seconds)).step()
    assert terminal.getvalue() == ""


def test_minutes() -> None:
    seconds = iter([0, 60])
    terminal = Terminal(True)
    StatusLine("steps", 5, terminal, lambda: next(seconds)).step()
    assert terminal.getvalue() == "steps: 1 of 5, about 4 min left"
