"""The trace view: following, holding, searching, and formatting only visible rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from textual import on
from textual.app import App, ComposeResult

from dynftrace.core.session.session import Session
from dynftrace.core.trace.select.explorer import TraceExplorer
from dynftrace.core.trace.text.columns import Column, joined
from dynftrace.tui.console.messages import CommandWanted, FunctionWanted
from dynftrace.tui.console.widgets.trace_view import TraceView
from dynftrace.tui.explore.trace_marks import BOOKMARK
from dynftrace.tui.present.line import plain
from dynftrace.tui.present.trace_line import event_line, signed, squeezed_line, squeezed_title

from ..canned import NAMES, Events


class TraceApp(App[None]):
    """An app with only the trace."""

    def __init__(self) -> None:
        super().__init__()
        self.ips: list[int] = []
        self.commands: list[str] = []

    def compose(self) -> ComposeResult:
        yield TraceView()

    @property
    def view(self) -> TraceView:
        return self.query_one(TraceView)

    @on(FunctionWanted)
    def want(self, message: FunctionWanted) -> None:
        self.ips.append(message.ip)

    @on(CommandWanted)
    def command(self, message: CommandWanted) -> None:
        self.commands.append(message.command)


async def test_following_shows_the_newest_event() -> None:
    app = TraceApp()
    async with app.run_test(size=(90, 10)) as pilot:
        app.view.show(Events(1000))
        await pilot.pause()
        assert app.view.scroll_offset.y == 990
        app.view.show(Events(1500))
        await pilot.pause()
        assert app.view.scroll_offset.y == 1490
        assert app.view.cursor == 1499


async def test_scrolling_back_holds_the_trace() -> None:
    app = TraceApp()
    async with app.run_test(size=(90, 10)) as pilot:
        app.view.show(Events(1000))
        await pilot.press("up")
        assert not app.view.follow
        text = app.view.text(998)
        app.view.show(Events(1000, lost=700))
        await pilot.pause()
        assert app.view.text(998) == text
        assert app.view.pending == 700
        await pilot.press("G")
        assert app.view.follow and app.view.pending == 0
        assert app.view.text(999) == Events(1000, lost=700).text.texts(999, 1000)[0]


async def test_space_holds_and_follows() -> None:
    app = TraceApp()
    async with app.run_test(size=(90, 10)) as pilot:
        app.view.show(Events(100))
        await pilot.press("space")
        app.view.show(Events(200))
        assert app.view.count() == 100
        await pilot.press("space")
        assert app.view.count() == 200
        assert app.view.cursor == 199


async def test_a_cleared_buffer_clears_a_held_view() -> None:
    app = TraceApp()
    async with app.run_test(size=(90, 10)) as pilot:
        app.view.show(Events(100))
        await pilot.press("k")
        app.view.show(Events(0))
        assert app.view.count() == 0
        await pilot.press("up", "down", "n")
        app.view.show(None)
        assert app.view.count() == 0


async def test_only_visible_rows_of_a_long_trace_are_formatted() -> None:
    app = TraceApp()
    async with app.run_test(size=(90, 10)) as pilot:
        events = Events(1_000_000)
        app.view.show(events)
        await pilot.pause()
        await pilot.press("g")
        await pilot.press("pagedown", "pagedown")
        assert events.formatter.formatted <= 64 * 4


async def test_search_goes_up_and_n_and_shift_n_continue_it() -> None:
    app = TraceApp()
    async with app.run_test(size=(90, 10)) as pilot:
        count = len(NAMES) * 10
        app.view.show(Events(count))
        app.view.search("kernel_clone")
        last = count - len(NAMES) + NAMES.index("kernel_clone")
        assert app.view.cursor == last
        assert not app.view.follow
        await pilot.press("N")
        assert app.view.cursor == last - len(NAMES)
        await pilot.press("n")
        assert app.view.cursor == last
        await pilot.press("n")
        assert app.view.cursor == last
        found = [text for text, tone in app.view.line(last, 90) if tone == "found"]
        assert found == ["kernel_clone"]


async def test_enter_asks_for_the_site_of_the_event() -> None:
    app = TraceApp()
    async with app.run_test(size=(90, 10)) as pilot:
        app.view.show(Events(2))
        await pilot.press("enter")
        assert app.ips == [0xFFFF_FFFF_8100_0040]


def test_each_column_has_its_colour() -> None:
    fields = Events(1).text.fields_at(np.arange(1))[0]
    assert list(event_line(fields)) == [
        ("            bash-0       ", ""),
        ("[000] ", "dim"),
        ("..... ", "dim"),
        ("    0.000000: ", "accent"),
        ("start_kernel", "strong"),
        (" <-start_kernel", "dim"),
    ]
    assert all(list(event_line(((column, "x"),))) for column in Column)


def test_a_narrow_list_leaves_out_blanks_and_copies_the_kernels_text() -> None:
    events = Events(1)
    fields = events.text.fields_at(np.arange(1))[0]
    drawn, whole = squeezed_line(fields), event_line(fields)
    assert plain(drawn).split() == plain(whole).split()
    assert len(plain(drawn)) < len(plain(whole)) - 10
    assert drawn.copied == whole.copied
    titles = events.text.titles
    assert joined(titles) in events.text.header
    narrow = squeezed_title(titles)
    assert narrow.removeprefix("#").split() == joined(titles).removeprefix("#").split()
    assert narrow.index("CPU#") == plain(drawn).index("[000]")
    assert narrow.index("|||||") == plain(drawn).index(".....")


def test_a_sign_replaces_the_first_cell() -> None:
    fields = ((Column.TEXT, ""), (Column.CPU, " 0) "), (Column.FUNCTION, "f"))
    drawn = signed(event_line(fields), "A")
    assert list(drawn)[-3:] == [("A", "mark"), ("0) ", "dim"), ("f", "strong")]
    assert plain(drawn) == "A0) f"
    assert plain(signed(event_line(()), "A")) == "A"


async def test_r_shows_the_last_registers_saved_up_to_the_event() -> None:
    app = TraceApp()
    async with app.run_test(size=(90, 10)) as pilot:
        app.view.show(Events(20, lost=3))
        await pilot.press("r")
        assert app.commands == [f"regs hit {Events(20, lost=3).hit(19)}"]
        await pilot.press("g", "r")
        assert len(app.commands) == 1, "no event up to this one has saved registers"
        app.view.filter("cpu:1")
        await pilot.press("G", "r")
        line = app.view.shown.row(app.view.cursor)
        assert (line, app.commands[1:]) == (18, [f"regs hit {Events(20, lost=3).hit(18)}"])


async def test_a_stack_has_a_row_for_each_address(
    session: Session, sh: Callable[[str], str]
) -> None:
    sh("echo 1 > options/func_stack_trace; echo ramfs_create > set_ftrace_filter")
    sh("echo function > current_tracer; run syscalls")
    trace = TraceExplorer(session.boot.array.follow())
    app = TraceApp()
    async with app.run_test(size=(90, 10)) as pilot:
        app.view.show(trace)
        await pilot.pause()
        assert app.view.count() == len(trace) > len(trace.table)
        assert app.view.text(app.view.cursor).startswith(" => ")
        await pilot.press("enter")
        assert not app.ips  # an address in a stack is not an event of a site
        app.view.search(": ramfs_create")
        await pilot.pause()
        assert app.view.text(app.view.cursor + 1).endswith(": <stack trace>")
        await pilot.press("enter")
        await pilot.pause()
        assert app.ips == [session.boot.kallsyms.address("ramfs_create")]


async def test_bookmarks_of_a_saved_session_appear_with_the_first_trace() -> None:
    app = TraceApp()
    view = TraceView()
    view.bookmarks = (Events(10).key(3),)
    async with app.run_test(size=(90, 10)) as pilot:
        await app.mount(view)
        view.show(Events(10))
        await pilot.pause()
        assert [plain(view.line(row, 90))[0] for row in (2, 3)] == [" ", BOOKMARK]


async def test_two_markers_show_the_time_between_them() -> None:
    app = TraceApp()
    async with app.run_test(size=(90, 10)) as pilot:
        view = app.view
        view.show(Events(1000))
        await pilot.press("up", "up", "m")
        assert not view.follow and view.between is None
        assert plain(view.line(997, 90)).startswith("A")
        await pilot.press("down", "down", "m")
        assert view.between == 6000
        assert plain(view.line(999, 90)).startswith("B")
        await pilot.press("up", "m")  # marker B moves
        assert view.between == 3000
        assert not plain(view.line(999, 90)).startswith("B")
        # The buffer wraps: rows move, and the markers stay with their events.
        view.follow = True
        view.show(Events(1000, lost=4))
        await pilot.pause()
        assert plain(view.line(993, 90)).startswith("A")
        await pilot.press("M")
        assert view.marks.letters == {} and not plain(view.line(993, 90)).startswith("A")
