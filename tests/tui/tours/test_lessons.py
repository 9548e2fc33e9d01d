"""Each tour is walked to its end on its machine; the console shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.widgets import Input

from dynftrace.core.shell.outcome import Rebooted
from dynftrace.tui.cli.tour import check_tour
from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.console.screens.box import Box
from dynftrace.tui.console.screens.report import ReportBox
from dynftrace.tui.console.widgets.function_list import FunctionList
from dynftrace.tui.console.widgets.step_task import StepTask
from dynftrace.tui.pictures.picture import settle
from dynftrace.tui.present.line import plain
from dynftrace.tui.tours import course, lesson_file
from dynftrace.tui.tours.progress import Progress
from dynftrace.tui.tours.tour import shell_of
from dynftrace.tui.tours.walk import Walk

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", course.names())
def test_a_lesson_can_be_completed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each check fails before its step, and holds after the step's own commands."""
    monkeypatch.chdir(tmp_path)  # one lab writes a file
    tour = course.load(name)
    steps = list(check_tour(tour))
    assert [title for title, _ in steps] == [step.title for step in tour.steps]
    assert [reason for _, reason in steps if reason] == []
    assert all(step.hints for step in tour.steps if step.checks)
    assert all(bool(step.commands) == bool(step.checks) for step in tour.steps)
    if name in course.LABS.names():
        assert {len(step.hints) for step in tour.steps} == {3}
        assert all(len(f"{step.text}\n{step.task}".splitlines()) <= 15 for step in tour.steps)


SOURCE = re.compile(r"(?P<where>[^:]+): (?P<what>.+)")
LINUX = re.compile(r"Linux \d+\.\d+(\.\d+)*")
OURS = "This project"


@pytest.mark.parametrize("path", course.TOURS.paths, ids=course.TOURS.names())
def test_each_step_of_a_tour_names_its_sources(path: Path) -> None:
    """A comment at the start of a step lists what its statements rest on, one source a line."""
    steps = re.split(r"^## ", path.read_text(), flags=re.MULTILINE)[1:]
    for step in steps:
        title, _, rest = step.partition("\n")
        comment = re.match(r"<!-- Sources:\n(.+?)\n-->\n\n(.+)", rest, re.DOTALL)
        assert comment is not None, f"{path.name}: '{title}' has no sources"
        sources = [SOURCE.fullmatch(line) for line in comment[1].splitlines()]
        assert all(sources), f"{path.name}: '{title}': a source is WHERE: WHAT"
        for where, what in (each.groups() for each in sources if each):
            first = what.split(" (")[0]
            if where.startswith("Linux"):
                assert LINUX.fullmatch(where) and ("/" in first or first == "Makefile"), what
            elif where == OURS:
                assert (ROOT / first).exists(), f"{path.name}: '{title}': no file {first}"
        named = {match[0] for match in LINUX.finditer(comment[2])}
        assert named <= {each["where"] for each in sources if each}, f"{title}: {named}"


def test_a_comment_is_not_shown() -> None:
    text = "+++\nsummary = 'x'\n+++\n# A\n## B\n<!-- hidden\n\n`:help` -->\n\nShown.\n"
    (step,) = lesson_file.parse(text, "a", "a.md").steps
    assert step.text == "Shown."


def test_a_lab_cannot_be_solved_by_undoing_its_setup() -> None:
    session = course.load("repair").open()
    shell = shell_of(session)

    def damaged() -> bool:
        return "0f 1f 45 00 00" in shell.execute("site schedule_timeout").output

    assert damaged() and shell.execute("back").error == "back: nothing to undo\n"
    shell.execute("reboot")
    assert damaged()
    shell.execute("poke schedule_timeout+2 44")
    assert not damaged()
    shell.execute("back")
    assert damaged()


def test_a_toy_port_that_fails_shows_its_bytes_and_never_harms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shell = shell_of(course.load("make-nop").open())

    def said(command: str) -> str:
        outcome = shell.execute(command)
        return outcome.output + outcome.error

    assert said("port new toy.py") == "wrote toy.py\n"
    assert "expected 1f2003d5, found 00000000" in said("port check toy.py")
    assert re.search(r"toy.py: \d+ passed, [1-9]\d* failed", said("port result"))
    Path("toy.py").write_text("import os\nos._exit(0)\n")
    assert said("port check toy.py") == "port: the file ended the checks\n"
    assert said("port result") == "toy.py: not checked\n"
    Path("toy.py").write_text("x = 1\nraise ValueError('no')\n")
    assert said("port check toy.py") == (
        "port: toy.py:2: the port cannot be loaded: ValueError: no\n"
    )
    assert said("port new toy.py") == "port: toy.py already exists: choose another name\n"
    monkeypatch.setenv("TEXTUAL_DRIVER", "web")
    assert "in a browser" in said("port check toy.py")


def test_a_walk_stays_within_its_tour() -> None:
    walk = Walk(course.load("call-site"), 99)
    assert walk.last and not walk.go(1)
    walk.did((Rebooted(),))
    walk.found(walk.at, True)
    assert walk.done and walk.go(-1)
    assert (walk.done, walk.effects) == (False, ())
    walk.found(walk.at + 1, True)  # this answer comes too late
    assert not walk.done


async def test_the_console_detects_a_completed_step(tmp_path: Path) -> None:
    tour = course.load("call-site")
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
        assert tour.steps[0].hints[0].replace("`", "") in str(state.render())  # type: ignore[attr-defined]
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
        assert progress.of(tour) == 3, "the third step was skipped"


