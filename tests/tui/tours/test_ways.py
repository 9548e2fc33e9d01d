"""Each step of each tour, key by key, by every way that its task and its last hint offer.

A way that only types the step's own commands is not tried where another one is offered:
test_lessons.py proves these commands.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.console.screens.report import ReportBox
from dynftrace.tui.pictures.picture import settle
from dynftrace.tui.tours import course
from dynftrace.tui.tours.tour import Step
from dynftrace.tui.tours.walk import Walk

from ...support.prose import ways


async def press(pilot: Pilot[None], keys: list[str]) -> None:
    """Press `keys`; wait for the machine after those that may have given it work.

    The words of a command are pasted: to complete each character takes most of the time, and
    other tests do it.
    """
    rest = list(keys)
    # An oops ends what can be done: the reader looks at the report.
    while rest and not (isinstance(pilot.app.screen, ReportBox) and len(keys) > 1):
        key = rest.pop(0)
        await pilot.press(key)
        if key == "colon":
            if not isinstance(pilot.app.focused, Input):
                await settle(pilot)  # a box was closed first
            end = rest.index("enter")
            assert isinstance(pilot.app.focused, Input), "the key : must open the command line"
            pilot.app.focused.value = "".join(rest[:end])
            await pilot.press("enter")
            del rest[: end + 1]
        if not isinstance(pilot.app.focused, Input):
            await settle(pilot)
    await settle(pilot)


def offered(step: Step) -> list[list[str]]:
    """Return the ways to do `step` that must be tried, without those that are the same."""
    typed = [key for command in step.commands for key in ("colon", *command, "enter")]
    if len(step.hints) > 1:
        return ways(step.hints[-1]) or [typed]  # the last hint of a lab is its solution
    for part in (step.task, *step.hints[-1:]):
        assert ways(part) or not step.checks, f"{step.where}: say what to press in '{part}'"
    found: list[list[str]] = []
    for keys in (*ways(step.task), *(keys for hint in step.hints[-1:] for keys in ways(hint))):
        if keys not in found:
            found.append(keys)
    return [keys for keys in found if keys != typed] or found


KEYS = ("call-site", "arm64-records")
"""Tours with the most keys: these are tried at two sizes."""


@pytest.mark.parametrize(
    ("name", "size"),
    [*((name, (80, 24)) for name in course.names()), *((name, (120, 40)) for name in KEYS)],
)
async def test_every_step_by_every_way(
    name: str, size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # one lab writes a file
    tour = course.load(name)
    walk, session = Walk(tour), tour.open()
    app = ConsoleApp(lambda: SessionDriver(session), walk)
    failed = []
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        for at, step in enumerate(tour.steps):
            assert walk.at == at
            for number, keys in enumerate(offered(step)[: None if size == (80, 24) else 1]):
                if number:  # from the start of the step again
                    await press(pilot, ["escape"])
                    before = [command for each in tour.steps[:at] for command in each.commands]
                    app.commands([], ["reboot", *before], lambda: None)
                    await settle(pilot)
                    await press(pilot, ["escape"])
                    app.tour.go(0)
                    await settle(pilot)
                assert not walk.done, step.where
                await press(pilot, keys)
                if not walk.done:
                    failed.append((step.where, keys))
                    app.tour.show_me()
                    await settle(pilot)
            if not walk.last:
                await press(pilot, ["f5"])
    assert not failed
