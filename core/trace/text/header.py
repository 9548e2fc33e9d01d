"""The comment lines above the events: the tracer, the number of events, the columns.

Source: trace_default_header(), print_trace_header(), print_lat_help_header() and
print_func_help_header_irq() in kernel/trace/trace.c, 6.1.
"""

from __future__ import annotations

import numpy as np

from ..buffer.events import EventTable
from .columns import Column, Fields, joined
from .labels import Labels
from .textcontext import LatencyFormat, TextContext, TextOptions

PREEMPT_MODEL = "preempt"
"""Preemption model of the guest's kernel, which preempts wherever preempt_count allows."""


def header(context: TextContext) -> list[str]:
    """Return the comment lines above the events."""
    options = context.options
    lines = [f"# tracer: {context.tracer}", "#"]
    if context.ftrace_dead:
        lines += [
            "# WARNING: FUNCTION TRACING IS CORRUPTED",
            "#          MAY BE MISSING FUNCTION EVENTS",
        ]
    if options.context_info and context.latency is not None:
        if context.in_buffer:
            lines += _latency(context, context.latency)
            lines += [] if options.verbose else _columns_latency()
    elif options.context_info and not options.verbose:
        counts = f"{context.in_buffer}/{context.written}"
        lines += [f"# entries-in-buffer/entries-written: {counts}   #P:{context.cpus}", "#"]
        lines += _columns_irq(options) if options.irq_info else _columns(options)
    return lines


def titles(context: TextContext) -> Fields:
    """Return the line of titles as fields, one for each column, if the rows have these columns."""
    options = context.options
    usual = options.context_info and options.irq_info and not options.record_tgid
    return _titles(options) if usual and not options.verbose and context.latency is None else ()


def _titles(options: TextOptions) -> Fields:
    tgid = "     TGID   " if options.record_tgid else "  "
    return (
        (Column.TASK, f"#           TASK-PID  {tgid} "),
        (Column.CPU, "CPU#  "),
        (Column.FLAGS, "|||||  "),
        (Column.TIME, "TIMESTAMP  "),
        (Column.FUNCTION, "FUNCTION"),
    )


def _latency(context: TextContext, shown: LatencyFormat) -> list[str]:
    """Return the lines about the section: its length, its task, and the code at its ends."""
    section = shown.section
    counts = f"#{context.in_buffer}/{context.written}, CPU#{section.cpu}"
    model = f"(M:{PREEMPT_MODEL} VP:0, KP:0, SP:0 HP:0 #P:{context.cpus})"
    lines = [
        f"# {context.tracer} latency trace v1.1.5 on {shown.release}",
        "# " + "-" * 68,
        f"# latency: {section.latency // 1000} us, {counts} | {model}",
        "#    -----------------",
        f"#    | task: {section.comm}-{section.pid} (uid:0 nice:{section.nice} "
        f"policy:{section.policy} rt_prio:{section.rt_priority})",
        "#    -----------------",
    ]
    if section.start:
        ends = np.array([section.start, section.end], np.uint64)
        start, end = Labels(EventTable(), context).symbols(ends)
        lines += [f"#  => started at: {start}", f"#  => ended at:   {end}", "#"]
    return [*lines, "#"]


def _columns_latency() -> list[str]:
    return [
        "#                    _------=> CPU#            ",
        "#                   / _-----=> irqs-off/BH-disabled",
        "#                  | / _----=> need-resched    ",
        "#                  || / _---=> hardirq/softirq ",
        "#                  ||| / _--=> preempt-depth   ",
        "#                  |||| / _-=> migrate-disable ",
        "#                  ||||| /     delay           ",
        "#  cmd     pid     |||||| time  |   caller     ",
        "#     \\   /        ||||||  \\    |    /       ",
    ]


def _columns_irq(options: TextOptions) -> list[str]:
    width = 12 if options.record_tgid else 2
    pad = "#" + " " * (28 + width)
    bars = "       |    "[:width]
    return [
        f"{pad}  _-----=> irqs-off/BH-disabled",
        f"{pad} / _----=> need-resched",
        f"{pad}| / _---=> hardirq/softirq",
        f"{pad}|| / _--=> preempt-depth",
        f"{pad}||| / _-=> migrate-disable",
        f"{pad}|||| /     delay",
        joined(_titles(options)),
        f"#              | |    {bars}   |   |||||     |         |",
    ]


def _columns(options: TextOptions) -> list[str]:
    task = "   TGID   " if options.record_tgid else ""
    bars = "     |    " if options.record_tgid else ""
    return [
        f"#           TASK-PID    {task} CPU#     TIMESTAMP  FUNCTION",
        f"#              | |      {bars}   |         |         |",
    ]