def of_step(name: str, title: str) -> Walk:
    """Return a walk at the step called `title`."""
    tour = course.load(name)
    return Walk(tour, [step.title for step in tour.steps].index(title))


@pytest.mark.parametrize(("way", "size"), [("palette", (80, 24)), ("mouse", (180, 45))])
async def test_a_step_done_by_mouse_or_palette_is_noticed(way: str, size: tuple[int, int]) -> None:
    walk = of_step("call-site", "Every function starts with five bytes")
    session = walk.tour.open()
    app = ConsoleApp(lambda: SessionDriver(session), walk)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await pilot.press("1", "slash", *"schedul")
        await settle(pilot)
        assert not walk.done, "not done: another function is under the cursor"
        await pilot.press("e", "enter")
        await settle(pilot)
        if way == "mouse":
            await pilot.click(FunctionList, offset=(4, 0))
            await settle(pilot)
            await pilot.click("#site", offset=(4, 0))
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
        await press("1", "space")
        await press("colon", *"echo function > current_tracer", "enter")
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
        task = str(app.screen.query_one(StepTask).render())
        assert "look at the registers" in task and "✓ done" in task


async def test_a_tours_keys_close_boxes_and_screens() -> None:
    tour = course.load("call-site")
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
    tour = course.load("call-site")
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
    assert tour.steps[1].hints[0].replace("`", "") in told[1][1]


async def test_the_palette_starts_a_tour_on_its_machine() -> None:
    app = ConsoleApp(lambda: SessionDriver(course.load("call-site").open()))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        offered = {each.title: each for each in app.get_system_commands(app.screen)}
        titles = {f"Tour: {course.load(name).title}" for name in course.TOURS.names()}
        titles |= {f"Lab: {course.load(name).title}" for name in course.LABS.names()}
        assert titles <= set(offered)
        offered["Tour: MIPS: the overflow and two ways out"].callback()
        await pilot.pause()
    assert app.tour.wanted == course.TOURS.paths[5]


async def test_the_panel_says_how_to_scroll_and_keeps_the_task_in_sight() -> None:
    tour = course.load("changing-text")
    session, walk = tour.open(), Walk(tour)
    app = ConsoleApp(lambda: SessionDriver(session), walk)
    told = set()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        pane = app.main.tour.pane
        for at, step in enumerate(tour.steps):
            assert walk.at == at
            more = pane.query_one("#tour-text").max_scroll_y > 0
            number = f"step {at + 1} of {len(tour.steps)} │ {tour.title}"
            assert pane.border_subtitle == ("5 ↓ more │ " if more else "") + number
            told.add(more)
            task = pane.query_one("#tour-task")
            assert task.region.height == task.virtual_size.height, f"{step.where}: the task is cut"
            assert pane.region.contains_region(task.region)
            if not walk.last:
                await pilot.press("f5")
                await settle(pilot)
    assert told == {False, True}, "some steps fit, and the long ones scroll"


async def test_show_me_starts_over_if_the_machine_was_changed() -> None:
    walk = of_step("call-site", "See events")
    session = walk.open()
    assert session.boot.array.tracer == "function", "the steps before are done"
    app = ConsoleApp(lambda: SessionDriver(session), walk)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        state = app.main.query_one("#tour-state")
        app.command("echo nop > current_tracer")
        await settle(pilot)
        await pilot.press("f3")
        await settle(pilot)
        assert not walk.done and "F3 again reboots" in str(state.render())  # type: ignore[attr-defined]
        await pilot.press("f3")
        await settle(pilot)
        assert walk.done and session.boots == 2


async def test_show_me_stops_at_an_oops_and_a_box_leaves_the_text_uncovered() -> None:
    walk = of_step("changing-text", "What if you just write?")
    session = walk.open()
    app = ConsoleApp(lambda: SessionDriver(session), walk)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("f3")
        await settle(pilot)
        assert walk.done
        assert not [action for action in session.journal.actions if "cannot start" in str(action)]
        assert isinstance(app.screen, ReportBox)
        box = app.screen.query_one("#box")
        assert not box.region.overlaps(app.main.tour.pane.region)
        while isinstance(app.screen, ReportBox):  # each CPU that died has its own report
            await pilot.press("escape")
            await settle(pilot)
        await pilot.press("colon", *"help", "enter")
        await settle(pilot)
        assert isinstance(app.screen, Box)
        await pilot.press("colon")
        await settle(pilot)
        assert isinstance(app.focused, Input), "the keys of the main screen work over a box"


async def test_the_last_step_leads_to_the_next_lesson() -> None:
    tour = course.load("call-site")
    walk = Walk(tour, len(tour.steps) - 1)
    app = ConsoleApp(lambda: SessionDriver(walk.open()), walk)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("f3")
        await settle(pilot)
        state = app.main.query_one("#tour-state")
        assert "F5 go on to “2008: from mcount to nops”" in str(state.render())  # type: ignore[attr-defined]
        await pilot.press("f5")
        await pilot.pause()
    assert app.tour.wanted == course.TOURS.paths[1]


async def test_a_tour_is_resumed_where_it_was_left() -> None:
    walk = of_step("call-site", "Enable the tracer")
    app = ConsoleApp(lambda: SessionDriver(walk.open()), walk)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await settle(pilot)
        assert app.main.visible_panes() == (2,)
        assert "schedule" in plain(app.view.site.fitted(80, 20)[0][0])
        assert not walk.done
        await pilot.press("t")
        await settle(pilot)
        shown = [plain(each) for each in app.view.site.fitted(80, 20)[0]]
        assert walk.done and any("call ftrace_caller" in each for each in shown)
