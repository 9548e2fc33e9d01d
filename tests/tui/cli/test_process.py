"""The process around a command: closed streams, little memory, signals at any moment."""

from __future__ import annotations

import os
import pty
import random
import re
import resource
import select
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from ...support.keystone import needs_keystone
from .command_line import COMMAND, environment


@pytest.mark.parametrize(
    ("line", "status", "error"),
    [
        ("tour >&-", 1, "dynftrace: Bad file descriptor\n"),
        ("--version >&-", 1, "dynftrace: Bad file descriptor\n"),
        ("--help >/dev/full", 1, "dynftrace: No space left on device\n"),
        ("--nosuch 2>&-", 2, ""),
        ("--nosuch 2>/dev/full", 2, ""),
        ("tour nosuch 2>/dev/full", 2, ""),
        ("tour <&- >&- 2>&-", 1, ""),
        ("sh --arch i386 <&-", 0, ""),
        ("<&-", 1, "dynftrace: the console needs a terminal; use dynftrace sh without one\n"),
        (
            "tour call-site >&-",
            1,
            "dynftrace: a tour needs a terminal; --check works without one\n",
        ),
    ],
)
def test_a_closed_or_full_stream_is_a_status_and_no_traceback(
    line: str, status: int, error: str
) -> None:
    shell = f"exec {' '.join(COMMAND)} {line}"
    done = subprocess.run(shell, shell=True, capture_output=True, text=True, env=environment())
    assert (done.returncode, done.stdout, done.stderr) == (status, "", error)


@pytest.mark.parametrize(
    ("megabytes", "arguments"),
    [(64, "sites"), (256, "sh"), (640, "sh --cpus 8")],
)
def test_too_little_memory_is_one_sentence(megabytes: int, arguments: str) -> None:
    limit = megabytes << 20
    done = subprocess.run(
        [*COMMAND, *arguments.split()],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"dynftrace: not enough memory: .*ulimit -v.*\n", done.stderr), done.stderr


@needs_keystone
def test_the_memory_asked_for_is_enough() -> None:
    limit = 512 << 20
    done = subprocess.run(
        [*COMMAND, "sh", "-c", "run syscalls; poke vfs_read nop"],
        capture_output=True,
        text=True,
        env=environment(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert (done.returncode, done.stderr) == (0, "")


ENDING = (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

STARTED = """
import signal, sys
signals = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
print("started", flush=True)
import dynftrace.__main__ as program
signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
program.main()
"""
"""The program, with signals blocked until its first own statement: no program can answer for a
signal that comes while the interpreter starts."""


PROMPT, END_OF_FILE = b"tracing# ", b"\4"


def at_a_terminal(
    program: str, *arguments: str, hup: Any = signal.SIG_DFL, term: str = "xterm-256color"
) -> tuple[int, int]:
    """Start `program` at a new terminal of type `term`; `hup` is done on SIGHUP.

    Return its process and the terminal.
    """
    child, terminal = pty.fork()
    if child == 0:
        # The shell that runs the tests may ignore them.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, hup)
        variables = environment(TERM=term)
        os.execve(sys.executable, [sys.executable, "-c", program, *arguments], variables)
    return child, terminal


def ended(arguments: list[str], number: int, after: float) -> tuple[int, bytes]:
    """Run the program at a terminal and send `number` to its group `after` seconds.

    Return its exit status, negative if a signal ended it, and what it printed.
    """
    child, terminal = at_a_terminal(STARTED, *arguments)
    seen, due, sent = b"", 0.0, False
    try:
        while True:
            wait = 20.0 if sent or not due else max(due - time.monotonic(), 0)
            if select.select([terminal], [], [], wait)[0]:
                try:
                    seen += os.read(terminal, 65536)
                except OSError:  # the end, on Linux
                    break
            else:
                assert due and not sent, f"the program hangs: {seen!r}"
            if not due and b"started" in seen:
                due = time.monotonic() + after
            if due and not sent and time.monotonic() >= due:
                os.killpg(child, number)
                sent = True
            if sent and seen.endswith(PROMPT):
                os.write(terminal, END_OF_FILE)  # a shell answers ctrl+c with a new prompt
    finally:
        os.close(terminal)
        if not sent:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), seen


ARGUMENTS = [
    ["sh"],
    pytest.param(["sh", "-c", "run syscalls; poke vfs_read nop"], marks=needs_keystone),
    [],
]


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_a_signal_ends_the_program_at_any_moment_without_a_traceback(arguments: list[str]) -> None:
    chance = random.Random(len(arguments))
    for turn in range(4):
        number, after = ENDING[turn % 4], 1.5 * chance.random()
        status, seen = ended(arguments, number, after)
        assert status in (-number, 128 + number, 0), (number, after, seen)
        assert b"Traceback" not in seen and b"Exception" not in seen, (number, after, seen)
        assert seen.count(b"\x1b[?1049h") == seen.count(b"\x1b[?1049l"), (number, after, seen)


@pytest.mark.parametrize("arguments", [[], ["tour", "call-site"]])
def test_a_terminal_that_only_prints_gets_a_sentence(arguments: list[str]) -> None:
    child, terminal = at_a_terminal(STARTED, *arguments, term="dumb")
    seen = b""
    while select.select([terminal], [], [], 20)[0]:
        try:
            seen += os.read(terminal, 65536)
        except OSError:  # the end, on Linux
            break
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert b"needs a terminal that can move its cursor, and TERM is dumb; " in seen
    assert b"\x1b" not in seen


MISSED = """
from textual.drivers.linux_driver import LinuxDriver
import dynftrace.tui.console.run as run
LinuxDriver.disable_input = lambda _: None
run.HANGUP_S = 0.3
"""
"""The thread that reads keys is not told to end, as if it had missed that; it keeps a CPU busy."""


@pytest.mark.parametrize(
    ("before", "hup"),
    [("", signal.SIG_IGN), ("", signal.SIG_DFL), (MISSED, signal.SIG_DFL)],
    ids=["nohup", "plain", "missed"],
)
def test_the_console_ends_with_its_terminal(before: str, hup: Any) -> None:
    start = f"{before}\nimport dynftrace.__main__ as program; program.main()"
    child, terminal = at_a_terminal(start, hup=hup)
    seen = b""
    while b"schedule" not in seen:
        assert select.select([terminal], [], [], 60)[0], seen
        seen += os.read(terminal, 65536)
    os.close(terminal)
    until = time.monotonic() + 20
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < until:
        time.sleep(0.05)
    if done == (0, 0):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert done[0] == child and os.waitstatus_to_exitcode(done[1]) == 128 + signal.SIGHUP
