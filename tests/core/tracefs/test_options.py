"""trace_options and options/: the effect of each option."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable

import pytest

from dynftrace.core.errors import TracefsError
from dynftrace.core.session.session import Session
from dynftrace.core.tracefs.tree import File

from ...support.user import executor, subject

Sh = Callable[[str], str]


def last(text: str) -> str:
    return text.splitlines()[-1]


def test_both_files_show_and_set_the_same_option(session: Session, sh: Sh) -> None:
    listed = {line.removeprefix("no") for line in sh("cat trace_options").splitlines()}
    general = len(listed) - 2  # without those of nop
    for tracer, own in (("function", 1), ("function_graph", 12)):
        sh(f"echo {tracer} > current_tracer")  # its options are listed only while it is on
        names = [line.removeprefix("no") for line in sh("cat trace_options").splitlines()]
        assert len(names) == general + own
        listed |= {*names}
        both_ways(sh, names)
    assert sorted(listed) == session.boot.tracefs.listdir("options")


def both_ways(sh: Sh, names: list[str]) -> None:
    for name in names:
        was = sh(f"cat options/{name}")
        assert was in ("0\n", "1\n")
        on = was == "1\n"
        sh(f"echo {'no' if on else ''}{name} > trace_options")
        assert sh(f"cat options/{name}") != was
        sh(f"echo {was.strip()} > options/{name}")
        assert (name if on else f"no{name}") in sh("cat trace_options").splitlines()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("trace_options", "nonsense"),
        ("trace_options", "no"),
        ("trace_options", ""),
        ("options/raw", "2"),
        ("options/raw", "on"),
    ],
)
def test_an_invalid_option_is_refused(session: Session, path: str, text: str) -> None:
    with pytest.raises(TracefsError) as caught:
        session.boot.tracefs.write(path, text)
    assert caught.value.errno == errno.EINVAL


def test_trace_options_knows_only_the_options_of_the_current_tracer(
    session: Session, sh: Sh
) -> None:
    for name in ("func_stack_trace", "nofuncgraph-irqs"):
        with pytest.raises(TracefsError, match="Invalid argument"):
            session.boot.tracefs.write("trace_options", f"{name}\n")
    # Their files are always there, and change them for the next use of the tracer.
    assert sh("echo 1 > options/func_stack_trace; cat options/func_stack_trace") == "1\n"
    sh("echo function > current_tracer; echo nofunc_stack_trace > trace_options")
    assert sh("cat options/func_stack_trace") == "0\n"


def test_text_options_change_the_lines(session: Session, sh: Sh) -> None:
    sh("echo schedule > set_ftrace_filter; echo function > current_tracer; run boot")
    sh("echo 0 > tracing_on")
    plain = last(sh("cat trace"))
    assert ": schedule <-" in plain
    address = session.boot.kallsyms.address("schedule")
    assert last(sh("echo 0 > options/print-parent; cat trace")).endswith(": schedule")
    sh("echo 1 > options/print-parent")
    assert ": schedule+0x0/0x" in last(sh("echo sym-offset > trace_options; cat trace"))
    sh("echo nosym-offset > trace_options")
    assert f"schedule <{address:x}>" in last(sh("echo sym-addr > trace_options; cat trace"))
    sh("echo nosym-addr > trace_options")
    assert " ..... " in plain
    assert " ..... " not in last(sh("echo noirq-info > trace_options; cat trace"))
    assert last(sh("echo nocontext-info > trace_options; cat trace")).startswith("schedule <-")


@pytest.mark.parametrize("arch", ["x86_64", "ppc32"])
def test_pointers_are_hashed_unless_told_otherwise(arch: str) -> None:
    session = subject(arch).session()
    sh, machine = executor(session), session.boot.machine
    digits = 2 * machine.port.facts.pointer_size
    sh("echo kfree kmalloc > set_event; run syscalls; echo 0 > tracing_on")

    def pointers() -> list[int]:
        found = re.findall(r" ptr=(\w+)", sh("cat trace"))
        assert {len(each) for each in found} == {digits}
        return [int(each, 16) for each in found]

    hashed = pointers()
    sh("echo 0 > options/hash-ptr")
    plain = pointers()
    assert max(hashed) < 1 << 32 and not ({*hashed} & {*plain}) - {0}
    assert len({*zip(hashed, plain, strict=True)}) == len({*hashed}) == len({*plain}) > 2
    assert all(len(machine.memory.read(each, 8)) == 8 for each in plain if each)  # they are mapped
    assert (0, 0) in zip(hashed, plain, strict=True)  # NULL


def test_function_trace_turns_tracing_off_and_on(session: Session, sh: Sh) -> None:
    sh("echo schedule > set_ftrace_filter; echo function > current_tracer")
    assert sh("cat enabled_functions")
    assert sh("echo 0 > options/function-trace; cat enabled_functions") == ""
    assert sh("cat current_tracer") == "function\n"
    assert sh("echo 1 > options/function-trace; cat enabled_functions")


def test_a_stack_trace_follows_each_event(session: Session, sh: Sh) -> None:
    sh("mkdir instances/x; echo 1 > instances/x/options/stacktrace; echo 1 > options/sym-offset")
    sh("echo sched_waking | tee set_event instances/x/set_event; run syscalls")
    events, stacks = (sh("cat instances/x/trace").count(word) for word in ("waking:", "<stack"))
    assert events == stacks > 5 and "<stack" not in sh("cat trace")
    assert " => try_to_wake_up\n" in sh("cat instances/x/trace")
    sh("echo 0 > instances/x/options/stacktrace; > instances/x/trace; run syscalls")
    assert "waking:" in sh("cat instances/x/trace") and "<stack" not in sh("cat instances/x/trace")


def test_only_the_message_is_shown(sh: Sh) -> None:
    sh("echo 1 > options/printk-msg-only; echo hello > trace_marker")
    assert last(sh("cat trace")) == "hello"
    sh("echo 0 > options/trace_printk")
    assert last(sh("cat trace")).endswith(": tracing_mark_write: hello")


def test_nothing_is_recorded_while_trace_is_open(session: Session, sh: Sh) -> None:
    sh("echo 1 > options/pause-on-trace")
    tracefs = session.boot.tracefs
    with tracefs.open("trace"), tracefs.open("trace") as handle:
        assert sh("cat tracing_on") == "1\n"
        sh("echo 1 > events/sched/enable; run syscalls")
        assert "sched_" not in handle.read()
    sh("run syscalls")
    assert "sched_" in sh("cat trace")
    sh("echo 0 > options/pause-on-trace; > trace")
    with tracefs.open("trace") as handle:
        sh("run syscalls")
        assert "sched_" in handle.read()


def test_poll_never_waits_with_the_option_block(session: Session, sh: Sh) -> None:
    pipe = session.boot.tracefs.node("trace_pipe")
    assert isinstance(pipe, File) and not pipe.ready
    sh("echo 1 > options/block")
    assert pipe.ready


def test_nop_accepts_one_option_and_refuses_the_other(session: Session, sh: Sh) -> None:
    sh("echo test_nop_accept > trace_options")
    with pytest.raises(TracefsError):
        session.boot.tracefs.write("options/test_nop_refuse", "1")
    assert sh("cat options/test_nop_accept options/test_nop_refuse") == "1\n0\n"
    said = sh("dmesg").splitlines()[-2:]
    assert "nop_test_accept flag set to 1: we accept. " in said[0]
    assert "nop_test_refuse flag set to 1: we refuse. " in said[1]
