"""The comment lines above the events: which tracer, how many events, what the columns are.

Source: print_trace_header() and print_func_help_header_irq() in kernel/trace/trace.c, 6.1.
"""

from __future__ import annotations

from .textcontext import TextContext, TextOptions


def header(context: TextContext) -> list[str]:
    """Return the comment lines above the events."""
    options = context.options
    lines = [f"# tracer: {context.tracer}", "#"]
    if context.ftrace_dead:
        lines += [
            "# WARNING: FUNCTION TRACING IS CORRUPTED",
            "#          MAY BE MISSING FUNCTION EVENTS",
        ]
    if options.context_info and not options.verbose:
        counts = f"{context.in_buffer}/{context.written}"
        lines += [f"# entries-in-buffer/entries-written: {counts}   #P:{context.cpus}", "#"]
        lines += _columns_irq(options) if options.irq_info else _columns(options)
    return lines


def _columns_irq(options: TextOptions) -> list[str]:
    width = 12 if options.record_tgid else 2
    pad = "#" + " " * (28 + width)
    task = "     TGID   "[:width]
    bars = "       |    "[:width]
    return [
        f"{pad}  _-----=> irqs-off/BH-disabled",
        f"{pad} / _----=> need-resched",
        f"{pad}| / _---=> hardirq/softirq",
        f"{pad}|| / _--=> preempt-depth",
        f"{pad}||| / _-=> migrate-disable",
        f"{pad}|||| /     delay",
        f"#           TASK-PID  {task} CPU#  |||||  TIMESTAMP  FUNCTION",
        f"#              | |    {bars}   |   |||||     |         |",
    ]


def _columns(options: TextOptions) -> list[str]:
    task = "   TGID   " if options.record_tgid else ""
    bars = "     |    " if options.record_tgid else ""
    return [
        f"#           TASK-PID    {task} CPU#     TIMESTAMP  FUNCTION",
        f"#              | |      {bars}   |         |         |",
    ]
