"""From a function to its events, and back to the previous location."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from dynftrace.core.session.session import Session
from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.explore.back_stack import MOST, Place, Places
from dynftrace.tui.pictures.picture import settle

from ..canned import NAMES, CannedDriver
from ..console.test_console_session import console as real_console
from ..console.test_console_session import do
from ..console.test_main_screen import console


def current(app: ConsoleApp) -> str:
    rows = app.main.functions.rows
    at = rows.current()
    assert at is not None and rows.functions is not None
    return rows.functions.row(at).name


async def pressed(pilot: Pilot[None], *keys: str) -> None:
    await pilot.press(*keys)
    await settle(pilot)


@given(st.lists(st.one_of(st.none(), st.integers(1, 4)), max_size=250))
def test_locations_are_kept_on_a_stack(steps: list[int | None]) -> None:
    places, model = Places(), list[Place]()
    for step in steps:
        if step is None:
            assert places.back() == (model.pop() if model else None)
        else:
            place = Place(step)
            places.leave(place)
            if not model or model[-1] != place:
                model = [*model, place][-MOST:]
        assert len(places) == len(model)


async def test_a_key_cycles_through_a_functions_events_and_back_returns() -> None:
    async with console(CannedDriver()) as (app, pilot):
        events = app.main.trace.events
        await pressed(pilot, "j", "e")
        assert app.main.active == 4 and not events.follow
        assert "schedule <-" in events.text(events.cursor)
        first = events.cursor
        assert first == 1, "after the last event the first must follow"
        await pressed(pilot, "1", "e")
        assert events.cursor == first + len(NAMES)
        await pressed(pilot, "enter")
        assert app.main.active == 2 and current(app) == "schedule"
        await pressed(pilot, "j", "j", "e")
        assert app.main.active == 4 and events.cursor == first + 2 * len(NAMES)
        await pressed(pilot, "backspace")
        assert app.main.active == 2
        await pressed(pilot, "backspace")
        assert app.main.active == 4 and events.cursor == first + len(NAMES)
        await pressed(pilot, "backspace")
        assert app.main.active == 1
        await pressed(pilot, "backspace")
        assert app.main.active == 1 and len(app.main.places) == 0
        await pressed(pilot, "backspace")
        assert app.main.active == 1


async def test_a_function_without_events_keeps_the_cursor() -> None:
    driver = CannedDriver()
    async with console(driver) as (app, pilot):
        await pressed(pilot, "G", "e")
        assert app.main.active == 1 and app.main.trace.events.follow
        assert len(app.main.places) == 0


async def test_back_returns_from_a_site_reached_by_name(session: Session) -> None:
    async with real_console(session) as (app, pilot):
        await do(app, pilot, "echo vfs_read > set_ftrace_filter", "echo function > current_tracer")
        await do(app, pilot, "run syscalls")
        await pressed(pilot, "1", "slash", *"vfs_read", "enter", "e")
        events = app.main.trace.events
        assert app.main.active == 4 and "vfs_read <-" in events.text(events.cursor)
        text = events.text(events.cursor)
        await do(app, pilot, "site schedule")
        assert app.main.active == 2 and current(app) == "schedule"
        await do(app, pilot, "run syscalls")
        await pressed(pilot, "backspace")
        assert app.main.active == 4 and current(app) == "vfs_read"
        assert events.text(events.cursor) == text
        await do(app, pilot, "echo > trace")
        await pressed(pilot, "1", "e")
        assert app.main.active == 1


async def test_calls_of_a_graph_can_be_reached(session: Session) -> None:
    async with real_console(session) as (app, pilot):
        await do(app, pilot, "echo 'vfs_*' > set_ftrace_filter")
        await do(app, pilot, "echo function_graph > current_tracer", "run syscalls")
        await pressed(pilot, "1", "slash", *"vfs_read", "enter")
        events = app.main.trace.events
        rows = list[int]()
        for _ in range(3):
            await pressed(pilot, "1", "e")
            assert "vfs_read()" in events.text(events.cursor)
            rows.append(events.cursor)
        named = [row for row in range(events.count()) if "vfs_read() " in events.text(row)]
        named += [row for row in range(events.count()) if "vfs_read();" in events.text(row)]
        assert set(rows) <= set(named) and len(set(rows)) == min(3, len(named))
