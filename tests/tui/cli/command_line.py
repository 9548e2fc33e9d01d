"""Running the program in tests: in this process, or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dynftrace import arches
from dynftrace.tui import cli

IMAGES = arches.load(arches.DEFAULT).images()
KERNEL = IMAGES / "vmlinux.elf"
COMMAND = [sys.executable, "-m", "dynftrace"]

PACKAGES = Path(cli.__file__).parents[3]


def environment(**variables: str) -> dict[str, str]:
    """Return an environment in which a new process finds this tree's `dynftrace`."""
    paths = [str(PACKAGES), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | variables


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own."""
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(),
    )


def here(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the program in this process; return status, output and errors."""
    status = cli.run(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err
