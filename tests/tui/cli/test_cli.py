"""The command line as a whole: what it loads, and its statuses and streams."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .command_line import environment, here, run


def test_help_and_version_load_nothing_heavy() -> None:
    program = (
        "import sys; from dynftrace.tui.cli import run\n"
        "run(['--help']); run(['sh', '--help']); run(['--version'])\n"
        "heavy = {'numpy', 'unicorn', 'textual', 'keystone', 'capstone', 'elftools'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment()
    )
    assert done.stdout.splitlines()[-1] == "[]"
    assert "dynftrace 0" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("--cpus", "9"),
        ("--cpus", "many"),
        ("sh", "--cpus", "0"),
        ("sh", "--arch", "vax"),
        ("sh", "--patch", "hope"),
        ("sh", "--discovery", "luck"),
        ("sh", "--nonsense"),
        ("sh", "-c", "ls", "file"),
        ("--cpus", "2", "sh"),
        ("nocommand",),
        ("screenshot",),
        ("screenshot", "-o", "x.svg", "--size", "big"),
        ("screenshot", "-o", "x.svg", "--screen", "nowhere"),
    ],
)
def test_bad_usage_is_an_error(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    status, out, err = here(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err and "Traceback" not in err


def test_the_console_needs_a_terminal() -> None:
    done = run()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "dynftrace: the console needs a terminal; use dynftrace sh without one\n"
    )


def test_a_reader_that_goes_away() -> None:
    done = subprocess.run(
        f"{sys.executable} -m dynftrace sh -c 'cat README; cat README' | head -1",
        shell=True,
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_a_user_without_a_name_or_home_can_run_it() -> None:
    nobody = (
        "import os, pwd, sys; del os.environ['HOME']; pwd.getpwuid = lambda uid: {}[uid]; "
        "sys.argv = ['dynftrace', 'sh', '-c', 'pwd']; from dynftrace.tui.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", nobody],
        capture_output=True,
        text=True,
        env={name: value for name, value in environment().items() if not name.startswith("XDG_")},
    )
    assert (done.returncode, done.stderr) == (0, "")
