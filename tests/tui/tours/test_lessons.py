"""Each tour is walked to its end on its machine; the console shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynftrace.core.shell.outcome import Rebooted
from dynftrace.tui.cli.tour import check_tour
from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.console.widgets.function_list import FunctionList
from dynftrace.tui.pictures.picture import settle
from dynftrace.tui.tours import tour as tours
from dynftrace.tui.tours.progress import Progress
from dynftrace.tui.tours.walk import Walk


@pytest.mark.parametrize("name", tours.names())
def test_a_tour_can_be_completed(name: str) -> None:
    """Each check fails before its step, and holds after the step's own commands."""
    tour = tours.load(name)
    steps = list(check_tour(tour))
    assert [title for title, _ in steps] == [step.title for step in tour.steps]
    assert [reason for _, reason in steps if reason] == []
    assert all(step.hint for step in tour.steps if step.checks)
    assert all(bool(step.commands) == bool(step.checks) for step in tour.steps)


def test_a_walk_stays_within_its_tour() -> None:
    walk = Walk(tours.load("call-site"), 99)
    assert walk.last and not walk.go(1)
    walk.did((Rebooted(),))
    walk.found(walk.at, True)
    assert walk.done and walk.go(-1)
    assert (walk.done, walk.effects) == (False, ())
    walk.found(walk.at + 1, True)  # this answer comes too late
    assert not walk.done


async def test_the_console_detects_a_completed_step(tmp_path: Path) -> None:
    tour = tours.load("call-site")
    walk, progress = Walk(tour), Progress(tmp_path / "tours.json")
    session = tour.open()
    app = ConsoleApp(lambda: SessionDriver(session), walk, progress)
    async with app.run_test(size=(80, 24)) as pilot:

        async def press(*keys: str) -> None:
            await pilot.press(*keys)
            await settle(pilot)

        await settle(pilot)
        state = app.main.query_one("#tour-state")
        assert not walk.done and "to do" in str(state.render())  # type: ignore[attr-defined]
        await press("f2")
        assert tour.steps[0].hint.replace("`", "") in str(state.render())  # type: ignore[attr-defined]
        await press("colon", *"site schedule", "enter")
        assert walk.done and progress.of(tour) == 1
        await press("f5", "f3")
        assert walk.at == 1 and walk.done
        await press("escape", "f5", "f5")
        await press("t")  # use a key instead of the step's command
        assert walk.at == 3
        assert (walk.done, session.boot.array.tracer) == (True, "function")
        await press("f4")
        assert walk.at == 2 and not walk.done
        assert progress.of(tour) == 4


def of_step(name: str, title: str) -> Walk:
    """Return a walk at the step called `title`."""
    tour = tours.load(name)
    return Walk(tour, [step.title for step in tour.steps].index(title))


@pytest.mark.parametrize("size", [(80, 24), (180, 45)])
@pytest.mark.parametrize("way", ["keys", "mouse", "command", "palette"])
async def test_a_step_is_seen_done_by_whichever_way(way: str, size: tuple[int, int]) -> None:
    walk = of_step("call-site", "Every function starts with five bytes")
    session = walk.tour.open()
    app = ConsoleApp(lambda: SessionDriver(session), walk)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        if way == "command":
            await pilot.press("colon", *"site schedule", "enter")
        else:
            await pilot.press("1", "slash", *"schedul")
            await settle(pilot)
            assert not walk.done, "not done: another function is under the cursor"
            await pilot.press("e", "enter")
            await settle(pilot)
            if way == "keys":
                await pilot.press("enter")
            elif way == "mouse":
                await pilot.click(FunctionList, offset=(4, 0))
                await settle(pilot)
                if size[0] > 80:
                    await pilot.click("#site", offset=(4, 0))
                else:
                    await pilot.press("2")
            else:
                offered = {each.title: each for each in app.get_system_commands(app.screen)}
                offered["Call site (2)"].callback()
        await settle(pilot)
        await settle(pilot)
        assert walk.done


async def test_a_step_needs_a_change_on_the_screen() -> None:
    walk = of_step("arm64-records", "Two nops")
    session = walk.tour.open()
    app = ConsoleApp(lambda: SessionDriver(session), walk)
    async with app.run_test(size=(80, 24)) as pilot:

        async def press(*keys: str) -> None:
            await pilot.press(*keys)
            await settle(pilot)
            await settle(pilot)

        await settle(pilot)
        await press("colon", *"site schedule", "enter")
        assert walk.done
        await press("f5")
        assert walk.effects == ()
        await press("1", "space", "t")
        assert not walk.done, "not done: the user has not looked at the site"
        await press("2")
        assert walk.done, "the step must not require the command `site schedule`"


async def test_a_workload_and_registers_are_seen_by_key() -> None:
    walk = of_step("port", "Watch it run")
    session = walk.tour.open()
    app = ConsoleApp(lambda: SessionDriver(session), walk)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        for command in walk.step.commands[:-1]:
            app.command(command)
            await settle(pilot)
        assert not walk.done
        await pilot.press("s")
        await settle(pilot)
        await settle(pilot)
        assert walk.done, "the stepping screen must count as showing registers"


async def test_a_tours_keys_close_boxes_and_screens() -> None:
    tour = tours.load("call-site")
    walk, session = Walk(tour, 1), tour.open()
    app = ConsoleApp(lambda: SessionDriver(session), walk)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        for over in ("f3", "s"):  # a box with output, and the stepping screen
            at = walk.at
            await pilot.press(over)
            await settle(pilot)
            assert app.screen is not app.main
            await pilot.press("f5")
            await settle(pilot)
            assert app.screen is app.main and walk.at == at + 1


async def test_keys_of_a_tour_work_inside_a_box() -> None:
    tour = tours.load("call-site")
    walk = Walk(tour)
    app = ConsoleApp(lambda: SessionDriver(tour.open()), walk)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        state = app.main.query_one("#tour-state")
        told = []
        for key in ("f5", "f2", "f4"):
            await pilot.press("colon", *"help", "enter")
            await settle(pilot)
            assert app.screen is not app.main
            await pilot.press(key)
            await settle(pilot)
            assert app.screen is app.main
            told.append((walk.at, str(state.render())))  # type: ignore[attr-defined]
    assert [at for at, _ in told] == [1, 1, 0]
    assert "F4 back" in told[0][1] and "F4 back" not in told[2][1]
    assert tour.steps[1].hint.replace("`", "") in told[1][1]


async def test_the_palette_starts_a_tour_on_its_machine() -> None:
    app = ConsoleApp(lambda: SessionDriver(tours.load("call-site").open()))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        offered = {each.title: each for each in app.get_system_commands(app.screen)}
        titles = {f"Tour: {tours.load(name).title}" for name in tours.names()}
        assert titles <= set(offered) and len(titles) == 10
        offered["Tour: MIPS: the overflow and three ways out"].callback()
        await pilot.pause()
    assert app.tour.wanted == "mips-overflow"


async def test_the_panel_says_how_to_scroll_if_there_is_more() -> None:
    tour = tours.load("call-site")
    session, walk = tour.open(), Walk(tour)
    app = ConsoleApp(lambda: SessionDriver(session), walk)
    told = set()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        pane = app.main.tour.pane
        for at in range(len(tour.steps)):
            assert walk.at == at
            more = pane.query_one("#tour-text").max_scroll_y > 0
            step = f"step {at + 1} of {len(tour.steps)}"
            assert pane.border_subtitle == ("5 ↓ more │ " if more else "") + step
            told.add(more)
            await pilot.press("f5")
            await settle(pilot)
    assert told == {False, True}
