"""trace, trace_pipe, trace_marker, trace_clock, saved_cmdlines."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable

import pytest

from dynftrace.core.abi import TraceType
from dynftrace.core.errors import TracefsError
from dynftrace.core.session.session import Session

from ...support.user import at_once, opened

Sh = Callable[[str], str]

LINE = re.compile(
    r"(?P<comm>.{16})-(?P<pid>\d{1,7}) +\[(?P<cpu>\d{3})\] "
    r"(?P<flags>[Ddb.][BNLbnpl.][ZzHhs.][0-9a-f.][0-9a-f.]) "
    r"(?P<ts> *\d+\.\d{6}): (?P<what>.*)"
)


def events(text: str) -> list[re.Match[str]]:
    found = [LINE.fullmatch(line) for line in text.splitlines() if not line.startswith("#")]
    assert all(found)
    return [match for match in found if match]


def test_lines_have_the_kernels_format_and_ascending_times(sh: Sh) -> None:
    sh("echo '*sched*' > set_ftrace_filter; echo function > current_tracer; run boot")
    found = events(sh("cat trace"))
    assert len(found) > 20
    times = [float(match["ts"]) for match in found]
    assert times == sorted(times)
    assert {match["cpu"] for match in found} == {"000", "001"}
    assert all(re.fullmatch(r"\w*sched\w* <-\w+", match["what"]) for match in found)


def test_reading_keeps_the_events_and_clearing_removes_them(sh: Sh) -> None:
    sh("echo schedule > set_ftrace_filter; echo function > current_tracer; run boot")
    text = sh("cat trace")
    assert events(text) and sh("cat trace") == text
    assert sh("echo >> trace; cat trace") == text
    assert events(sh("echo > trace; cat trace")) == []
    assert events(sh("run boot; > trace; cat trace")) == []


def test_the_pipe_consumes_each_event_once(sh: Sh) -> None:
    sh("echo schedule > set_ftrace_filter; echo function > current_tracer; run boot")
    sh("echo 0 > tracing_on")
    shown = [match[0] for match in events(sh("cat trace"))]
    assert sh("cat trace_pipe").splitlines() == shown
    assert sh("cat trace_pipe") == ""
    assert events(sh("cat trace")) == []


def test_each_cpu_has_its_own_files(sh: Sh) -> None:
    sh("echo schedule > set_ftrace_filter; echo function > current_tracer; run syscalls")
    sh("echo 0 > tracing_on")
    both = [match[0] for match in events(sh("cat trace"))]
    one = events(sh("cat per_cpu/cpu1/trace"))
    assert one and all(match["cpu"] == "001" for match in one)
    assert [match[0] for match in one] == [line for line in both if "[001]" in line]
    assert sh("cat per_cpu/cpu1/trace_pipe").splitlines() == [match[0] for match in one]
    assert events(sh("cat per_cpu/cpu0/trace"))
    assert events(sh("> per_cpu/cpu0/trace; cat per_cpu/cpu0/trace")) == []


def test_a_marker_is_an_event_of_the_guest(session: Session, sh: Sh) -> None:
    sh("echo 'hello  world' > trace_marker; echo -n again > trace_marker")
    found = events(sh("cat trace"))
    assert [match["what"] for match in found] == [
        "tracing_mark_write: hello  world",
        "tracing_mark_write: again",
    ]
    assert found[0]["comm"].strip() == "<...>"  # no tracer is on


def test_a_long_marker_is_several_events(sh: Sh) -> None:
    sh(f"echo {'x' * 1500} > trace_marker")
    texts = [
        match["what"].removeprefix("tracing_mark_write: ") for match in events(sh("cat trace"))
    ]
    assert texts == ["x" * 1024, "x" * 476]


def test_invalid_markers_are_refused(session: Session, sh: Sh) -> None:
    sh("echo 0 > tracing_on")
    for expected in (errno.EBADF, errno.EINVAL):
        with pytest.raises(TracefsError) as caught:
            session.boot.tracefs.write("trace_marker", "x\n")
        assert caught.value.errno == expected
        sh("echo 1 > tracing_on; echo nomarkers > trace_options")
    with pytest.raises(TracefsError) as caught:
        session.boot.tracefs.read("trace_marker")
    assert caught.value.errno == errno.EINVAL


def test_the_counter_numbers_events(session: Session, sh: Sh) -> None:
    at_once(session)
    assert sh("cat trace_clock") == "[local] global counter uptime perf mono mono_raw boot tai\n"
    sh("echo x > trace_marker; echo counter > trace_clock")
    assert sh("cat trace_clock") == "local global [counter] uptime perf mono mono_raw boot tai\n"
    sh("echo schedule > set_ftrace_filter; echo function > current_tracer; run boot")
    lines = [line for line in sh("cat trace").splitlines() if not line.startswith("#")]
    numbers = [int(line.split(":")[0].split()[-1]) for line in lines]
    assert numbers == list(range(1, len(lines) + 1)) and len(lines) >= 5
    assert f"now ts: {len(lines)}\n" in sh("cat per_cpu/cpu0/stats")
    with pytest.raises(TracefsError):
        session.boot.tracefs.write("trace_clock", "sundial")
    sh("echo local > trace_clock; run boot")
    assert events(sh("cat trace"))


def test_saved_cmdlines_lists_only_tasks_that_were_traced(sh: Sh) -> None:
    sh("run syscalls; echo x > trace_marker")
    assert sh("cat saved_cmdlines") == "" and "<...>-" in sh("cat trace")
    sh("echo sys_enter_open > set_event; run syscalls")
    listed = sh("cat saved_cmdlines")
    assert " syscalls\n" in listed
    sh("echo > set_event; run locks; echo x > trace_marker")
    assert sh("cat saved_cmdlines") == listed


def test_saved_cmdlines_name_the_tasks_of_the_trace(sh: Sh) -> None:
    sh("echo schedule > set_ftrace_filter; echo function > current_tracer; run syscalls")
    names = dict(line.split(" ", 1) for line in sh("cat saved_cmdlines").splitlines())
    for match in events(sh("cat trace")):
        assert match["comm"].strip() == names[match["pid"]]


def stamps(text: str) -> list[int]:
    """Return the time stamps of a trace in microseconds, or as they are if they are no times."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [int(line.split(": ")[0].split()[-1].replace(".", "")) for line in lines]


