"""error_log: which words of a refused command are wrong."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from dynftrace.core.errors import TracefsError
from dynftrace.core.session.session import Session

Sh = Callable[[str], str]


def refuse(session: Session, command: str) -> None:
    with pytest.raises(TracefsError):
        session.boot.tracefs.write("dynamic_events", command, append=True)


@pytest.mark.parametrize(
    ("marked", "reason"),
    # `^` is where the kernel's selftests expect the caret (kprobe_syntax_errors.tc).
    [
        ("f:^1/a schedule", "Group name must follow the same rules as C identifiers"),
        ("f:g/^1 schedule", "Event name must follow the same rules as C identifiers"),
        ("f:g/a ^no_such_function", "Invalid probed address or symbol"),
        ("f:g/a schedule ^1a=$arg1", "Argument name must follow the same rules as C identifiers"),
        ("f:g/a schedule a=^$foo", "Invalid $-variable specified"),
        ("f:g/a  schedule  a=$arg1  ^a=$arg2", "This argument name is already used"),
    ],
)
def test_the_caret_is_below_the_error(session: Session, marked: str, reason: str) -> None:
    refuse(session, marked.replace("^", ""))
    first, command, caret = session.boot.tracefs.read("error_log").splitlines()
    assert re.fullmatch(rf"\[ *\d+\.\d{{6}}\] trace_fprobe: error: {re.escape(reason)}", first)
    label = "  Command: "
    at = len(caret) - len(label) - 1
    shown = command.removeprefix(label)
    assert shown[:at] + "^" + shown[at:] == " ".join(marked.split())


def test_the_log_keeps_eight_errors_and_is_emptied(session: Session, sh: Sh) -> None:
    for number in range(10):
        refuse(session, f"f:g/a no_such_{number}")
    commands = [line for line in sh("cat error_log").splitlines() if "Command" in line]
    assert [line[-1] for line in commands] == [*"23456789"]
    assert sh("echo >> error_log; cat error_log") != ""
    assert sh("> error_log; cat error_log") == ""


@pytest.mark.parametrize(
    ("marked", "reason"),
    # The first one is of the kernel's selftest tracing-error-log.tc, with a field of this event.
    [
        ("(prev_pid >= 10 || dpid ^== 17) && common_pid != 1", "Field not found"),
        ("^(prev_pid == 1", "Too many '('"),
    ],
)
def test_a_wrong_filter_is_explained(session: Session, marked: str, reason: str) -> None:
    text = marked.replace("^", "")
    with pytest.raises(TracefsError):
        session.boot.tracefs.write("events/sched/sched_switch/filter", text)
    first, command, caret = session.boot.tracefs.read("error_log").splitlines()
    assert first.endswith(f"] event filter parse error: error: {reason}")
    assert command == f"  Command: {text}"
    assert len(caret) == len("  Command: ") + marked.index("^") + 1
