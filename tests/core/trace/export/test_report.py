"""The export `report`, compared with what trace-cmd prints of the same buffers."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from dynftrace.core.trace.export.formats import exported, format_of
from dynftrace.core.tracefs.tracedat import recorded

from ....support.user import executor, opened

TRACE_CMD = shutil.which("trace-cmd") or ""

FUNCTIONS = """echo function > current_tracer
echo abcdefgh > trace_marker_raw
run syscalls
insmod usbcore
run usb
rmmod usbcore"""

# Of system calls only: trace-cmd 3.1 takes a return of another CPU's idle task, whose pid is 0
# too, for that of a call, and then reads memory that it has freed.
CALLS = """echo 'sys_*' > set_graph_function
echo function_graph > current_tracer
run syscalls
echo mark > trace_marker
echo 0 > tracing_on"""

STACKS = """echo 1 > options/func_stack_trace
echo schedule vfs_read > set_ftrace_filter
echo function > current_tracer
run syscalls"""

COUNTED = """echo counter > trace_clock
echo 8 > buffer_size_kb
echo function > current_tracer
run syscalls"""

ONE_CPU = """echo 1 > tracing_cpumask
echo function_graph > current_tracer
run syscalls"""

TYPES = " ".join(
    f"v{n}=$arg{n % 3 + 1}:{kind}"
    for n, kind in enumerate(("u8", "s8", "x8", "u16", "s16", "s32", "s64", "u64", "x64", "symbol"))
)
EVENTS = f"""echo 'f:hit vfs_write {TYPES}' > dynamic_events
echo 1 > events/fprobes/enable
echo 1 > events/syscalls/enable
run syscalls
echo 'an %s' > trace_marker"""

KERNEL = """echo 'p:probe vfs_read count=$arg3' > kprobe_events
echo 1 > events/enable
insmod usbcore
run syscalls
run timers
run usb
rmmod usbcore"""

WAKEUP = "echo wakeup > current_tracer; run syscalls"


@cache
def version() -> str:
    """Return the version of trace-cmd as two numbers, "" if it is missing."""
    if not TRACE_CMD:
        return ""
    # Its exit status is that of a usage message.
    said = subprocess.run([TRACE_CMD, "--version"], capture_output=True, text=True).stdout
    return ".".join(said.split("version", 1)[-1].split()[0].split(".")[:2])


@pytest.mark.parametrize(
    ("arch", "commands"),
    [
        ("x86_64", FUNCTIONS),
        ("ppc64", CALLS),
        ("i386", STACKS),
        ("x86_64", COUNTED),
        ("mips", ONE_CPU),
        ("i386", EVENTS),
        ("arm64", EVENTS),
        ("x86_64", KERNEL),
        ("i386", KERNEL),
        ("x86_64", WAKEUP),
    ],
    ids=[
        *("functions", "calls", "stacks", "counted", "one-cpu", "events-32", "events-64"),
        *("kernel-64", "kernel-32", "wakeup"),
    ],
)
def test_trace_cmd_prints_the_same(arch: str, commands: str, tmp_path: Path) -> None:
    if version() != "3.1":
        pytest.skip("needs trace-cmd 3.1: later versions print more")
    session = opened(arch)
    executor(session)(commands)
    array, path = session.boot.array, tmp_path / "trace.dat"
    path.write_bytes(recorded(array))
    command = [TRACE_CMD, "report", str(path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    found = "".join(exported(array.text(), "report", path.name))
    assert printed.stderr == "" and len(found.splitlines()) > 40
    assert found == printed.stdout


def test_a_call_that_returns_next_is_one_row() -> None:
    session = opened()
    executor(session)(
        "echo sys_getpid > set_graph_function; echo function_graph > current_tracer; run syscalls"
    )
    text = session.boot.array.text()
    first, *blocks = exported(text, "report", "t")
    assert first == "cpus=2\n" and format_of("t.report.txt") == "report"
    rows = "".join(blocks).splitlines()
    whole = [row for row in rows if row.endswith("();")]
    assert whole and len(rows) == len(text.table) - len(whole)