def test_the_global_clock_never_goes_back(session: Session, sh: Sh) -> None:
    sh("echo global > trace_clock; echo schedule > set_ftrace_filter")
    sh("echo function > current_tracer")
    for _ in range(8):
        sh("run locks")
        before = session.boot.ring.events().events
        latest = int(before["ts"].max())
        sh("echo x > trace_marker")
        events = session.boot.ring.events().events
        mark = events[events["type"] == TraceType.PRINT][-1]
        assert mark["ts"] >= latest and {*before["cpu"].tolist()} == {0, 1}


def test_the_uptime_counts_hundredths_of_a_second(session: Session, sh: Sh) -> None:
    jiffies = session.boot.kallsyms.address("jiffies")
    assert jiffies is not None
    sh("echo uptime > trace_clock; echo schedule > set_ftrace_filter")
    first = session.boot.machine.memory.read_int(jiffies) // 10
    sh("echo function > current_tracer; sleep 0.05; run locks")
    last = session.boot.machine.memory.read_int(jiffies) // 10
    found = stamps(sh("cat trace"))
    assert found == sorted(found) and {*found} <= {*range(first, last + 1)} and last - first >= 4
    assert len({*found}) >= 3
    assert f"now ts: {last}\n" in sh("cat per_cpu/cpu1/stats")


@pytest.mark.parametrize("clock", ["perf", "mono", "mono_raw", "boot", "tai"])
def test_clocks_of_the_same_time_stamp_alike(sh: Sh, clock: str) -> None:
    sh(f"echo {clock} > trace_clock; echo x > trace_marker")
    assert f"[{clock}]" in sh("cat trace_clock")
    (stamp,) = stamps(sh("cat trace"))
    now = float(re.search(r"now ts: +([\d.]+)", sh("cat per_cpu/cpu0/stats"))[1])  # type: ignore[index]
    assert 0 <= now * 1e6 - stamp < 1e6


