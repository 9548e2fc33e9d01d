"""`dynftrace screenshot`."""

from __future__ import annotations

from pathlib import Path

from .command_line import run


def test_a_screenshot_is_the_same_each_time(tmp_path: Path) -> None:
    commands = "echo schedule > set_ftrace_filter\necho function > current_tracer\nrun boot"
    pictures = []
    for name in ("a.svg", "b.svg"):
        path = tmp_path / name
        done = run("screenshot", "-c", commands, "--size", "100x30", "-o", str(path))
        assert (done.returncode, done.stderr) == (0, "")
        pictures.append(path.read_text())
    assert pictures[0] == pictures[1] and "schedule" in pictures[0]
    done = run("screenshot", "--kernel", str(tmp_path / "gone"), "-o", str(tmp_path / "c.svg"))
    assert (done.returncode, done.stdout) == (1, "")
    assert not (tmp_path / "c.svg").exists()
