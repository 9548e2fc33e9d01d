"""The rows shown of a trace, after any sequence of filters, folds and new events."""

from __future__ import annotations

from functools import cache

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell
from dynftrace.core.trace.select.explorer import TraceExplorer
from dynftrace.core.trace.select.rowfilter import RowFilter
from dynftrace.core.trace.select.selection import Folded
from dynftrace.core.trace.text.columns import joined
from dynftrace.tui.explore.trace_export import Export
from dynftrace.tui.explore.trace_marks import Marks
from dynftrace.tui.explore.trace_selection import ShownRows


def fold_of(shown: ShownRows, row: int) -> Folded | None:
    """Return the folded call that the trace's `row` stands for, or None."""
    assert shown.trace is not None
    return shown.trace.select(shown.only, shown.folds).folded(row)


@cache
def moments() -> list[TraceExplorer]:
    """Return the graph of one buffer as it fills and wraps."""
    session = Session.open(arches.load(arches.DEFAULT))
    shell = Shell(session)
    shell.execute("echo 12 > buffer_size_kb; echo 'vfs_*' '*open*' > set_ftrace_filter")
    shell.execute("echo function_graph > current_tracer")
    found = []
    for _ in range(6):
        assert shell.execute("run syscalls").status == 0
        found.append(TraceExplorer(session.boot.array.follow()))
    assert found[-1].time(0) > found[0].time(0), "the buffer must have wrapped"
    return found


class Looking(RuleBasedStateMachine):
    """A user explores the trace while the machine runs."""

    @initialize()
    def start(self) -> None:
        self.shown = ShownRows()
        self.marks = Marks()
        self.told: dict[object, str] = {}
        self.at = -1
        self.go_on()

    @rule()
    def go_on(self) -> None:
        self.at = min(self.at + 1, len(moments()) - 1)
        self.marks.look(moments()[self.at])
        self.shown.show(moments()[self.at])

    @rule(text=st.sampled_from(["", "cpu:0", "vfs_*", "!task:s*", "open cpu:1", "cpu:9"]))
    def filter(self, text: str) -> None:
        self.shown.only = RowFilter.parse(text)
        self.shown.show(self.shown.trace)

    @rule(row=st.integers(0, 10_000))
    def fold(self, row: int) -> None:
        trace = moments()[self.at]
        if not len(self.shown):
            return
        line = self.shown.row(row % len(self.shown))
        found = trace.fold(self.shown.folds, line)
        if found is None:
            return
        was = fold_of(self.shown, line) is not None
        self.shown.folds, opening = found
        self.shown.show(trace)
        if self.shown.shows(opening):
            assert (fold_of(self.shown, opening) is not None) != was

    @rule()
    def fold_all(self) -> None:
        self.shown.folds = moments()[self.at].fold_all()
        self.shown.show(self.shown.trace)

    @rule()
    def unfold_all(self) -> None:
        self.shown.folds = None
        self.shown.show(self.shown.trace)

    @rule(row=st.integers(0, 10_000))
    def bookmark(self, row: int) -> None:
        trace = moments()[self.at]
        if len(self.shown):
            line = self.shown.row(row % len(self.shown))
            place = trace.key(line)
            if self.marks.toggle(place):
                self.told[place] = trace.text.texts(line, line + 1)[0].partition("|")[0]

    @invariant()
    def each_row_is_its_line_or_a_folded_call(self) -> None:
        trace, shown = moments()[self.at], self.shown
        lines = [shown.row(row) for row in range(len(shown))]
        assert lines == sorted(set(lines)) and all(0 <= line < len(trace) for line in lines)
        assert [shown.index(line) for line in lines] == list(range(len(lines)))
        kernels = trace.text.texts(0, len(trace))
        texts = [joined(shown.fields(row)) for row in range(len(shown))]
        folds = trace.select(shown.only, shown.folds)
        hidden = 0
        for line, text in zip(lines, texts, strict=True):
            folded = folds.folded(line)
            if folded is None:
                assert text == kernels[line]
            else:
                hidden += folded.hides
                assert kernels[line].endswith("() {") and f"() {{ … {folded.hides} row" in text
        passing = len(trace) if shown.only is None else len(trace.select(shown.only).rows)
        assert len(shown) + hidden == passing
        saved = "".join(Export(shown, 0, len(shown)).text()).splitlines()
        assert saved[len(saved) - len(texts) :] == texts

    @invariant()
    def bookmarks_are_on_their_events(self) -> None:
        kernels = moments()[self.at]
        for place in self.marks.bookmarks:
            (row,) = kernels.rows_at([place])
            if row is not None:
                assert self.marks.sign(row) and kernels.time(row) == place.time
                head = kernels.text.texts(row, row + 1)[0].partition("|")[0]
                # A call may have returned since and have a duration now.
                assert head.split()[:1] == self.told[place].split()[:1]


TestLooking = Looking.TestCase
TestLooking.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
