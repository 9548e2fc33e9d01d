"""A mounted machine, used by programs that know nothing of it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

SH = shutil.which("sh") or ""


def missing() -> str:
    """Return what a mount needs and this host lacks, or ""."""
    if find_spec("mfusepy") is None:
        return "needs the package mfusepy"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "needs /dev/fuse"
    return "" if shutil.which("fusermount3") else "needs fuse3"


needs_fuse = pytest.mark.skipif(bool(missing()), reason=missing() or "has FUSE")


def start(directory: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "dynftrace", "mount", *options, str(directory)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    said = process.stdout.readline()
    assert said == f"tracefs is mounted on {directory} until ctrl+c.\n"
    return process


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A mounted machine whose time passes only by commands."""
    directory = tmp_path_factory.mktemp("tracing")
    process = start(directory, "--clock", "ctl")
    try:
        yield directory
    finally:
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=20)
        assert (process.returncode, said) == (0, ("", None))
        assert not os.path.ismount(directory)


def sh(directory: Path, script: str) -> str:
    """Return what the host's shell writes; its errors too."""
    done = subprocess.run(
        [SH, "-c", script], cwd=directory, capture_output=True, text=True, timeout=60
    )
    return done.stdout + re.sub(r"^.*?: \d+: ", "", done.stderr, flags=re.MULTILINE)


@needs_fuse
def test_programs_use_the_files(mounted: Path) -> None:
    assert sh(mounted, "cat current_tracer proc/sys/kernel/stack_tracer_enabled") == "nop\n0\n"
    traced = sh(
        mounted,
        """echo schedule > set_ftrace_filter; echo vfs_read >> set_ftrace_filter
        cat set_ftrace_filter; echo function > current_tracer
        echo 'run syscalls' > ctl; echo 0 > tracing_on
        sed 's/.*: //' trace | grep '<-' | sort -u; cat trace_pipe | grep -c vfs_read""",
    )
    assert traced.startswith("schedule\nvfs_read\nschedule <-")
    assert "\nvfs_read <-ksys_read\n" in traced
    assert re.search(r"\n[1-9]\d*\n$", traced)
    assert (
        sh(mounted, "echo 1 > tracing_on; echo nop > current_tracer; cat current_tracer") == "nop\n"
    )


