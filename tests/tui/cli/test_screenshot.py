"""`dynftrace screenshot`."""

from __future__ import annotations

from pathlib import Path

import pytest

from .command_line import here, run


def test_a_screenshot_is_the_same_each_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = "echo schedule > set_ftrace_filter\necho function > current_tracer\nrun boot"
    pictures = []
    for name in ("a.svg", "b.svg"):
        path = tmp_path / name
        arguments = ("screenshot", "-c", commands, "--size", "100x30", "-o", str(path))
        if pictures:
            assert here(capsys, *arguments)[::2] == (0, "")
        else:
            done = run(*arguments)
            assert (done.returncode, done.stderr) == (0, "")
        pictures.append(path.read_text())
    assert pictures[0] == pictures[1] and "schedule" in pictures[0]
    gone = ("--kernel", str(tmp_path / "gone"), "-o", str(tmp_path / "c.svg"))
    assert here(capsys, "screenshot", *gone)[:2] == (1, "")
    assert not (tmp_path / "c.svg").exists()
