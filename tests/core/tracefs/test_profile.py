"""function_profile_enabled and trace_stat/, used from the shell."""

from __future__ import annotations

import errno
from collections.abc import Callable

import numpy as np
import pytest

from dynftrace import arches
from dynftrace.core import abi
from dynftrace.core.errors import TracefsError
from dynftrace.core.ftrace.entry import GRAPH_CALL
from dynftrace.core.ftrace.profile import REGION
from dynftrace.core.session.session import Session

from ...support.user import executor

Sh = Callable[[str], str]

HEADER = (
    "  Function                               Hit    Time            Avg             s^2\n"
    "  --------                               ---    ----            ---             ---\n"
)


def refused(session: Session, path: str, text: str) -> int:
    with pytest.raises(TracefsError) as caught:
        session.boot.tracefs.write(path, text)
    return caught.value.errno


def functions(sh: Sh, cpu: int = 0) -> list[str]:
    return [line.split()[0] for line in sh(f"cat trace_stat/function{cpu}").splitlines()[2:]]


def test_each_cpu_has_a_file_that_is_empty_at_first(session: Session, sh: Sh) -> None:
    assert session.boot.tracefs.listdir("trace_stat") == ["function0", "function1"]
    assert sh("cat function_profile_enabled trace_stat/function1") == "0\n" + HEADER
    assert refused(session, "trace_stat/function0", "0") == errno.EINVAL


@pytest.mark.parametrize("text", ["", "\n", "on", " 1", "-1", "0x1"])
def test_the_switch_takes_numbers_only(session: Session, text: str) -> None:
    assert refused(session, "function_profile_enabled", text) == errno.EINVAL


def test_switching_off_keeps_counts_and_on_clears_them(sh: Sh) -> None:
    sh("echo 7 > function_profile_enabled")
    assert sh("cat function_profile_enabled") == "1\n"
    assert "sys_open" in sh("run syscalls; cat trace_stat/function*")
    sh("echo 0 > function_profile_enabled; echo 0 > function_profile_enabled")
    kept = sh("cat function_profile_enabled trace_stat/function0 trace_stat/function1")
    assert kept.startswith("0\n") and "sys_open" in kept
    text = "cat function_profile_enabled trace_stat/function0 trace_stat/function1"
    assert sh(f"run syscalls; {text}") == kept
    sh("echo 1 > function_profile_enabled")
    assert sh(text) == "1\n" + 2 * HEADER
    # Already on: nothing is cleared.
    sh("run syscalls; echo 1 > function_profile_enabled")
    assert functions(sh) and functions(sh, 1)


def test_the_graph_tracer_has_one_user_at_a_time(session: Session, sh: Sh) -> None:
    sh("echo 1 > function_profile_enabled; run syscalls")
    assert refused(session, "current_tracer", "function_graph") == errno.EBUSY
    assert sh("cat current_tracer function_profile_enabled") == "nop\n1\n"
    assert "schedule" in functions(sh)
    sh("echo function > current_tracer; echo 0 > function_profile_enabled")
    sh("echo function_graph > current_tracer; run syscalls")
    assert refused(session, "function_profile_enabled", "1") == errno.EBUSY
    assert sh("cat current_tracer function_profile_enabled") == "function_graph\n0\n"
    assert not functions(sh)  # emptied before it was refused
    assert " us |" in sh("run syscalls; cat trace")
    sh("echo 0 > function_profile_enabled; echo nop > current_tracer")
    sh("echo 1 > function_profile_enabled; run syscalls; echo 0 > function_profile_enabled")
    assert "schedule" in functions(sh)


def test_the_function_filter_applies(sh: Sh) -> None:
    sh("echo vfs_* > set_ftrace_filter; echo vfs_read > set_ftrace_notrace")
    sh("echo 1 > function_profile_enabled; run syscalls")
    seen = {*functions(sh), *functions(sh, 1)}
    assert "vfs_write" in seen and all(name.startswith("vfs_") for name in seen)
    assert "vfs_read" not in seen
    sh("echo sys_open > set_ftrace_filter; run syscalls")
    assert {*functions(sh), *functions(sh, 1)} == seen | {"sys_open"}
    # The graph tracer's own options do not.
    sh("echo 0 > function_profile_enabled; echo > set_ftrace_filter")
    sh("echo vfs_open > set_graph_function; echo vfs_write > set_graph_notrace")
    sh("echo 1 > max_graph_depth; echo 0 > options/funcgraph-irqs")
    sh("echo 1 > function_profile_enabled; run syscalls")
    assert {"vfs_write", "sys_open", "do_IRQ", "schedule"} <= {*functions(sh), *functions(sh, 1)}


def put(session: Session, rows: list[tuple[str, int, int, int]]) -> None:
    """Write these rows into the table of CPU 0."""
    table = np.zeros(len(rows), abi.ftrace_profile("little"))
    for number, (name, *counted) in enumerate(rows):
        table[number] = (session.boot.kallsyms.address(name), *counted)
    region = session.boot.machine.memory.region(REGION)
    region.bytes[:] = 0
    session.boot.machine.memory.write(region.address, table.tobytes())