def test_the_table_of_names_has_the_requested_size(session: Session, sh: Sh) -> None:
    assert sh("cat saved_cmdlines_size saved_cmdlines saved_tgids printk_formats") == "128\n"
    sh("echo function > current_tracer; run syscalls")
    many = sh("cat saved_cmdlines").splitlines()
    sh("echo 2 > saved_cmdlines_size; run syscalls")
    few = sh("cat saved_cmdlines").splitlines()
    assert 0 < len(few) <= 2 < len(many) and {*few} <= {*many, *few}
    sh("echo 32768 > saved_cmdlines_size; run syscalls")
    assert len(sh("cat saved_cmdlines").splitlines()) > 2
    assert sh("cat saved_cmdlines_size") == "32768\n"
    for size in ("0", "32769"):
        with pytest.raises(TracefsError) as caught:
            session.boot.tracefs.write("saved_cmdlines_size", size)
        assert caught.value.errno == errno.EINVAL


def test_names_and_thread_groups_are_recorded_by_options(sh: Sh) -> None:
    sh("echo 0 > options/record-cmd; echo 1 > options/record-tgid")
    sh("echo 1 > events/enable; run syscalls")
    assert sh("cat saved_cmdlines") == ""
    pairs = [line.split() for line in sh("cat saved_tgids").splitlines()]
    assert len(pairs) > 1 and all(pid == tgid for pid, tgid in pairs)
    shown = {*re.findall(r" +<\.\.\.>-(\d+) +\( *(\d+)\) \[", sh("cat trace"))}
    assert shown and shown <= {(pid, tgid) for pid, tgid in pairs}
    sh("echo 1 > options/record-cmd; echo 0 > options/record-tgid; run syscalls")
    assert "syscalls" in sh("cat saved_cmdlines") and "(" not in sh("tail -1 trace")[:40]


def test_without_trace_printk_the_kernel_writes_no_messages(sh: Sh) -> None:
    text = "SNAPSHOT NOT ALLOCATED"
    sh("echo 1 > snapshot; echo 'vfs_read:snapshot:1' > set_ftrace_filter; echo 0 > snapshot")
    sh("echo notrace_printk > trace_options; run syscalls")
    assert text not in sh("cat trace; cat tracing_on")
    sh("echo '!vfs_read:snapshot:0' > set_ftrace_filter; echo 1 > tracing_on")
    sh("echo trace_printk > trace_options; echo 'vfs_read:snapshot:1' > set_ftrace_filter")
    sh("echo 0 > snapshot; run syscalls")
    assert text in sh("cat trace")


@pytest.mark.parametrize("arch", ["x86_64", "ppc64"])
def test_bytes_become_an_event_with_a_number(arch: str) -> None:
    session = opened(arch)
    tracefs = session.boot.tracefs
    data = (0x1234).to_bytes(4, session.port.facts.byteorder) + bytes([0, 1, 0xFE, 0xFF, 7])
    text = data.decode("utf-8", "surrogateescape")
    tracefs.mkdir("instances/x")
    for place in ("", "instances/x/"):
        tracefs.write(f"{place}trace_marker_raw", text, append=True)
        last = tracefs.read(f"{place}trace").splitlines()[-1]
        # The event is padded to whole words.
        assert last.endswith(": # 1234 buf: 00 01 fe ff 07 00 00 00")
    tracefs.write("options/raw", "1")
    assert tracefs.read("trace").splitlines()[-1].endswith("# 1234 buf: 00 01 fe ff 07 00 00 00")
    for wrong in ("abc", "x" * 3073):
        with pytest.raises(TracefsError) as caught:
            tracefs.write("trace_marker_raw", wrong)
        assert caught.value.errno == errno.EINVAL
    tracefs.write("tracing_on", "0")
    with pytest.raises(TracefsError) as caught:
        tracefs.write("trace_marker_raw", text)
    assert caught.value.errno == errno.EBADF
