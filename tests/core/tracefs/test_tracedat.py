"""trace.dat: trace-cmd finds in it the events that are in the buffers."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from ctypes.util import find_library
from pathlib import Path

import pytest

from dynftrace.core.abi import TraceType
from dynftrace.core.errors import DynftraceError
from dynftrace.core.trace.file.recording import Recording
from dynftrace.core.tracefs.tracedat import recorded

from ...support.user import executor, opened

TRACE_CMD = shutil.which("trace-cmd") or ""

TRACED = """echo schedule vfs_read > set_ftrace_filter
echo 1 > events/syscalls/enable
echo function > current_tracer
run syscalls
echo mark > trace_marker
echo 0 > tracing_on"""

EVENT = re.compile(r" *.+-(\d+) +\[(\d+)\] +(\d+)\.(\d+): (\w+):? *(.*)")


def read_by_trace_cmd(path: Path, *options: str) -> list[tuple[str, ...]]:
    command = [TRACE_CMD, "report", "-t", *options, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    first, *rows = done.stdout.splitlines()
    assert first == "cpus=2"
    found = [EVENT.fullmatch(row) for row in rows]
    return [match.groups() for match in found if match is not None]


@pytest.mark.skipif(not TRACE_CMD, reason="needs trace-cmd")
@pytest.mark.parametrize(("arch", "version"), [("x86_64", 6), ("x86_64", 7), ("mips", 7)])
def test_trace_cmd_reads_every_event(arch: str, version: int, tmp_path: Path) -> None:
    session = opened(arch)
    executor(session)(TRACED)
    array, path = session.boot.array, tmp_path / "trace.dat"
    array.ring.consume(0, limit=7)
    path.write_bytes(recorded(array, version))
    names = {TraceType.FN: "function", TraceType.PRINT: "print"}
    names |= {event.number: event.name for event in array.events}
    ring = array.ring
    expected = [
        (int(row["pid"]), cpu, int(row["ts"]), names[int(row["type"])])
        for cpu in ring.cpus
        for part in ring.decode(ring.pages(cpu), ring.head(cpu)[1])
        for row in part.events
    ]
    found = read_by_trace_cmd(path, "-R")
    assert len(found) > 50
    assert sorted(expected) == sorted(
        (int(pid), int(cpu), int(s) * 10**9 + int(ns), name) for pid, cpu, s, ns, name, _ in found
    )
    table = ring.events()
    called = table.ips()[table.events["type"] == TraceType.FN]
    shown = {fields.split()[0] for *_, name, fields in found if name == "function"}
    assert shown == {f"ip={name}" for name in array.kallsyms.names_of(called)}


@pytest.mark.parametrize("arch", ["x86_64", "mips"])
def test_a_latency_tracer_leaves_the_longest_section(arch: str, tmp_path: Path) -> None:
    session = opened(arch)
    executor(session)("echo irqsoff > current_tracer; run syscalls")
    path = tmp_path / "trace.dat"
    path.write_bytes(recorded(session.boot.array))
    kept, found = session.boot.array.text().table, Recording(path).table
    assert 0 < len(kept) < session.boot.array.ring.in_buffer()
    for column in ("ts", "pid", "cpu", "type"):
        assert kept.events[column].tolist() == found.events[column].tolist()


def test_a_file_without_events_is_refused() -> None:
    with pytest.raises(DynftraceError, match=r"^nothing was traced: "):
        recorded(opened().boot.array)


SHARK = """import ctypes, sys
shark, context, rows = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p(), ctypes.c_void_p()
shark.kshark_open.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
shark.kshark_load_entries.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
shark.kshark_load_entries.restype = ctypes.c_ssize_t
shark.kshark_instance(ctypes.byref(context))
stream = shark.kshark_open(context, sys.argv[2].encode())
print(shark.kshark_load_entries(context, stream, ctypes.byref(rows)))"""
"""A program that asks KernelShark's library for the number of events in a file."""


@pytest.mark.parametrize("version", [6, 7])
def test_kernelshark_loads_every_event(version: int, tmp_path: Path) -> None:
    library = find_library("kshark") or "libkshark.so.2"
    try:
        ctypes.CDLL(library)
    except OSError:
        pytest.skip("needs KernelShark's library (Debian: libkshark2)")
    session = opened()
    executor(session)("echo function_graph > current_tracer; run syscalls; echo 0 > tracing_on")
    path = tmp_path / "trace.dat"
    path.write_bytes(recorded(session.boot.array, version))
    command = [sys.executable, "-c", SHARK, library, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) == len(session.boot.ring.events()) > 1000


@pytest.mark.parametrize("arch", ["x86_64", "mips"])
def test_a_raw_pipe_hands_out_the_same_pages(arch: str) -> None:
    session = opened(arch)
    sh = executor(session)
    sh("echo function > current_tracer; run syscalls; echo 0 > tracing_on")
    session.boot.array.ring.consume(1, limit=7)
    whole, read = recorded(session.boot.array), b""
    with session.boot.tracefs.open("per_cpu/cpu1/trace_pipe_raw") as pipe:
        while page := pipe.read().encode("utf-8", "surrogateescape"):
            assert len(page) == 4096
            read += page
    assert len(read) > 8192
    assert whole.endswith(read)
    assert sh("cat per_cpu/cpu1/trace") == sh("cat per_cpu/cpu1/trace | grep '^#'")


def test_lost_events_are_reported_in_the_next_page() -> None:
    session = opened()
    sh = executor(session)
    sh("echo 8 > buffer_size_kb; echo function > current_tracer; run syscalls")
    lost = session.boot.array.ring.overrun(0)
    page = sh("cat per_cpu/cpu0/trace_pipe_raw").encode("utf-8", "surrogateescape")
    commit = int.from_bytes(page[8:16], "little")
    assert commit >> 30 & 3 == 3
    end = 16 + (commit & 0xFFFFF)
    assert int.from_bytes(page[end : end + 8], "little") == lost > 0


def test_the_layouts_are_those_of_the_pages() -> None:
    session = opened()
    tree = session.boot.tracefs
    assert "\tfield:unsigned long parent_ip;\toffset:16;\tsize:8;\tsigned:0;\n" in tree.read(
        "events/ftrace/function/format"
    )
    assert tree.read("events/ftrace/function/id") == "1\n"
    assert tree.listdir("events/ftrace/wakeup") == ["format", "hist"]
    assert "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n" in tree.read(
        "events/header_page"
    )