ROWS = [
    ("sys_open", 1, 12_345_678_901, 12_345_678_901**2 % 2**64),
    ("schedule", 3, 6_000, 4_000**2 + 2 * 1_000**2),
    ("schedule_timeout_interruptible", 2, 6_000, 2 * 3_000**2),
    ("vfs_read", 4, 1_500, 4 * 375**2),
]
"""Two functions took the same time; the lower address comes first."""


def test_lines_have_the_kernels_format_and_order(session: Session, sh: Sh) -> None:
    sh("echo 1 > function_profile_enabled; echo 0 > function_profile_enabled")
    put(session, ROWS[::-1])
    tied = [
        "  schedule                                 3    6.000 us        2.000 us        3.000 us",
        "  schedule_timeout_interruptible           2    6.000 us        3.000 us        0.000 us",
    ]
    lines = [
        "  sys_open                                 1    12345678 us     12345678 us     0.000 us",
        *sorted(tied, key=lambda line: session.boot.kallsyms.address(line.split()[0]) or 0),
        "  vfs_read                                 4    1.500 us        0.375 us        0.000 us",
    ]
    # A duration fills its column, including the last one.
    assert sh("cat trace_stat/function0") == HEADER + "".join(f"{line}    \n" for line in lines)
    sh("echo 3 > tracing_thresh")
    assert functions(sh) == ["sys_open", "schedule_timeout_interruptible"]


def test_a_long_name_is_truncated(
    session: Session, sh: Sh, monkeypatch: pytest.MonkeyPatch
) -> None:
    sh("echo 1 > function_profile_enabled; echo 0 > function_profile_enabled")
    put(session, [("vfs_read", 1, 2, 4)])
    monkeypatch.setattr(session.boot.kallsyms, "names_of", lambda ips: ["a" * 29 + "bc"] * len(ips))
    assert f"\n  {'a' * 29}b           1    0.002 us " in sh("cat trace_stat/function0")


def test_a_kernel_without_the_graph_tracer_counts_hits() -> None:
    session = Session.open(arches.load(arches.DEFAULT))  # not shared: its entry code changes
    sh = executor(session)
    entry = session.boot.ftrace.entry
    symbols = {name: at for name, at in entry.symbols.items() if name != GRAPH_CALL}
    object.__setattr__(entry, "symbols", symbols)
    sh("echo vfs_* > set_ftrace_filter; echo 1 > function_profile_enabled; run syscalls")
    sh("echo 0 > function_profile_enabled")
    header, dashes, *lines = sh("cat trace_stat/function0").splitlines()
    assert header == "  Function                               Hit"
    assert dashes == "  --------                               ---"
    assert all(len(line) == 44 for line in lines)
    hits = [int(line.split()[1]) for line in lines]
    assert hits == sorted(hits, reverse=True) and hits[0] > 20
    assert "schedule" in functions(sh)  # its ops has no filter
    assert not session.boot.ftrace.ops


def test_after_a_bug_the_profiler_is_off_and_cannot_be_enabled(session: Session, sh: Sh) -> None:
    sh("poke schedule 9090909090")
    with pytest.raises(Exception, match="ftrace failed to modify"):
        session.boot.tracefs.write("function_profile_enabled", "1")
    assert sh("cat function_profile_enabled") == "0\n"
    assert refused(session, "function_profile_enabled", "1") == errno.ENODEV
    sh("echo 0 > function_profile_enabled")
    sh("reboot; echo 1 > function_profile_enabled; run syscalls")
    assert functions(sh)


def test_the_profiler_can_be_disabled_after_a_bug(session: Session, sh: Sh) -> None:
    sh("echo vfs_read > set_ftrace_filter; echo 1 > function_profile_enabled; run syscalls")
    sh("poke schedule 9090909090; echo 0 > tracing_on")
    with pytest.raises(Exception, match="ftrace failed to modify"):
        session.boot.tracefs.write("set_ftrace_filter", "schedule")
    before = sh("echo 0 > function_profile_enabled; cat trace_stat/function*")
    assert "vfs_read" in before
    assert sh("run syscalls; cat function_profile_enabled trace_stat/function*") == "0\n" + before


def test_a_reboot_clears_the_profile(session: Session, sh: Sh) -> None:
    sh("echo 0 > options/sleep-time; echo 1 > function_profile_enabled; run syscalls; reboot")
    assert sh("cat function_profile_enabled options/sleep-time") == "0\n1\n"
    assert sh("cat trace_stat/function0") == HEADER


def test_unloaded_code_stays_in_the_table(sh: Sh) -> None:
    sh("insmod usbcore; echo 1 > function_profile_enabled; run usb; rmmod usbcore")
    lines = sh("cat trace_stat/function0 trace_stat/function1")
    assert "  0x" in lines and "usb_" not in lines
    sh("insmod usbcore; run usb; echo 0 > function_profile_enabled")
    assert "usb_" in sh("cat trace_stat/function0 trace_stat/function1")
