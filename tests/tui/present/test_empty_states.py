"""Panes without rows say why, and the keys they name add rows."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from textual.strip import Strip
from textual.widget import Widget

from dynftrace.tui.console.widgets.equivalent_command import EquivalentCommand
from dynftrace.tui.console.widgets.status_bar import StatusBar
from dynftrace.tui.pictures.picture import settle
from dynftrace.tui.present.empty_states import NO_FUNCTION, NO_RECORD, OPENING, no_rows
from dynftrace.tui.present.view import Status, View

from ..canned import CannedDriver, Events
from ..console.test_main_screen import console
from ..console.test_trace_view import TraceApp

NOP = Status("x86_64", 2)


@pytest.mark.parametrize(
    ("status", "filtered", "begins"),
    [
        (Status(), False, "opening…"),
        (NOP, False, "the current tracer is nop"),
        (replace(NOP, tracer="function"), False, "no event has been recorded yet"),
        (replace(NOP, tracer="function", boots=False), False, "no event has been recorded yet"),
        (replace(NOP, tracing_on=False), False, "tracing_on is 0"),
        (replace(NOP, ftrace_off=True, tracing_on=False), False, "ftrace is off"),
        (replace(NOP, ftrace_off=True), True, "no event matches the filter"),
    ],
)
def test_an_empty_trace_gives_the_first_reason(status: Status, filtered: bool, begins: str) -> None:
    said = no_rows(status, filtered)
    assert said[0].startswith(begins)
    assert max(map(len, said)) <= 54


def test_the_texts_of_the_function_list_fit_the_narrowest_one() -> None:
    assert max(map(len, [*OPENING, *NO_FUNCTION, *NO_RECORD])) <= 33


async def test_a_kernel_without_a_boot_is_called_not_run() -> None:
    resting = replace(NOP, tracer="function", boots=False)
    assert any(":call" in text for text in no_rows(resting, False))
    driver = CannedDriver(View(resting))
    async with console(driver, (80, 24)) as (app, pilot):
        await pilot.press("c")
        await settle(pilot)
        assert not app.runner.running
        assert ":call FUNC" in " ".join(rows(app.main.query_one(EquivalentCommand)))


def rows(widget: Widget) -> list[str]:
    """The text of a widget's lines that are not empty."""
    lines = [widget.render_line(y).text.strip() for y in range(widget.size.height)]
    return [line for line in lines if line]


async def test_an_empty_trace_says_how_to_get_events() -> None:
    driver = CannedDriver(View(NOP))
    driver.events = Events(0)
    async with console(driver, (80, 24)) as (app, pilot):
        await pilot.press("4")
        assert rows(app.main.trace.events) == list(no_rows(NOP, False))
        await pilot.press("t")
        await settle(pilot)
        assert rows(app.main.trace.events) == list(no_rows(replace(NOP, tracer="function"), False))
        await pilot.press("c")
        async with asyncio.timeout(10):
            while not app.main.trace.events.count():
                await pilot.pause(0.01)
        await pilot.press("c")
        await settle(pilot)
        assert set(rows(app.main.trace.events)).isdisjoint(no_rows(NOP, False))


async def test_a_filter_without_a_function_says_so() -> None:
    async with console(CannedDriver(), (80, 24)) as (app, pilot):
        await pilot.press("slash", *"zzz", "enter")
        assert rows(app.main.functions.rows) == list(NO_FUNCTION)
        await pilot.press("slash", "escape")
        assert app.main.functions.rows.count()


async def test_an_empty_trace_cannot_be_held() -> None:
    app = TraceApp()
    async with app.run_test(size=(90, 10)) as pilot:
        app.view.show(Events(0))
        await pilot.press("space")
        app.view.show(Events(5))
        assert app.view.count() == 5 and app.view.follow
        await pilot.press("k")
        app.view.show(Events(0))
        app.view.show(Events(20))
        assert app.view.count() == 20 and app.view.follow


async def test_everything_is_redrawn_after_a_shell_used_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[int] = []
    render = StatusBar.render_line

    def counted(self: StatusBar, y: int) -> Strip:
        drawn.append(y)
        return render(self, y)

    monkeypatch.setattr(StatusBar, "render_line", counted)
    async with console(CannedDriver(), (80, 24)) as (app, pilot):
        drawn.clear()
        await pilot.pause()
        assert not drawn
        app.app_resume_signal.publish(app)
        await pilot.pause()
        assert drawn
