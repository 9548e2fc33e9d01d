"""The lines of a dump, compared with handmade output of trace_print_lat_context()."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynftrace.core.abi import TraceFlag, TraceType
from dynftrace.core.trace.buffer.events import EVENT, EventTable
from dynftrace.core.trace.text.latencyformat import dump_text
from dynftrace.core.trace.text.textcontext import TextContext, TextOptions


class Names:
    """Symbols by address."""

    def names_of(self, addresses: np.ndarray) -> list[str]:
        return [f"f{address}" for address in addresses.tolist()]

    def format(self, address: int) -> str:
        return f"f{address}+0x0/0x10"


def text(clock_in_ns: bool = True, **options: bool) -> list[str]:
    events = np.zeros(3, EVENT)
    events["ts"] = [1_005_400, 1_017_000, 2_500_000]
    events["ip"], events["parent"] = [1, 2, 1], [2, 0, 2]
    events["pid"], events["cpu"] = [0, 12, 34567], [0, 1, 11]
    events["flags"][1], events["preempt"][1] = TraceFlag.IRQS_OFF | TraceFlag.HARDIRQ, 0x12
    events["type"] = TraceType.FN
    table = EventTable(events, np.array([0, 1, 2], np.uint64))
    context = TextContext(
        Names(), cmdlines={12: "a_long_name_of_it"}, clock_in_ns=clock_in_ns, tracer="function"
    )
    context = replace(context, options=TextOptions(**options))
    dump = dump_text(table, context, 1_000_000)
    assert "".join(dump.body()) == "".join(line + "\n" for line in dump.texts(0, 3))
    assert dump.texts(1, 2) == dump.texts(0, 3)[1:2]
    return dump.texts(0, 3)


def test_short_lines_have_the_kernels_format() -> None:
    assert text() == [
        "  <idle>-0         0.....    5us+: f1 <-f2",
        "a_long_n-12        1d.h21   17us#: f2",
        "   <...>-34567    11..... 1500us : f1 <-f2",
    ]


def test_long_lines_have_the_kernels_format() -> None:
    assert text(verbose=True)[1] == (
        "a_long_name_of_it      12   1 9 00000002 00000001 [000003f9] 0.017ms (+1.483ms): f2"
    )


def test_a_clock_without_a_unit_has_no_unit_column() -> None:
    assert text(clock_in_ns=False)[2] == "   <...>-34567    11..... 1500000: f1 <-f2"
    long = text(clock_in_ns=False, verbose=True)[2]
    assert long.endswith(" [00000000002625a0] 1500000 (+0): f1 <-f2")


def test_numbers_are_as_in_the_trace() -> None:
    assert text(raw=True)[0] == "0 0 1005400 1 2"
    assert text(context_info=False)[0] == "f1 <-f2"
