"""The command line as a user sees it: statuses, streams, and errors for bad input."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dynftrace import arches
from dynftrace.tui import cli
from dynftrace.tui.files import whole_file

IMAGES = arches.load(arches.DEFAULT).images()
KERNEL = IMAGES / "vmlinux.elf"
COMMAND = [sys.executable, "-m", "dynftrace"]


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command in a separate process."""
    root = Path(cli.__file__).parents[2]
    paths = [str(root.parent), str(root.parent / ".pkg"), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    )


def here(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the command in this process; return status, output and errors."""
    status = cli.run(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_help_and_version_load_nothing_heavy() -> None:
    program = (
        "import sys; from dynftrace.tui.cli import run\n"
        "run(['--help']); run(['sh', '--help']); run(['--version'])\n"
        "heavy = {'numpy', 'unicorn', 'textual', 'keystone', 'capstone', 'elftools'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    root = Path(cli.__file__).parents[2]
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(root.parent), str(root.parent / ".pkg")])
    }
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "dynftrace 0" in done.stdout


def test_arches_lists_every_architecture(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = here(capsys, "arches")
    assert (status, err) == (0, "")
    blocks = out.strip().split("\n\n")
    assert [block.split()[0] for block in blocks] == list(arches.names())
    status, out, err = here(capsys, "compare", "--markdown")
    assert (status, err) == (0, "")
    for name in arches.built_in():
        assert sum(line.startswith(f"| `{name}` |") for line in out.splitlines()) == 3
    assert here(capsys, "compare", "--markdown", "nothing")[::2] == (
        2,
        "dynftrace: no kernel has a call site in a function 'nothing'\n",
    )


def test_sh_does_not_load_the_console() -> None:
    program = (
        "import sys; from dynftrace.tui.cli import run\n"
        "run(['sh', '-c', 'cat current_tracer'])\n"
        "print('textual' in sys.modules)"
    )
    root = Path(cli.__file__).parents[2]
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(root.parent), str(root.parent / ".pkg")])
    }
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
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
def test_failures_have_a_status_and_an_error(
    capsys: pytest.CaptureFixture[str], commands: str, status: int, error: str
) -> None:
    assert here(capsys, "sh", "-c", commands)[0::2] == (status, error)


def test_a_script_and_stdin_are_executed_line_by_line(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("# a script\ncat current_tracer\necho 'a\nb'\n")
    done = run("sh", str(script))
    assert (done.returncode, done.stdout, done.stderr) == (0, "nop\na\nb\n", "")
    done = run("sh", stdin="cat current_tracer\ncat nothing\n")
    assert (done.returncode, done.stdout) == (1, "nop\n")
    done = run("sh", stdin="echo 'a\n")
    assert (done.returncode, done.stdout) == (2, "")


def test_sites_are_printed_in_three_forms(capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = here(capsys, "sites")
    _, as_json, _ = here(capsys, "sites", "--json")
    _, as_csv, _ = here(capsys, "sites", "--csv")
    rows = json.loads(as_json)
    assert rows == [row | {"module": row["module"] or None} for row in _csv_rows(as_csv)]
    assert len(text.splitlines()) == len(rows) + 1
    (site,) = [row for row in rows if row["name"] == "schedule"]
    assert site["now"] == "0f1f440000" and site["compiled"].startswith("e8")
    assert site["state"] == "nop"
    assert int(site["address"], 16) >= 0xFFFFFFFF81000000


def _csv_rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def broken(name: str) -> Callable[[bytes], bytes]:
    """Return a function that damages an ELF file."""

    def put(offset: int, data: bytes) -> Callable[[bytes], bytes]:
        return lambda raw: raw[:offset] + data + raw[offset + len(data) :]

    return {
        "empty": lambda raw: b"",
        "not ELF": lambda raw: b"#!/bin/sh\n" * 30,
        "truncated header": lambda raw: raw[:40],
        "truncated": lambda raw: raw[: len(raw) // 2],
        "another machine": put(18, struct.pack("<H", 20)),
        "another word size": put(4, b"\1"),
        "another byte order": put(5, b"\2"),
        "program headers outside": put(32, struct.pack("<Q", 1 << 40)),
        "section headers outside": put(40, struct.pack("<Q", 1 << 40)),
        "a million sections": put(60, b"\xff\xff"),
    }[name]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        ("empty", "empty"),
        ("not ELF", "ELF"),
        ("truncated header", "ELF"),
        ("truncated", "file ends at"),
        ("another machine", "EM_"),
        ("another word size", "32"),
        ("another byte order", "big"),
        ("program headers outside", "file ends at"),
        ("section headers outside", "file ends at"),
        ("a million sections", "file ends at"),
    ],
)
@pytest.mark.parametrize("option", ["--kernel", "--module"])
def test_a_damaged_file_is_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, option: str, spoil: str, words: str
) -> None:
    if (option, spoil) == ("--module", "program headers outside"):
        return  # a module has no program headers
    good = KERNEL if option == "--kernel" else IMAGES / "usbcore.ko"
    path = tmp_path / "broken.ko"
    path.write_bytes(broken(spoil)(good.read_bytes()))
    status, out, err = here(capsys, "sh", option, str(path), "-c", "cat current_tracer")
    assert (status, out) == (1, "")
    assert err.startswith(f"dynftrace: {path}: ") and err.count("\n") == 1
    assert words in err


def test_missing_and_special_files_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    gone = str(tmp_path / "gone.elf")
    assert here(capsys, "sites", "--kernel", gone) == (
        1,
        "",
        f"dynftrace: {gone}: No such file or directory\n",
    )
    status, _, err = here(capsys, "sites", "--kernel", str(tmp_path))
    assert status == 1 and err.startswith(f"dynftrace: {tmp_path}: ")
    status, _, err = here(capsys, "sites", "--module", "nosuchmodule")
    assert status == 1 and "nosuchmodule" in err


def test_a_module_and_a_kernel_cannot_be_swapped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = str(IMAGES / "usbcore.ko")
    status, _, err = here(capsys, "sites", "--kernel", module)
    assert status == 1 and "relocatable" in err
    status, _, err = here(capsys, "sites", "--module", str(KERNEL))
    assert status == 1 and "not a module" in err


def test_sites_can_be_printed_after_commands(capsys: pytest.CaptureFixture[str]) -> None:
    machine = ("sites", "--kernel", "x86_64-2008")
    assert here(capsys, *machine) == (0, "ADDRESS  NAME  MODULE  COMPILED  NOW  STATE\n", "")
    status, out, err = here(capsys, *machine, "-c", "cat nothing; run syscalls\nsleep 1")
    assert status == 0 and len(out.splitlines()) == 171
    assert err == "cat: nothing: No such file or directory\n"
    assert here(capsys, *machine, "-c", "a |")[0] == 2


def test_a_kernel_without_call_sites_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = here(capsys, "sites", "--kernel", str(IMAGES / "vmlinux-plain.elf"))
    assert status == 1 and "no call sites" in err


def test_a_module_for_another_kernel_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    raw = (IMAGES / "usbcore.ko").read_bytes()
    path = tmp_path / "usbcore.ko"
    path.write_bytes(raw.replace(b"vermagic=6.1", b"vermagic=5.9"))
    status, _, err = here(capsys, "sites", "--module", str(path))
    assert status == 1 and "version magic" in err and err.count("\n") == 1


def test_an_unsupported_discovery_is_one_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, _, err = here(capsys, "sh", "--discovery", "ftraced", "-c", "ls")
    assert status == 2 and "x86_64" in err and "found by: table" in err and err.count("\n") == 1
    status, out, _ = here(
        *(capsys, "sh", "--kernel", "x86_64-2008", "--discovery", "ftraced"),
        *("-c", "cat dyn_ftrace_total_info"),
    )
    assert (status, out) == (0, "0\n")


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


def test_two_screenshots_are_identical(tmp_path: Path) -> None:
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


def test_a_closed_output_pipe_is_not_an_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m dynftrace sh -c 'cat README; cat README' | head -1",
        shell=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[2].parent / ".pkg")},
    )
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_ctrl_c_ends_a_script() -> None:
    process = subprocess.Popen(
        [*COMMAND, "sh", "-c", "echo ready; run syscalls 100000000; echo more"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[2].parent / ".pkg")},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "more" not in out and "Traceback" not in err


def test_an_output_file_is_replaced_atomically(tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"
    path.write_text("old")
    whole_file.write_whole(path, "new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(cli.DynftraceError, match="No such file"):
        whole_file.write_whole(tmp_path / "gone" / "picture.svg", "new")


def test_the_prompt_edits_completes_and_remembers_lines(tmp_path: Path) -> None:
    """Line editing, completion, a command over two lines, ctrl+c, the history."""
    import pty
    import select

    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm", XDG_STATE_HOME=str(tmp_path))
        os.environ["PYTHONPATH"] = str(Path(cli.__file__).parents[2].parent / ".pkg")
        os.execv(sys.executable, [*COMMAND, "sh"])
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


def test_port_check_reports_each_port_and_fails_if_one_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dynftrace.core import portcheck

    few = tuple(check for check in portcheck.CHECKS if check.name in ("facts", "make_nop"))
    monkeypatch.setattr(portcheck, "CHECKS", few)
    status, out, err = here(capsys, "port", "check", "x86_64", "i386")
    assert (status, err) == (0, "")
    first, second = out.split("\n\n")
    assert first.splitlines()[0] == "x86_64" and second.splitlines()[0] == "i386"
    assert "    passed        make_nop: a call becomes a nop again" in first
    assert second.endswith("  2 passed, 0 failed, 0 not provided\n")
    status, out, _ = here(capsys, "port", "check", "--json", "ppc32")
    assert status == 0
    assert [(row["port"], row["outcome"]) for row in json.loads(out)] == [("ppc32", "passed")] * 2

    def fails(subject: object) -> None:
        raise portcheck.check.Failure("not the nop", 0x1000, b"\x01", b"\x02")

    broken = portcheck.Check("make_nop", few[1].heading, "a call becomes a nop again", fails)
    monkeypatch.setattr(portcheck, "CHECKS", (few[0], broken))
    status, out, err = here(capsys, "port", "check", "x86_64")
    assert (status, err) == (1, "")
    assert "at 1000: not the nop\n                  expected 01\n" in out


def test_port_check_needs_names_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ((), ("--all", "mips")):
        status, out, err = here(capsys, "port", "check", *arguments)
        assert (status, out) == (2, "") and "--all" in err
    status, out, err = here(capsys, "port", "check", "vax")
    assert (status, out) == (2, "") and "unknown architecture 'vax'" in err