@needs_fuse
def test_splice_moves_the_pages_of_a_buffer(mounted: Path) -> None:
    sh(
        mounted,
        "echo > set_ftrace_filter; echo function > current_tracer; echo 'run syscalls' > ctl",
    )
    path = mounted / "per_cpu/cpu0/trace_pipe_raw"
    code = f"""import os
raw = os.open({str(path)!r}, os.O_RDONLY)
read, write = os.pipe()
moved = b""
try:
    while count := os.splice(raw, write, 65536):
        moved += os.read(read, count)
except BlockingIOError:
    pages = [moved[at : at + 4096] for at in range(0, len(moved), 4096)]
    print(len(moved) % 4096, len(pages) > 1, len(set(pages)) == len(pages))"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    sh(mounted, "echo nop > current_tracer; echo > trace")
    assert (done.stdout, done.stderr) == ("0 True True\n", "")


@needs_fuse
def test_errors_are_those_of_tracefs(mounted: Path) -> None:
    denied = sh(
        mounted,
        """echo bad > current_tracer; cat trace_marker
        mkdir x; rm trace; echo 1 > nosuch; cat nosuch""",
    )
    for part in (
        "Invalid argument",
        "cat: trace_marker: Invalid argument",
        "mkdir: cannot create directory 'x': Operation not permitted",
        "rm: cannot remove 'trace': Operation not permitted",
        "Permission denied",
        "cat: nosuch: No such file or directory",
    ):
        assert part in denied.replace("‘", "'").replace("’", "'")


@needs_fuse
def test_a_listing_tells_directories_from_files(mounted: Path) -> None:
    kinds = {each.name: each.is_dir() for each in os.scandir(mounted)}
    assert kinds["trace"] is kinds["ctl"] is False
    assert kinds["events"] is kinds["proc"] is kinds["options"] is True


@needs_fuse
def test_nothing_is_recorded_while_a_client_reads_trace(mounted: Path) -> None:
    script = """echo 1 > options/pause-on-trace
        exec 3< trace; (echo one > trace_marker) 2>&-; exec 3<&-
        echo two > trace_marker; grep -o 'write: .*' trace; echo 0 > options/pause-on-trace"""
    assert sh(mounted, script).endswith("write: two\n")


@needs_fuse
def test_a_word_split_by_another_process_stays_one_word(mounted: Path) -> None:
    script = "(printf sche; sh -c 'true'; printf 'dule\\n') > set_ftrace_filter"
    assert sh(mounted, f"{script}; cat set_ftrace_filter; : > set_ftrace_filter") == "schedule\n"


@needs_fuse
def test_an_instance_is_removed_once_its_files_are_closed(mounted: Path) -> None:
    busy = sh(mounted, "mkdir instances/x; exec 3< instances/x/trace_pipe; rmdir instances/x")
    assert busy.endswith("Device or resource busy\n")
    script = """for n in 1 2 3 4 5 6 7 8; do mkdir instances/y; echo $n > instances/y/trace_marker
        cat instances/y/trace | grep -c 'write: '$n; rmdir instances/y; done"""
    assert sh(mounted, f"rmdir instances/x; {script}; ls instances") == "1\n" * 8
    written = "printf 'a\\nb\\n' >> instances/x/error_log; dd bs=3 if=instances/x/error_log"
    assert sh(mounted, f"mkdir instances/x; {written} 2>&-; rmdir instances/x") == ""


@needs_fuse
def test_a_waiting_reader_can_be_killed_or_served(mounted: Path) -> None:
    reader = subprocess.Popen(["cat", mounted / "trace_pipe"], stdout=subprocess.PIPE, text=True)
    time.sleep(0.2)
    reader.kill()
    assert reader.wait(5) == -signal.SIGKILL
    reader = subprocess.Popen(
        ["head", "-1", mounted / "trace_pipe"], stdout=subprocess.PIPE, text=True
    )
    sh(mounted, "echo hello > trace_marker")
    assert reader.communicate(timeout=5)[0].endswith("tracing_mark_write: hello\n")


@needs_fuse
@pytest.mark.parametrize("clock", ["real", "full"])
def test_time_passes_on_its_own(tmp_path: Path, clock: str) -> None:
    process = start(tmp_path, "--clock", clock, "-c", "echo function > current_tracer")
    try:
        pipe = subprocess.Popen(["head", "-20", tmp_path / "trace_pipe"], stdout=subprocess.PIPE)
        assert pipe.communicate(timeout=20)[0].count(b"\n") == 20
        subprocess.run(["umount", tmp_path], check=True)
        assert process.wait(20) == 0
    finally:
        process.kill()


@pytest.mark.parametrize(
    ("prepare", "error"),
    [
        (lambda path: path.rmdir(), "No such file or directory"),
        (lambda path: (path / "file").touch(), "directory not empty"),
    ],
)
def test_a_bad_directory_is_refused_before_the_boot(
    tmp_path: Path, prepare: object, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from dynftrace.core.errors import DynftraceError
    from dynftrace.tui.mount.mount import check_directory

    directory = tmp_path / "dir"
    directory.mkdir()
    assert callable(prepare)
    prepare(directory)
    with pytest.raises(DynftraceError, match=error):
        check_directory(directory)


@needs_fuse
def test_clients_load_modules_of_the_machine(mounted: Path) -> None:
    said = sh(
        mounted,
        """PATH=$PWD/bin:$PATH
        modprobe trace-printk && lsmod | cut -d' ' -f1
        modprobe nosuch || echo refused; modprobe preemptirq_delay_test delay=1 test_mode=preempt
        modprobe -r trace_printk; rmmod preemptirq_delay_test; lsmod; rmmod trace_printk
        echo > trace; ls -l bin | grep -c -- -r.xr.xr.x""",
    )
    assert said == (
        "Module\ntrace_printk\nrefused\nModule                  Size  Used by\n4\n"
        "modprobe: no module 'nosuch': choose from crashy, preemptirq_delay_test, trace-printk, "
        "usbcore, usbhub\n"
        "rmmod: ERROR: Module trace_printk is not currently loaded\n"
    )
