"""The latency format, compared with handmade output in the form of the kernel's documentation.

Source of the form: "irqsoff" and "wakeup_rt" in Documentation/trace/ftrace.rst, 6.1.
"""

from __future__ import annotations

import numpy as np

from dynftrace.core.abi import TraceFlag, TraceType
from dynftrace.core.ftrace.latency import MaxTrace
from dynftrace.core.trace.buffer.details import SWITCHED, Details
from dynftrace.core.trace.buffer.events import EVENT, EventTable
from dynftrace.core.trace.text.columns import joined
from dynftrace.core.trace.text.latencyformat import latency_text
from dynftrace.core.trace.text.textcontext import LatencyFormat, TextContext, TextOptions


class Names:
    """Symbols by address."""

    def names_of(self, addresses: np.ndarray) -> list[str]:
        return [f"f{address}" for address in addresses.tolist()]

    def format(self, address: int) -> str:
        return f"f{address}+0x0/0x10"


SECTION = MaxTrace(16_999, 1_000_000, 1, 2, 1, 0, "swapper/1", rt_priority=5, policy=1, nice=-3)

COLUMNS = """\
#                    _------=> CPU#            |
#                   / _-----=> irqs-off/BH-disabled|
#                  | / _----=> need-resched    |
#                  || / _---=> hardirq/softirq |
#                  ||| / _--=> preempt-depth   |
#                  |||| / _-=> migrate-disable |
#                  ||||| /     delay           |
#  cmd     pid     |||||| time  |   caller     |
#     \\   /        ||||||  \\    |    /       |
""".replace("|\n", "\n")


def lines(section: MaxTrace = SECTION, count: int = 4, **options: bool) -> list[str]:
    events = np.zeros(4, EVENT)
    events["ts"] = [1_000_000, 1_016_999, 1_018_500, 1_020_000]
    events["ip"], events["parent"] = [1, 2, 0, 0], [2, 1, 0, 1]
    events["pid"], events["cpu"] = [0, 0, 12, 0], 1
    events["flags"], events["preempt"] = TraceFlag.IRQS_OFF, [0, 1, 1, 2]
    events["flags"][1] |= TraceFlag.SOFTIRQ
    events["type"] = [TraceType.FN, TraceType.FN, TraceType.CTX, TraceType.CTX]
    switches = np.zeros(2, SWITCHED)
    switches[0] = (0, 2312, 3, 120, 0, 100, 0, 1)
    switches[1] = (2312, 7, 3, 100, 1, 98, 0, 0)
    table = EventTable(events, np.array([0, 1, 2], np.uint64), Details(switches=switches))
    context = TextContext(
        Names(),
        TextOptions(**options),
        "irqsoff",
        cpus=4,
        cmdlines={12: "a_long_name", 7: "watchdog/3", 2312: "kworker/1:1H"},
        in_buffer=count,
        written=count,
        latency=LatencyFormat("6.1.0-test", section),
    )
    text = latency_text(table, context)
    assert [joined(fields) for fields in text.fields_at(np.arange(4))] == text.texts(0, 4)
    return "".join(text.file()).splitlines()


def test_the_header_names_the_section_and_its_task() -> None:
    assert lines()[:12] == [
        "# tracer: irqsoff",
        "#",
        "# irqsoff latency trace v1.1.5 on 6.1.0-test",
        "# --------------------------------------------------------------------",
        "# latency: 16 us, #4/4, CPU#1 | (M:preempt VP:0, KP:0, SP:0 HP:0 #P:4)",
        "#    -----------------",
        "#    | task: swapper/1-0 (uid:0 nice:-3 policy:1 rt_prio:5)",
        "#    -----------------",
        "#  => started at: f1",
        "#  => ended at:   f2",
        "#",
        "#",
    ]
    assert "\n".join(lines()[12:21]) + "\n" == COLUMNS
    assert "started at" not in "".join(lines(MaxTrace()))
    assert lines(count=0)[:3] == ["# tracer: irqsoff", "#", lines()[21]]


def test_rows_count_from_the_start_and_mark_long_waits() -> None:
    assert lines()[21:] == [
        "  <idle>-0         1d....    0us+: f1 <-f2",
        "  <idle>-0         1d.s1.   16us : f2 <-f1",
        "a_long_n-12        1d..1.   18us :        0:120:R   + [003]    2312:100:R kworker/1:1H",
        "  <idle>-0         1d..2.   20us :     2312:100:S ==> [003]       7: 98:R watchdog/3",
    ]


def test_verbose_rows_are_numbered_and_have_no_column_titles() -> None:
    found = lines(verbose=True)
    assert not any("delay" in line for line in found)
    assert found[13] == (
        "          <idle>       0   1 17 00000001 00000001 [000003f8] 0.016ms (+0.001ms): f2 <-f1"
    )
