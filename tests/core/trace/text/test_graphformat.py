"""The text of the function graph, in the kernel's format."""

from __future__ import annotations

import numpy as np
import pytest

from dynftrace.core.abi import TraceType
from dynftrace.core.trace.buffer.details import RETURN, Details
from dynftrace.core.trace.buffer.events import EVENT, EventTable
from dynftrace.core.trace.select.explorer import TraceExplorer
from dynftrace.core.trace.text.columntexts import overhead_mark
from dynftrace.core.trace.text.graphformat import (
    GraphOptions,
    duration_text,
    graph_header,
    graph_text,
    retval_text,
)
from dynftrace.core.trace.text.textcontext import TextContext, TextOptions
from dynftrace.core.trace.text.tracetext import TraceText

NAMES = ("", "sys_open", "getname", "kfree", "do_IRQ")


class Names:
    """Symbols by number."""

    def names_of(self, addresses: np.ndarray) -> list[str]:
        return [NAMES[address] for address in addresses.tolist()]

    def format(self, address: int) -> str:
        return f"{NAMES[address]}+0x0/0x40"


class Story:
    """Events, appended one nanosecond apart."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, ...]] = []
        self.returns: list[tuple[int, ...]] = []
        self.texts: list[bytes] = []

    def enter(self, name: str, depth: int, cpu: int = 0, pid: int = 7) -> Story:
        return self._event(TraceType.GRAPH_ENT, NAMES.index(name), depth, cpu, pid)

    def leave(
        self, name: str, depth: int, took: int, cpu: int = 0, pid: int = 7, retval: int = 0
    ) -> Story:
        self.returns.append((depth, 2, 1000, 1000 + took, retval))
        row = len(self.returns) - 1
        return self._event(TraceType.GRAPH_RET, NAMES.index(name), row, cpu, pid)

    def say(self, text: str, cpu: int = 0, pid: int = 7) -> Story:
        self.texts.append(text.encode())
        return self._event(TraceType.PRINT, 0, len(self.texts) - 1, cpu, pid)

    def _event(self, kind: int, ip: int, parent: int, cpu: int, pid: int) -> Story:
        self.rows.append((len(self.rows), ip, parent, pid, cpu, 0, 0, kind))
        return self

    def text(self, cpus: int = 2, **options: bool) -> TraceText:
        table = EventTable(
            np.array(self.rows, EVENT),
            np.arange(len(NAMES), dtype=np.uint64),
            Details(tuple(self.texts), returns=np.array(self.returns, RETURN)),
        )
        context = TextContext(
            Names(), tracer="function_graph", cpus=cpus, cmdlines={7: "bash", 8: "kworker/0:1"}
        )
        return graph_text(table, context, GraphOptions(**options))

    def lines(self, **options: bool) -> list[str]:
        shown = self.text(**options)
        return shown.texts(0, len(shown))


def test_a_leaf_function_is_one_line_and_any_other_two() -> None:
    story = Story().enter("sys_open", 0).enter("getname", 1).leave("getname", 1, 518)
    story.leave("sys_open", 0, 18542)
    assert story.lines() == [
        " 0)               |  sys_open() {",
        " 0)   0.518 us    |    getname();",
        " 0) + 18.542 us   |  }",
    ]


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0.000 us    "),
        (518, "0.518 us    "),
        (18_542, "18.542 us   "),
        (582_124, "582.124 us  "),
        (1_234_567, "1234.567 us "),
        (12_345_678, "12345.67 us "),
        (1_234_567_890, "1234567 us  "),
        (123_456_789_012, "123456789 us "),
    ],
)
def test_durations_have_at_most_seven_digits(ns: int, text: str) -> None:
    assert duration_text(ns) == text


@pytest.mark.parametrize(
    ("ns", "sign"),
    [
        (10_000, " "),
        (10_001, "+"),
        (100_001, "!"),
        (1_000_001, "#"),
        (10_000_001, "*"),
        (100_000_001, "@"),
        (1_000_000_001, "$"),
    ],
)
def test_long_durations_are_marked(ns: int, sign: str) -> None:
    assert overhead_mark(ns) == sign


def test_a_switch_of_tasks_is_a_box() -> None:
    story = Story().enter("kfree", 0).leave("kfree", 0, 100).enter("kfree", 0, pid=8)
    story.leave("kfree", 0, 100, pid=8)
    assert story.lines() == [
        " 0)   0.100 us    |  kfree();",
        " ------------------------------------------",
        " 0)     bash-7     =>   kworker-8   ",
        " ------------------------------------------",
        "",
        " 0)   0.100 us    |  kfree();",
    ]


def test_each_cpu_has_its_own_calls() -> None:
    story = Story().enter("kfree", 0).enter("getname", 0, cpu=1, pid=0)
    story.leave("kfree", 0, 100).leave("getname", 0, 200, cpu=1, pid=0)
    assert story.lines() == [" 0)   0.100 us    |  kfree();", " 1)   0.200 us    |  getname();"]


def test_a_return_without_its_call_shows_the_name() -> None:
    assert Story().leave("sys_open", 0, 700).lines() == [" 0)   0.700 us    |  } /* sys_open */"]
    story = Story().enter("getname", 0).enter("kfree", 1).leave("kfree", 1, 1)
    assert story.leave("sys_open", 0, 5).lines()[-1] == " 0)   0.005 us    |  } /* sys_open */"


def test_markers_are_comments_indented_like_the_functions_around_them() -> None:
    story = Story().say("before\n").enter("sys_open", 0).enter("getname", 1)
    story.say("inside\n").leave("getname", 1, 5).say("behind\n")
    assert [line for line in story.lines() if "/*" in line] == [
        " 0)               |  /* before */",
        " 0)               |      /* inside */",
        " 0)               |  /* behind */",
    ]


def test_options_change_the_columns() -> None:
    story = Story().enter("sys_open", 0).enter("kfree", 1).leave("kfree", 1, 9)
    story.leave("sys_open", 0, 99, retval=3)
    assert story.lines(cpu=False, duration=False) == ["sys_open() {", "  kfree();", "}"]
    assert story.lines(tail=True)[-1] == " 0)   0.099 us    |  } /* sys_open */"
    assert story.lines(overrun=True)[-1] == " 0)   0.099 us    |  } (Overruns: 2)"
    assert story.lines(retval=True)[1:] == [
        " 0)   0.009 us    |    kfree(); /* 0x0 */",
        " 0)   0.099 us    |  } /* sys_open 0x3 */",
    ]
    assert story.lines(proc=True)[0] == " 0)     bash-7     |               |  sys_open() {"
    assert story.lines(abstime=True)[0].startswith("    0.000000 |   0)  ")


@pytest.mark.parametrize(
    ("value", "bits", "as_hex", "text"),
    [
        (0, 64, False, "0x0"),
        (2**64 - 22, 64, False, "-22"),
        (2**32 - 2, 64, False, "-2"),
        (2**32 - 2, 32, False, "-2"),
        (2**64 - 22, 64, True, "0xffffffffffffffea"),
        (2**64 - 4096, 64, False, "0xfffffffffffff000"),
        (2**64 - 4095, 64, False, "-4095"),
    ],
)
def test_return_values_that_are_errors_are_shown_as_numbers(
    value: int, bits: int, as_hex: bool, text: str
) -> None:
    assert retval_text(value, bits, as_hex) == text


def test_the_header_names_the_shown_columns() -> None:
    assert graph_header(GraphOptions()) == [
        "# CPU  DURATION                  FUNCTION CALLS",
        "# |     |   |                     |   |   |   |",
    ]
    assert graph_header(GraphOptions(cpu=False, proc=True, abstime=True)) == [
        "#     TIME         TASK/PID         DURATION                  FUNCTION CALLS",
        "#      |            |    |           |   |                     |   |   |   |",
    ]


def test_every_row_has_its_function_and_can_be_searched() -> None:
    story = Story().enter("kfree", 0).leave("kfree", 0, 1).enter("sys_open", 0, pid=8)
    shown = story.text()
    trace = TraceExplorer(shown)
    assert [trace.site(row) for row in range(len(shown))] == [3, None, None, None, None, 1]
    assert trace.find("kworker", 0, 1) == 2
    assert trace.find("sys_", 5, -1) == 5
    assert "".join(shown.body()).splitlines() == shown.texts(0, len(shown))


def test_without_context_only_functions_are_shown() -> None:
    story = Story().enter("kfree", 0).leave("kfree", 0, 1)
    shown = story.text()
    context = TextContext(Names(), TextOptions(context_info=False), cpus=2)
    plain = graph_text(shown.table, context)
    assert plain.texts(0, 1) == ["kfree();"]
    assert len(plain.header) == 2


def test_no_events_give_no_lines() -> None:
    assert Story().lines() == []


def test_functions_of_interrupts_are_between_arrows_or_hidden() -> None:
    story = Story().enter("sys_open", 0).enter("do_IRQ", 1).enter("kfree", 2).leave("kfree", 2, 5)
    story.enter("kfree", 0, cpu=1, pid=8).leave("do_IRQ", 1, 9).leave("kfree", 0, 9, cpu=1, pid=8)
    story.enter("getname", 1).leave("getname", 1, 7).leave("sys_open", 0, 30)
    number = NAMES.index("do_IRQ")
    shown = story.text()
    marked = graph_text(shown.table, shown.context, GraphOptions(), range(number, number + 1))
    assert marked.texts(0, len(marked)) == [
        " 0)               |  sys_open() {",
        " 0)   ==========> |",
        " 0)               |    do_IRQ() {",
        " 0)   0.005 us    |      kfree();",
        " 1)   0.009 us    |  kfree();",
        " 0)   0.009 us    |    }",
        " 0)   <========== |",
        " 0)   0.007 us    |    getname();",
        " 0)   0.030 us    |  }",
    ]
    trace = TraceExplorer(marked)
    assert trace.site(1) is None and trace.site(2) == number
    options = GraphOptions(irqs=False)
    without = graph_text(shown.table, shown.context, options, range(number, number + 1))
    assert without.texts(0, len(without)) == [
        " 0)               |  sys_open() {",
        " 1)   0.009 us    |  kfree();",
        " 0)   0.007 us    |    getname();",
        " 0)   0.030 us    |  }",
    ]


def test_an_open_interrupt_hides_the_rest_of_its_cpu() -> None:
    story = Story().enter("kfree", 0, cpu=1).enter("do_IRQ", 0).enter("kfree", 1)
    story.leave("kfree", 0, 9, cpu=1)
    number = NAMES.index("do_IRQ")
    shown = story.text()
    text = graph_text(
        shown.table, shown.context, GraphOptions(irqs=False), range(number, number + 1)
    )
    assert text.texts(0, len(text)) == [" 1)   0.009 us    |  kfree();"]


def test_a_single_interrupt_is_a_line_between_arrows() -> None:
    story = Story().enter("do_IRQ", 0).leave("do_IRQ", 0, 9)
    number = NAMES.index("do_IRQ")
    shown = story.text()
    text = graph_text(shown.table, shown.context, GraphOptions(), range(number, number + 1))
    assert text.texts(0, len(text)) == [
        " 0)   ==========> |",
        " 0)   0.009 us    |  do_IRQ();",
        " 0)   <========== |",
    ]
