"""trace_printk() of a module: its events, its formats, and the file printk_formats."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dynftrace.core.trace.file.recording import Recording
from dynftrace.core.tracefs.tracedat import recorded

from ...support.ports import FAMILIES
from ...support.user import executor, opened

MESSAGES = [
    "This is a static string that will use trace_bputs",
    "This is a dynamic string that will use trace_puts",
    "This is a static string that will use trace_bprintk",
    "This is a dynamic string that will use trace_printk",
]


def messages(trace: str) -> list[str]:
    """Return what follows the functions' names in a trace, without those of interrupts first."""
    rows = [line.split(": ", 2) for line in trace.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"\.?trace_printk_(init|irq_work)", row[1]) for row in rows), rows
    own = [row[2] for row in rows if "irq" not in row[1]]
    return own + [row[2] for row in rows if "irq" in row[1]]


@pytest.mark.parametrize("arch", FAMILIES)
def test_a_module_writes_its_messages_in_a_task_and_in_an_interrupt(arch: str) -> None:
    run = executor(opened(arch))
    run("modprobe trace-printk; run syscalls")
    assert messages(run("cat trace")) == [*MESSAGES, *(f"(irq) {each}" for each in MESSAGES)]
    handled = [line for line in run("cat trace").splitlines() if "(irq)" in line]
    assert all(re.search(r"\] d.h", line) for line in handled)


def test_formats_stay_when_their_module_is_gone() -> None:
    run = executor(opened())
    assert run("cat printk_formats") == ""
    run("modprobe trace-printk; run syscalls; rmmod trace_printk")
    formats = run("cat printk_formats")
    lines = formats.splitlines()
    assert len(lines) == 4  # only those that are constant
    assert re.fullmatch(r'0xf\w{15} : "This is a %s that will use trace_bprintk\\n"', lines[0])
    assert all(each in run("cat trace") for each in MESSAGES)
    run("modprobe trace-printk")
    assert run("cat printk_formats") == formats  # equal texts have one copy
    assert run("dmesg | grep -c 'trace_printk() being used'") == "1\n"


def test_the_options_of_trace_printk() -> None:
    run = executor(opened())
    run("echo notrace_printk > trace_options; modprobe trace-printk; rmmod trace_printk")
    assert "trace_bputs" not in run("cat trace")
    run("echo trace_printk > trace_options; echo 1 > options/printk-msg-only")
    run("modprobe trace-printk")
    assert run("grep -v '^#' trace").splitlines()[:4] == MESSAGES
    run("rmmod trace_printk; echo > trace; echo 1 > options/stacktrace; modprobe trace-printk")
    rows = [line.strip() for line in run("grep -v '^#' trace").splitlines()]
    assert rows[0] == MESSAGES[0] and rows[1].endswith(": <stack trace>")
    assert rows[2] == "=> trace_printk_init"


def test_a_recorded_file_has_the_formats(tmp_path: Path) -> None:
    session, path = opened(), tmp_path / "trace.dat"
    executor(session)("modprobe trace-printk")
    path.write_bytes(recorded(session.boot.array))
    text = "".join(Recording(path).text().file())
    assert all(each in text for each in MESSAGES)


def test_the_graph_tracer_shows_the_messages_alone() -> None:
    run = executor(opened())
    run("echo schedule > set_graph_function; echo function_graph > current_tracer")
    run("modprobe trace-printk")
    shown = run("grep -o '/[*] This.* [*]/' trace").splitlines()
    assert shown == [f"/* {each} */" for each in MESSAGES]
