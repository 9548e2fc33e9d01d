"""`dynftrace sh`: commands, scripts, stdin, and a person at the prompt."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .command_line import COMMAND, environment, here, run


def test_sh_does_not_load_the_console() -> None:
    program = (
        "import sys; from dynftrace.tui.cli import run\n"
        "run(['sh', '-c', 'cat current_tracer'])\n"
        "print('textual' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment()
    )
    assert done.stdout.splitlines() == ["nop", "False"]


def test_available_filter_functions_from_anywhere(tmp_path: Path) -> None:
    done = run("sh", "-c", "cat available_filter_functions")
    assert done.returncode == 0 and done.stderr == ""
    assert "schedule" in done.stdout.splitlines()


@pytest.mark.parametrize(
    ("commands", "status", "error"),
    [
        ("cat foo", 1, "cat: foo: No such file or directory\n"),
        ("cat options", 1, "cat: options: Is a directory\n"),
        ("echo x > foo", 1, "dynftrace: foo: No such file or directory\n"),
        ("echo nothing > current_tracer", 1, "dynftrace: write error: Invalid argument\n"),
        ("cat foo; cat current_tracer", 0, "cat: foo: No such file or directory\n"),
        ("cat foo || cat current_tracer", 0, "cat: foo: No such file or directory\n"),
        ("cat foo && cat current_tracer", 1, "cat: foo: No such file or directory\n"),
        ("nonsense", 127, "dynftrace: nonsense: command not found\n"),
        ("echo 'x", 2, "dynftrace: syntax error: unterminated quoted string\n"),
    ],
)
def test_status_and_errors(
    capsys: pytest.CaptureFixture[str], commands: str, status: int, error: str
) -> None:
    assert here(capsys, "sh", "-c", commands)[0::2] == (status, error)


@pytest.mark.parametrize("command", ["sh", "tour"])
def test_a_device_that_never_ends_is_refused(command: str) -> None:
    done = run(command, "/dev/zero")
    assert done.returncode == 1 or done.returncode == 2
    assert done.stderr.count("\n") == 1 and "/dev/zero: a " in done.stderr


def test_a_script_and_stdin_are_executed_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script"
    script.write_text("# a script\ncat current_tracer\necho 'a\nb'\n")
    assert here(capsys, "sh", str(script)) == (0, "nop\na\nb\n", "")
    done = run("sh", stdin="cat current_tracer\ncat nothing\n")
    assert (done.returncode, done.stdout) == (1, "nop\n")
    for text, status in (("echo 'a\n", 2), ("cat nothing\nexit\necho never\n", 1)):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        assert here(capsys, "sh")[:2] == (status, "")


def test_ctrl_c_ends_a_script() -> None:
    process = subprocess.Popen(
        [*COMMAND, "sh", "-c", "echo ready; run syscalls 100000000; echo more"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "more" not in out and "Traceback" not in err


def test_a_person_at_the_prompt(tmp_path: Path) -> None:
    """Line editing, completion, a command over two lines, ctrl+c, the history."""
    import pty
    import select

    child, terminal = pty.fork()
    if child == 0:
        variables = environment(TERM="xterm", XDG_STATE_HOME=str(tmp_path))
        os.execve(sys.executable, [*COMMAND, "sh"], variables)
    seen = ""

    def expect(text: str) -> None:
        nonlocal seen
        end = time.monotonic() + 20
        while text not in seen:
            assert time.monotonic() < end, seen
            if select.select([terminal], [], [], 0.1)[0]:
                seen += os.read(terminal, 65536).decode()
        seen = seen[seen.index(text) + len(text) :]

    def type_(keys: bytes) -> None:
        os.write(terminal, keys)

    expect("tracing# ")
    type_(b"cat current_tr\t\n")
    expect("nop\r\n")
    type_(b"echo 'a\n")
    expect("> ")
    type_(b"b'\n")
    expect("a\r\nb\r\n")
    expect("tracing# ")
    type_(b"run syscalls 100000000\n")
    expect("100000000\r\n")
    time.sleep(0.2)
    type_(b"\x03")
    expect("interrupted")
    expect("tracing# ")
    type_(b"cat tracing_on\n")
    expect("1\r\n")
    expect("tracing# ")
    type_(b"\x04")
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert status == 0
    assert "cat current_tracer" in (tmp_path / "dynftrace" / "history").read_text()
