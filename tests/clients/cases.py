"""What trace-cmd and perf are asked to do, and how its success is seen.

Each case is a few command lines; `out` is the text of the last one. `{dat}` is a file of the
case's own. A case passes if every command ends with status 0 and `sees` finds what it expects.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

Sees = Callable[[str], bool]


@dataclass(frozen=True)
class Case:
    """One case of a client."""

    name: str
    commands: tuple[str, ...]
    sees: Sees
    needs: tuple[str, ...] = ()
    """Files of tracefs without which the client cannot work."""


def has(*patterns: str) -> Sees:
    """Return whether every pattern is found."""
    return lambda out: all(re.search(pattern, out) for pattern in patterns)


def lacks(*patterns: str) -> Sees:
    """Return whether no pattern is found, in some output."""
    return lambda out: bool(out) and not any(re.search(pattern, out) for pattern in patterns)


ROW = r"-\d+ +\[\d+\] "

TRACE_CMD = (
    Case("list -t", ("trace-cmd list -t",), has(r"\bfunction_graph\b", r"\bnop\b")),
    Case("list -f", ("trace-cmd list -f ^vfs_",), has("^vfs_read$".replace("^", "(?m)^"))),
    Case("list -o", ("trace-cmd list -o",), has("(?m)^(no)?overwrite$")),
    Case("list -e", ("trace-cmd list -e sys_enter",), has("syscalls:sys_enter_read")),
    Case("list -F", ("trace-cmd list -e sys_enter_read$ -F",), has("field:.*fd")),
    Case("list -C", ("trace-cmd list -C",), has(r"\[local\]")),
    Case("list -P", ("trace-cmd list -P",), lambda out: True),
    Case("start, show", ("trace-cmd start -p function", "sleep 0.3", "trace-cmd show"), has(ROW)),
    Case(
        "start -l",
        ("trace-cmd start -p function -l schedule", "sleep 0.3", "trace-cmd show"),
        lambda out: has(r"\bschedule <-")(out) and lacks("vfs_read <-")(out),
    ),
    Case(
        "start -g",
        ("trace-cmd start -p function_graph -g schedule", "sleep 0.3", "trace-cmd show"),
        has(r"schedule\(\)", r" us +\|"),
    ),
    Case(
        "start --max-graph-depth",
        (
            "trace-cmd start -p function_graph --max-graph-depth 1 -g schedule",
            *("sleep 0.3", "trace-cmd show"),
        ),
        has(r"schedule\(\);"),
        ("max_graph_depth",),
    ),
    Case(
        "start -n",
        ("trace-cmd start -p function -n *lock*", "sleep 0.3", "trace-cmd show"),
        lambda out: has(ROW)(out) and lacks(r": \w*lock\w* <-")(out),
    ),
    Case(
        "start -O", ("trace-cmd start -p nop -O nooverwrite", "trace-cmd options"), lambda o: True
    ),
    Case(
        "start -b",
        ("trace-cmd start -p function -b 200", "cat /sys/kernel/tracing/buffer_size_kb"),
        has(r"\b20\d\b"),
    ),
    Case(
        "start -C", ("trace-cmd start -p nop -C counter", "trace-cmd list -C"), has(r"\[counter\]")
    ),
    Case("stat", ("trace-cmd start -p function", "trace-cmd stat"), has("(?i)tracer: *function")),
    Case(
        "stop",
        ("trace-cmd start -p function", "trace-cmd stop", "cat /sys/kernel/tracing/tracing_on"),
        has(r"\A0\n\Z"),
    ),
    Case(
        "restart",
        (
            *("trace-cmd start -p function", "trace-cmd stop", "trace-cmd restart"),
            "cat /sys/kernel/tracing/tracing_on",
        ),
        has(r"\A1\n\Z"),
    ),
    Case(
        "clear",
        ("trace-cmd start -p function", "trace-cmd stop", "trace-cmd clear", "trace-cmd show"),
        lambda out: not has(ROW)(out),
    ),
    Case(
        "extract",
        (
            *("trace-cmd start -p function", "sleep 0.3", "trace-cmd stop"),
            *("trace-cmd extract -o {dat}", "trace-cmd report {dat}"),
        ),
        has(ROW, "function: "),
    ),
    Case(
        "record -p function",
        ("trace-cmd record -o {dat} -p function sleep 0.3", "trace-cmd report {dat}"),
        has("function: "),
    ),
    Case(
        "record -l",
        ("trace-cmd record -o {dat} -p function -l schedule sleep 0.5", "trace-cmd report {dat}"),
        lambda out: has(r"function: +schedule")(out) and lacks("vfs_read")(out),
    ),
    Case(
        "record -p function_graph",
        ("trace-cmd record -o {dat} -p function_graph sleep 0.3", "trace-cmd report {dat}"),
        has(r"funcgraph_(entry|exit): .* us"),
    ),
    Case(
        "record -p function_graph -g",
        (
            "trace-cmd record -o {dat} -p function_graph -g schedule sleep 0.5",
            "trace-cmd report {dat}",
        ),
        has(r"funcgraph_entry: .*schedule\(\)"),
    ),
    Case(
        "record -e",
        ("trace-cmd record -o {dat} -e syscalls sleep 0.5", "trace-cmd report {dat}"),
        has(r"sys_(enter|exit)_\w+: "),
    ),
    Case(
        "record -e -f",
        (
            "trace-cmd record -o {dat} -e syscalls:sys_enter_read -f fd>=0 sleep 0.5",
            "trace-cmd report {dat}",
        ),
        has("sys_enter_read: "),
        ("events/syscalls/sys_enter_read/filter",),
    ),
    Case(
        "record -e -R",
        (
            "trace-cmd record -o {dat} -p function -e sched:sched_switch -R traceoff sleep 0.5",
            "cat /sys/kernel/tracing/tracing_on",
        ),
        has(r"\A[01]\n\Z"),
        ("events/sched/sched_switch/trigger",),
    ),
    Case(
        "record -e sched",
        ("trace-cmd record -o {dat} -e sched sleep 0.5", "trace-cmd report {dat}"),
        has(r"sched_switch: "),
        ("events/sched/sched_switch/enable",),
    ),
    Case(
        "record --file-version 7",
        (
            "trace-cmd record -o {dat} --file-version 7 -p function sleep 0.3",
            "trace-cmd report {dat}",
        ),
        has("function: "),
    ),
    Case(
        "record -B",
        (
            "trace-cmd record -o {dat} -B one -p function -l schedule sleep 0.5",
            "trace-cmd report {dat}",
        ),
        has("schedule"),
        ("instances",),
    ),
    Case(
        "record, then dynftrace open",
        (
            "trace-cmd record -o {dat} -p function -l schedule sleep 0.5",
            "{dynftrace} open {dat} --text",
        ),
        has(r"\[\d+\] .* schedule <-"),
    ),
    Case(
        "report options",
        (
            "trace-cmd record -o {dat} -p function sleep 0.3",
            *("trace-cmd report -t -R {dat}", "trace-cmd report --stat {dat}"),
            "trace-cmd report --cpu 0 {dat}",
        ),
        lambda out: has(r"\[000\]")(out) and lacks(r"\[001\]")(out),
    ),
    Case(
        "dump",
        ("trace-cmd record -o {dat} -p function sleep 0.3", "trace-cmd dump --summary -i {dat}"),
        has("(?i)events|sections"),
    ),
    Case(
        "split",
        (
            "trace-cmd record -o {dat} -p function sleep 0.3",
            *("trace-cmd split -i {dat} -o {dat}.part -e 100", "trace-cmd report {dat}.part.1"),
        ),
        has("function: "),
    ),
    Case(
        "hist",
        (
            "trace-cmd record -o {dat} -p function -T -l schedule sleep 0.3",
            "trace-cmd hist -i {dat}",
        ),
        has("schedule|%"),
    ),
    Case("profile", ("trace-cmd profile -p function_graph sleep 0.3",), has("(?m)^task: ")),
    Case(
        "snapshot",
        ("trace-cmd start -p function", "trace-cmd snapshot -s", "trace-cmd snapshot"),
        has(ROW),
        ("snapshot",),
    ),
    Case("stack", ("trace-cmd stack --start", "trace-cmd stack"), has(r"(?i)depth|disabled")),
    Case("check-events", ("trace-cmd check-events",), lambda out: True),
    Case(
        "reset",
        (
            *("trace-cmd start -p function -l schedule", "trace-cmd reset"),
            "cat /sys/kernel/tracing/current_tracer /sys/kernel/tracing/set_ftrace_filter",
        ),
        has(r"\Anop\n#### all functions enabled ####"),
    ),
)

LIBTRACEFS = (
    Case(
        "from Python",
        ("{libtracefs}",),
        has(r"\A/sys/kernel/tracing\n", r"\bfunction_graph\b", r"\bschedule <-"),
    ),
)

PERF = (
    Case("ftrace -l", ("perf ftrace -F vfs_*",), has("(?m)^vfs_read")),
    Case(
        "ftrace -t function", ("perf ftrace -a -t function -T schedule sleep 1",), has("schedule")
    ),
    Case("ftrace -G", ("perf ftrace -a -G schedule sleep 1",), has(r"schedule\(\)")),
    Case("ftrace latency", ("perf ftrace latency -a -T schedule sleep 1",), has("DURATION")),
    Case("list", ("perf list syscalls:*",), has("sys_enter_read")),
)
