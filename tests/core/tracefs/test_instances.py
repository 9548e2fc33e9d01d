"""instances/: trace arrays with buffers, filter, tracer and settings of their own."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable

import pytest

from dynftrace.core.errors import TracefsError
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell
from dynftrace.core.tracefs.instance import Instance

from ...support.user import User, at_once

Sh = Callable[[str], str]


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def called(text: str) -> set[str]:
    """Return the functions in a trace."""
    return {name for row in rows(text) for name in re.findall(r": (\S+) <-", row)}


def regions(session: Session) -> list[tuple[str, int]]:
    return [(region.name, region.size) for region in session.boot.machine.memory.regions]


def refused(session: Session, what: str, *path: str) -> int:
    """Return the errno of `mkdir`, `rmdir` or `write`."""
    with pytest.raises(TracefsError) as caught:
        getattr(session.boot.tracefs, what)(*path)
    return caught.value.errno


@pytest.mark.parametrize("arch", ["x86_64", "ppc64", "mips", "arm64"])
def test_each_traces_what_its_own_filter_says(arch: str) -> None:
    sh = User(arch)
    sh("mkdir instances/a instances/b")
    wanted = {"instances/a/": {"schedule"}, "instances/b/": {"schedule", "vfs_read"}, "": {"*"}}
    for place, names in wanted.items():
        sh(f"echo '{' '.join(names)}' > {place}set_ftrace_filter")
        sh(f"echo function > {place}current_tracer")
    sh("run syscalls; echo 0 | tee tracing_on instances/*/tracing_on")
    for place in ("instances/a/", "instances/b/"):
        found = {name.lstrip(".") for name in called(sh(f"cat {place}trace"))}
        assert found == wanted[place]
    stamp = re.compile(r" +\d+\.\d{6}")
    # Each saw the same calls in the same tasks; only the moments of writing differ.
    of_a, of_b, of_top = (
        sorted(
            stamp.sub("", row)
            for row in rows(sh(f"cat {place}trace"))
            if re.search(r": \.?schedule ", row)
        )
        for place in ("instances/a/", "instances/b/", "")
    )
    assert len(of_a) > 5
    assert sum(row in of_top for row in of_a) > len(of_a) - 4  # sites change one after the other
    assert len({len(of_a), len(of_b)}) == 1 or abs(len(of_a) - len(of_b)) < 4
    sh("rmdir instances/a instances/b; echo nop > current_tracer")
    assert sh("ls instances; cat enabled_functions") == ""


def test_settings_are_its_own(session: Session, sh: Sh) -> None:
    sh("echo nooverwrite > trace_options; mkdir instances/x; cd instances/x")
    assert sh("cat options/overwrite") == "0\n"  # a new one has those of the top
    sh("echo 1 > options/overwrite; echo 20 > buffer_size_kb; echo counter > trace_clock")
    sh("echo 2 > tracing_cpumask; echo 0 > tracing_on; echo hello > ../../trace_marker; cd ../..")
    assert sh("cat options/overwrite tracing_cpumask tracing_on") == "0\n3\n1\n"
    assert sh("cat trace_clock").startswith("[local]") and sh("cat buffer_size_kb") != "20\n"
    assert rows(sh("cat instances/x/trace")) == [] and "hello" in sh("cat trace")
    assert sh("cat instances/x/available_tracers") == "function nop\n"
    assert refused(session, "write", "instances/x/current_tracer", "irqsoff") == errno.EINVAL


def test_pids_and_stacks_are_its_own(session: Session, sh: Sh) -> None:
    sh("mkdir instances/x; echo schedule | tee set_ftrace_filter instances/x/set_ftrace_filter")
    sh("echo 3 > instances/x/set_ftrace_pid; echo 1 > instances/x/options/func_stack_trace")
    sh("echo function | tee current_tracer instances/x/current_tracer; sleep 0.1; run syscalls")
    mine, all_tasks = sh("cat instances/x/trace"), sh("cat trace")
    assert {*re.findall(r"-(\d+) +\[", mine)} == {"3"} != {*re.findall(r"-(\d+) +\[", all_tasks)}
    stacks = mine.split("<stack trace>\n")[1:]
    assert len(stacks) >= 2 and "<stack trace>" not in all_tasks
    assert all(" => schedule_timeout" in stack for stack in stacks)
    sh("echo 3 > instances/x/set_ftrace_notrace_pid; > instances/x/set_ftrace_pid")
    sh("> instances/x/trace; run syscalls")
    later = {*re.findall(r"-(\d+) +\[", sh("cat instances/x/trace"))}
    assert later and "3" not in later
    assert "<...>" not in sh("echo nop > current_tracer; run syscalls; cat instances/x/trace")


def test_a_full_buffer_overwrites_only_its_own_events(session: Session, sh: Sh) -> None:
    sh("mkdir instances/x; echo 8 > instances/x/buffer_size_kb")
    sh("echo 0 | tee tracing_on instances/x/tracing_on")
    sh("echo function | tee current_tracer instances/x/current_tracer")
    sh("echo 1 | tee tracing_on instances/x/tracing_on; run locks")
    sh("echo 0 | tee tracing_on instances/x/tracing_on; run boot")
    shown = {}
    for place in ("", "instances/x/"):
        stats = "".join(sh(f"cat {place}per_cpu/cpu{cpu}/stats") for cpu in (0, 1))
        shown[place] = [
            sum(map(int, re.findall(rf"{name}: (\d+)", stats)))
            for name in ("entries", r"(?m:^)overrun")
        ]
    assert shown[""][1] == 0 < shown["instances/x/"][1]
    entries, overrun = shown["instances/x/"]
    head = re.search(r"written: (\d+)/(\d+)", sh("cat instances/x/trace"))
    assert head is not None and [*map(int, head.groups())] == [entries, entries + overrun]
    assert sum(shown["instances/x/"]) == pytest.approx(shown[""][0], abs=4)
    first = sh("head -20 instances/x/trace_pipe")
    assert len(rows(first)) > 10 and rows(sh("cat instances/x/trace")) == []


def test_memory_is_bounded_and_given_back(session: Session, sh: Sh) -> None:
    before = regions(session)
    tracefs = session.boot.tracefs
    made = 0
    with pytest.raises(TracefsError) as caught:
        for made in range(100):
            tracefs.mkdir(f"instances/i{made}")
    assert caught.value.errno == errno.ENOMEM and 10 < made < 40
    assert len(tracefs.listdir("instances")) == made
    assert refused(session, "write", "instances/i0/buffer_size_kb", "60000") == errno.ENOMEM
    sh("cd instances/i0; echo function > current_tracer; run boot; echo nop > current_tracer")
    sh("echo x > trace_marker; cd ../..")
    text = sh("cat instances/i0/trace")
    assert refused(session, "write", "instances/i0/buffer_size_kb", "60000") == errno.ENOMEM
    assert sh("cat instances/i0/trace") == text and len(rows(text)) == 1
    sh("echo 1 > instances/i0/set_ftrace_pid; rmdir instances/*")
    left = [each for each in regions(session) if each not in before]
    assert not [name for name, _ in left if name.startswith("instance")]


def test_directories_are_made_and_removed_as_in_the_kernel(session: Session, sh: Sh) -> None:
    sh("mkdir instances/x")
    assert refused(session, "mkdir", "instances/x") == errno.EEXIST
    assert refused(session, "mkdir", "instances/x/y") == errno.EPERM
    assert refused(session, "rmdir", "instances/y") == errno.ENOENT
    assert refused(session, "rmdir", "instances") == errno.EPERM
    assert refused(session, "rmdir", "instances/x/options") == errno.EPERM
    paths = ("trace", "trace_pipe", "set_ftrace_filter", "options/overwrite", "set_event")
    events = ("enable", "sched/filter", "sched/sched_switch/trigger", "ftrace/print/trigger")
    for path in (*paths, *(f"events/{each}" for each in events)):
        with session.boot.tracefs.open(f"instances/x/{path}", write=True):
            assert refused(session, "rmdir", "instances/x") == errno.EBUSY
    sh("echo function > instances/x/current_tracer; rmdir instances/x")
    assert sh("cat enabled_functions") == ""


def test_undo_brings_an_instance_back(session: Session) -> None:
    shell = Shell(session)
    shell.execute("mkdir instances/x; echo schedule > instances/x/set_ftrace_filter")
    shell.execute("echo function > instances/x/current_tracer")
    shell.execute("run syscalls")
    text = session.boot.tracefs.read("instances/x/trace")
    assert called(text) == {"schedule"}
    shell.execute("rmdir instances/x; run boot; mkdir instances/other")
    shell.execute("back")
    assert session.boot.tracefs.listdir("instances") == ["x"]
    assert session.boot.tracefs.read("instances/x/trace") == text
    shell.execute("run syscalls")
    assert len(session.boot.tracefs.read("instances/x/trace")) > len(text)
    shell.execute("back 4")
    assert session.boot.tracefs.listdir("instances") == []
    shell.execute("redo 3")
    assert session.boot.tracefs.read("instances/x/trace") == text


def test_words_wait_for_a_module(session: Session, sh: Sh) -> None:
    sh("mkdir instances/x; echo ':mod:usbcore' > instances/x/set_ftrace_filter")
    sh("insmod usbcore")
    chosen = sh("cat instances/x/set_ftrace_filter").split("\n")[:-1]
    assert len(chosen) > 3 and all(line.endswith("[usbcore]") for line in chosen)
    sh("echo function > instances/x/current_tracer; rmmod usbcore")
    assert sh("cat instances/x/set_ftrace_filter") == "\n" or not sh("cat enabled_functions")


def test_an_instance_that_call_sites_still_call_stays(session: Session, sh: Sh) -> None:
    sh("mkdir instances/x; echo schedule > instances/x/set_ftrace_filter")
    sh("echo function > instances/x/current_tracer")
    sh("patch watch on")
    outcome = Shell(session).execute("rmdir instances/x")
    assert outcome.status
    sh("patch finish")
    (instance,) = session.boot.array.others
    assert isinstance(instance, Instance) and instance.tracer == "nop"
    sh("run syscalls; rmdir instances/x")
    assert session.boot.machine.alive and session.boot.array.others == ()


def test_events_are_its_own(session: Session, sh: Sh) -> None:
    sh("mkdir instances/x instances/y; echo 1 > instances/x/events/sched/sched_switch/enable")
    sh("echo 'next_pid == 3' > instances/y/events/sched/sched_switch/filter")
    sh("echo sched:sched_switch syscalls > instances/y/set_event; run syscalls; sleep 0.1")
    sh("echo 0 | tee instances/*/tracing_on")
    of_x, of_y = (sh(f"cat instances/{name}/trace") for name in "xy")
    switches = [row for row in rows(of_x) if "sched_switch:" in row]
    assert len(switches) > 10 and rows(of_x) == switches and rows(sh("cat trace")) == []
    to_3 = [row for row in rows(of_y) if "sched_switch:" in row]
    assert 0 < len(to_3) < len(switches) and all("next_pid=3 " in row for row in to_3)
    assert " sys_read(" in of_y and "sys_read" not in of_x
    assert sh("cat set_event") == "" and "sys_enter_read" in sh("cat instances/y/set_event")
    sh("rmdir instances/*; echo 1 > events/sched/sched_switch/enable; run syscalls")
    assert "sched_switch" in sh("cat trace") and session.boot.machine.alive


def test_pids_of_events_are_its_own(session: Session, sh: Sh) -> None:
    sh("mkdir instances/x; echo 3 > instances/x/set_event_pid")
    sh("echo sched_switch | tee set_event instances/x/set_event; run syscalls; sleep 0.1")
    everyone, mine = (
        re.findall(r"prev_pid=(\d+) .* next_pid=(\d+) ", sh(f"cat {place}trace"))
        for place in ("", "instances/x/")
    )
    assert 2 < len(mine) < len(everyone) and all("3" in pair for pair in mine)
    sh("> instances/x/set_event_pid; echo 0 3 > instances/x/set_event_notrace_pid")
    sh("> instances/x/trace; run syscalls; sleep 0.1")
    later = re.findall(r"prev_pid=(\d+) .* next_pid=(\d+) ", sh("cat instances/x/trace"))
    assert later and not {("0", "3"), ("3", "0")} & {*later}


def test_triggers_act_on_its_own_buffers(session: Session, sh: Sh) -> None:
    sh("mkdir instances/x; cd instances/x; echo 1 > events/sched/enable")
    sh("echo traceoff:1 > events/sched/sched_process_exit/trigger")
    sh("echo snapshot:1 > events/sched/sched_process_fork/trigger; run forkbomb; cd ../..")
    assert sh("cat instances/x/tracing_on tracing_on") == "0\n1\n"
    assert "traceoff:count=0" in sh("cat instances/x/events/sched/sched_process_exit/trigger")
    assert sh("cat events/sched/sched_process_exit/trigger").startswith("# Available")
    # Both act before the event that they belong to is written.
    mine, taken = sh("cat instances/x/trace"), sh("cat instances/x/snapshot")
    assert "sched_process_fork:" in mine and "sched_process_exit:" not in mine
    assert rows(taken) and "sched_process_fork:" not in taken
    assert rows(sh("cat snapshot")) == []
    sh("rmdir instances/x")


def test_commands_act_on_its_own_buffers_and_events(session: Session, sh: Sh) -> None:
    at_once(session)
    sh("mkdir instances/x; echo vfs_read:traceoff:1 > instances/x/set_ftrace_filter")
    sh("echo sys_open:enable_event:syscalls:sys_enter_read:2 >> instances/x/set_ftrace_filter")
    listed = sh("cat instances/x/set_ftrace_filter").splitlines()[1:]
    assert listed == [
        "sys_open:enable_event:syscalls:sys_enter_read:count=2",
        "vfs_read:traceoff:count=1",
    ]
    enable = "instances/x/events/syscalls/sys_enter_read/enable"
    assert sh(f"cat {enable}; cat set_ftrace_filter").splitlines()[0] == "0*"
    sh("run syscalls")
    assert sh(f"cat {enable} instances/x/tracing_on tracing_on") == "1*\n0\n1\n"
    listed = sh("cat instances/x/set_ftrace_filter").splitlines()[1:]
    assert listed[0].endswith("sys_enter_read:count=1") and listed[1].endswith("count=0")
    sh("echo '!vfs_read:traceoff:1' > instances/x/set_ftrace_filter; rmdir instances/x")
    assert sh("cat enabled_functions events/syscalls/enable") == "0\n"


def test_an_event_of_the_user_is_busy_while_an_instance_has_it(session: Session, sh: Sh) -> None:
    sh("mkdir instances/x; echo 'f:mine schedule' > dynamic_events")
    sh("echo 1 > instances/x/events/fprobes/mine/enable; run syscalls")
    assert "mine: (schedule" in sh("cat instances/x/trace") and rows(sh("cat trace")) == []
    assert refused(session, "write", "dynamic_events", "-:mine\n") == errno.EBUSY
    assert sh("cat events/fprobes/mine/enable") == "0\n"
    sh("rmdir instances/x; echo '-:mine' >> dynamic_events")
    assert "fprobes" not in sh("ls events")


def test_undo_brings_events_of_an_instance_back(session: Session) -> None:
    shell = Shell(session)
    shell.execute("mkdir instances/x; echo sched_switch > instances/x/set_event")
    shell.execute("run syscalls")
    text = session.boot.tracefs.read("instances/x/trace")
    assert "sched_switch:" in text
    shell.execute("rmdir instances/x; run boot")
    shell.execute("back")
    assert session.boot.tracefs.read("instances/x/trace") == text
    shell.execute("run syscalls")
    assert len(session.boot.tracefs.read("instances/x/trace")) > len(text)
