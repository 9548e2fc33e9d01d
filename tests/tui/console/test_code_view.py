"""Panes of instructions: bits of the row's instruction, subjects, copying."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on
from textual.app import App, ComposeResult

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.core.views.call_site import find_sites
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.console.messages import BitsWanted
from dynftrace.tui.console.widgets.code_view import CodeView
from dynftrace.tui.present.call_path import path_lines
from dynftrace.tui.present.call_site import site_lines
from dynftrace.tui.present.line import Line, Subject, about, line, plain

from ..present.test_call_path import hops
from ..present.test_call_site import CALL, COMPILED, IP, view


class Panes(App[None]):
    """An app with one pane."""

    def __init__(self, lines: Sequence[Line]) -> None:
        super().__init__()
        self.code = CodeView(lines)
        self.wanted: list[int] = []
        self.data: list[bytes | None] = []

    def compose(self) -> ComposeResult:
        yield self.code

    @on(BitsWanted)
    def keep(self, message: BitsWanted) -> None:
        self.wanted.append(message.at)
        self.data.append(message.data)


def row_of(lines: Sequence[Line], text: str) -> int:
    return next(row for row, each in enumerate(lines) if text in plain(each))


async def test_bits_are_those_of_the_rows_instruction() -> None:
    lines = path_lines(hops())
    heading = row_of(lines[6:], "ftrace_caller") + 6
    app = Panes(lines)
    async with app.run_test(size=(90, 30)) as pilot:
        for row in (3, heading, heading + 1, heading + 3):
            app.code.cursor = row
            await pilot.press("x")
        await pilot.pause()
        assert plain(lines[3]).startswith("✓ ftrace_caller")
        assert plain(lines[heading]) == "ftrace_caller"
        assert plain(lines[heading + 3]) == "ftrace_call"
        assert app.wanted == [0x2000, 0x2000, 0x2000, 0x2040]


async def test_each_form_of_a_site_has_its_own_bits() -> None:
    app = Panes(site_lines(view("enabled", CALL, CALL)))
    async with app.run_test(size=(90, 30)) as pilot:
        for row in range(app.code.count()):
            app.code.cursor = row
            await pilot.press("x")
        await pilot.pause()
        assert app.wanted == [IP, IP, IP, IP, IP + 5]
        assert app.data == [None, COMPILED.data, None, None, None]


async def test_a_row_without_an_instruction_says_so() -> None:
    app = Panes([line("ffffffff81000040 in words"), line("")])
    async with app.run_test(size=(60, 10), notifications=True) as pilot:
        await pilot.press("x")
        await pilot.pause()
        assert app.wanted == []
        (note,) = app._notifications
        assert note.message == "no instruction on this row"


async def test_a_view_scrolls_only_if_its_subject_changes() -> None:
    rows = [line(f"row {number}") for number in range(60)]
    app = Panes(about(Subject("init", 0x100), rows))
    async with app.run_test(size=(60, 10)) as pilot:
        await pilot.pause()
        changed = [line("another first row"), *rows[1:]]
        app.code.show(about(Subject("init", 0x100), changed), 40)
        assert app.code.cursor == 0, "the same function must not scroll the view"
        app.code.show(about(Subject("init", 0x200), changed), 40)
        assert app.code.cursor == 40, "a module's function of the same name must scroll the view"


async def test_a_row_is_copied_without_its_mark() -> None:
    app = Panes(site_lines(view("enabled", CALL, CALL)))
    async with app.run_test(size=(90, 30)) as pilot:
        app.code.cursor = 3
        await pilot.press("y")
        await pilot.pause()
        assert app.clipboard == f"{IP:x}  as compiled e8 cb 5d 00 00     call __fentry__"


def test_every_row_with_an_instruction_has_bits() -> None:
    session = Session.open(arches.load("ppc64"))
    driver = SessionDriver(session)
    assert not driver.execute("insmod usbcore").error
    assert not driver.execute("echo usb_ifnum_to_if > set_ftrace_filter").error
    assert not driver.execute("echo function > current_tracer").error
    (ip,) = find_sites(session.boot.ftrace.records, "usb_ifnum_to_if", ".")
    driver.look_at(ip)
    view = driver.view()
    assert view.site is not None
    lines = (*site_lines(view.site.site), *view.path.fitted(75, 40))
    drawn = {each.at: plain(each) for each in lines if each.at is not None}
    assert len(drawn) > 50
    failed = {text: driver.execute(f"bits {at:#x}").error for at, text in drawn.items()}
    assert {text: error for text, error in failed.items() if error} == {}
