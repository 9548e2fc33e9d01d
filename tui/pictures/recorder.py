"""Records movies: commands typed into the console or the shell, or a tour that "show me" takes.

Nothing is measured. A key takes `KEY_MS`, a result stays for the requested pause, and a step of
a tour for the time it takes to read its text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.app import App
from textual.pilot import Pilot

from ..console.worker import Driver
from ..tours.walk import Walk
from .movie import Frame, Movie, merged
from .picture import Posed, check_size, close_boxes, press, settle
from .rows import Row, Run, rows_of

if TYPE_CHECKING:
    from ...core.session.session import Session
    from ...core.shell.shell import Shell

KEY_MS = 40
"""Time from key to key."""

FIRST_MS = 1000
"""Time that the first screen is shown."""

WORD_MS = 250
READING_MS = (2000, 15000)
"""Time to read a word of a tour, and the minimum and maximum for a step."""

_TEXT = "fill: #c8d0d9"
_PROMPT = "fill: #8cbf88;font-weight: bold"


class _Film:
    """The screens so far, and the time of the next one."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.now = 0

    def add(self, rows: tuple[Row, ...], ms: int) -> None:
        """Show a screen for `ms`."""
        self.frames.append(Frame(self.now, rows))
        self.now += ms


def record_console(
    start: Callable[[], Driver],
    commands: Sequence[str],
    size: tuple[int, int],
    pause_ms: int,
    *,
    walk: Walk | None = None,
    theme_name: str | None = None,
    done: Callable[[], None] = lambda: None,
) -> Movie:
    """Record `commands` typed into the console, or with `walk` all further steps of its tour.

    `start` makes the driver of the console; `done` is called after each command or step.
    Raises `UsageError` for a size or theme that does not exist.
    """
    check_size(size)
    title = "dynftrace" if walk is None else f"dynftrace: {walk.tour.title}"
    film = asyncio.run(_filmed(start, commands, size, pause_ms, walk, theme_name, done))
    return merged(title, size, film.frames, film.now)


async def _filmed(
    start: Callable[[], Driver],
    commands: Sequence[str],
    size: tuple[int, int],
    pause_ms: int,
    walk: Walk | None,
    theme_name: str | None,
    done: Callable[[], None],
) -> _Film:
    app = Posed(start, walk)
    if theme_name is not None:
        app.choose_theme(theme_name)
    film = _Film()
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        if walk is None:
            film.add(_screen(app), FIRST_MS)
            for command in commands:
                await _typed(pilot, command, film, pause_ms)
                done()
        else:
            await _walked(pilot, walk, film, pause_ms, done)
    return film


async def _typed(pilot: Pilot[None], command: str, film: _Film, pause_ms: int) -> None:
    """Type `command` key by key, execute it and show its result."""
    await close_boxes(pilot)
    for key in ("colon", *command):
        await press(pilot, (key,))
        film.add(_screen(pilot.app), KEY_MS)
    await press(pilot, ("enter",))
    film.add(_screen(pilot.app), pause_ms)


async def _walked(
    pilot: Pilot[None], walk: Walk, film: _Film, pause_ms: int, done: Callable[[], None]
) -> None:
    """Show each step of a tour, do it by "show me", and show the result."""
    while True:
        step = walk.step
        words = len(f"{step.text} {step.task}".split())
        film.add(_screen(pilot.app), min(max(words * WORD_MS, READING_MS[0]), READING_MS[1]))
        if step.commands:
            await press(pilot, ("f3",))
            film.add(_screen(pilot.app), pause_ms)
            await close_boxes(pilot)
            film.add(_screen(pilot.app), pause_ms)
        done()
        if walk.last:
            return
        await press(pilot, ("f5",))


def _screen(app: App[None]) -> tuple[Row, ...]:
    return rows_of(app.export_screenshot(simplify=True), app.size.height)


def record_shell(
    session: Session,
    prompt_of: Callable[[Shell], str],
    commands: Sequence[str],
    size: tuple[int, int],
    pause_ms: int,
) -> Movie:
    """Record `commands` typed at the tracefs shell; `prompt_of` returns its prompt."""
    from ...core.shell.shell import Shell

    check_size(size)
    columns, lines = size
    shell, film = Shell(session), _Film()
    before: list[str] = []

    def show(typed: str, ms: int) -> None:
        """Show the end of the output, below it the prompt with what was `typed`."""
        rows = [Row(runs=_runs(0, line, _TEXT)) for line in before]
        prompt = prompt_of(shell)
        head, *rest = _wrapped(prompt + typed, columns)
        rows.append(
            Row(runs=_runs(0, prompt, _PROMPT) + _runs(len(prompt), head[len(prompt) :], _TEXT))
        )
        rows += [Row(runs=_runs(0, line, _TEXT)) for line in rest]
        rows = rows[-lines:]
        film.add((*rows, *[Row()] * (lines - len(rows))), ms)

    show("", FIRST_MS)
    for command in commands:
        for end in range(1, len(command) + 1):
            show(command[:end], KEY_MS)
        prompt = prompt_of(shell)
        outcome = shell.execute(command)
        printed = (outcome.output + outcome.error).expandtabs().splitlines()
        before += [
            part for line in (prompt + command, *printed) for part in _wrapped(line, columns)
        ]
        show("", pause_ms)
    return merged("dynftrace sh", size, film.frames, film.now)


def _wrapped(line: str, columns: int) -> list[str]:
    return [line[at : at + columns] for at in range(0, len(line), columns)] or [""]


def _runs(column: int, text: str, style: str) -> tuple[Run, ...]:
    return (Run(column, len(text), style, text),) if text.strip() else ()
