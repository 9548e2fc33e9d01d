"""Takes a picture of the console, without a terminal.

The console runs headless: it executes commands as if they were typed and handles keys.
The screen is exported as SVG as soon as nothing is left to do. The picture shows no host
time and nothing that blinks, so equal input gives equal bytes.
"""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from textual._compositor import LayoutUpdate
from textual.app import App
from textual.filter import LineFilter, Monochrome
from textual.pilot import Pilot
from textual.screen import SystemModalScreen

from ...core.errors import UsageError
from ..console import theme
from ..console.app import ConsoleApp
from ..console.worker import Driver
from ..present.svg import tidy
from ..tours.walk import Walk

if TYPE_CHECKING:
    from ...core.session.session import Session


PATIENCE_S = 2.0
"""Host seconds to wait for a widget's answer; after that it counts as removed."""


@dataclass(frozen=True, slots=True)
class Pose:
    """How to reach a screen: the keys to press, and whether open boxes stay (`boxes`)."""

    keys: tuple[str, ...] = ()
    boxes: bool = False


POSES = {
    "main": Pose(),
    "functions": Pose(("1", "z")),
    "site": Pose(("2",)),
    "trampoline": Pose(("3",)),
    "trace": Pose(("4", "z")),
    "help": Pose(("question_mark",)),
    "command": Pose(("colon", *"echo vfs_r", "tab")),
    "workloads": Pose(("w",)),
    "stepping": Pose(("s",)),
    "map": Pose(("A",)),
    "lanes": Pose(("L",)),
    "flame": Pose(("T",)),
    "hist": Pose(("H",)),
    "patch": Pose(("p",)),
    "race": Pose(("P",)),
    "output": Pose(boxes=True),
    "report": Pose(boxes=True),
}
"""The screens that `--screen` accepts."""

LOOKS = {
    "dark": (theme.DARK.name, True),
    "light": (theme.LIGHT.name, True),
    "no-colour": (theme.DARK.name, False),
}
"""Looks of a picture by name: the theme, and whether the picture has colours."""


@dataclass(frozen=True, slots=True)
class Take:
    """One screen to draw: commands to execute, keys to press, and the looks to draw it in."""

    commands: Sequence[str] = ()
    pose: Pose = POSES["main"]
    looks: Iterable[str] = tuple(LOOKS)
    before: Sequence[str] = ()
    """Keys to press before the commands."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A screen as plain text, and its SVG by look."""

    text: str
    pictures: Mapping[str, str]


def take_picture(
    open_session: Callable[[], Session],
    commands: str,
    screen: str,
    size: tuple[int, int],
    theme_name: str | None = None,
) -> str:
    """Return the SVG of `screen` at `size` (columns, rows) after `commands`.

    The commands are executed line by line. The screens `output` and `report` show the
    box that the last command opened.

    Raises:
        UsageError: `screen` or the theme does not exist, or `size` is out of range.
    """
    from ..console.driver import SessionDriver

    pose = POSES.get(screen)
    if pose is None:
        raise UsageError(f"unknown screen {screen!r} (choose from: {', '.join(POSES)})")
    check_size(size)
    session = open_session()
    lines = [text for text in commands.splitlines() if text.strip()]
    return asyncio.run(picture(lambda: SessionDriver(session), lines, pose, size, theme_name))


def parse_size(text: str) -> tuple[int, int]:
    """Parse a size like `120x40` into columns and rows. Raises `UsageError`."""
    match = re.fullmatch(r"(\d{1,4})x(\d{1,4})", text)
    if match is None:
        raise UsageError(f"invalid size {text!r}: write COLUMNSxROWS, for example 120x40")
    return int(match[1]), int(match[2])


def check_size(size: tuple[int, int]) -> None:
    """Raise `UsageError` for a size outside the supported range."""
    width, height = size
    if not (20 <= width <= 500 and 5 <= height <= 300):
        raise UsageError(f"invalid size {width}x{height}: valid sizes are 20x5 to 500x300")


class Posed(ConsoleApp):
    """The console for pictures: it can drop its colours, as NO_COLOR does."""

    CSS_PATH = str(Path(__file__).parents[1] / "console" / "console.tcss")

    def dress(self, theme_name: str, *, colours: bool = True) -> None:
        """Use a theme, with or without `colours`. Raises `UsageError` for an unknown theme."""
        self.no_color = not colours
        self.choose_theme(theme_name)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the console's filters, with the filter of NO_COLOR if colours are off."""
        filters = [each for each in super().get_line_filters() if not isinstance(each, Monochrome)]
        return [*filters, Monochrome()] if self.no_color else filters


async def picture(
    start: Callable[[], Driver],
    commands: Sequence[str],
    pose: Pose,
    size: tuple[int, int],
    theme_name: str | None = None,
) -> str:
    """Return the SVG of the console in `pose`, after `commands`; `start` makes its driver."""
    check_size(size)
    app = Posed(start)
    if theme_name is not None:
        app.choose_theme(theme_name)
    async with app.run_test(size=size, notifications=True) as pilot:
        await _strike(pilot, commands, pose)
        return svg(app)


async def in_looks(
    start: Callable[[], Driver],
    takes: Sequence[Take],
    size: tuple[int, int],
    walk: Walk | None = None,
) -> list[Drawing]:
    """Open one console for all `takes`; return the drawing of each.

    `walk` is the tour that the console takes, if any.
    """
    drawn: list[Drawing] = []
    app = Posed(start, walk)
    async with app.run_test(size=size, notifications=True) as pilot:
        for take in takes:
            if take.before:
                await close_boxes(pilot)
                await press(pilot, take.before)
            await _strike(pilot, take.commands, take.pose)
            pictures = {name: await _in_look(pilot, take, name) for name in take.looks}
            drawn.append(Drawing(text(app), pictures))
    return drawn


async def _in_look(pilot: Pilot[None], take: Take, name: str) -> str:
    """Return the SVG of the screen that `take` has reached, in one of `LOOKS`."""
    app = pilot.app
    assert isinstance(app, Posed)
    theme_name, colours = LOOKS[name]
    if (app.theme, app.no_color) != (theme_name, not colours):
        # Textual's own screens do not redraw in another theme: close and reopen them.
        foreign = app.screen if isinstance(app.screen, SystemModalScreen) else None
        if foreign is not None:
            await _patiently(pilot.press("escape"))
        app.dress(theme_name, colours=colours)
        app.refresh_css(animate=False)
        await settle(pilot)
        if foreign is not None:
            await press(pilot, take.pose.keys)
    return svg(app)


async def _strike(pilot: Pilot[None], commands: Sequence[str], pose: Pose) -> None:
    """Execute `commands` and press the keys of the pose."""
    app = pilot.app
    assert isinstance(app, ConsoleApp)
    await settle(pilot)
    for command in commands:
        await close_boxes(pilot)
        app.command(command)
        await settle(pilot)
    if not pose.boxes:
        await close_boxes(pilot)
    await press(pilot, pose.keys)


async def press(pilot: Pilot[None], keys: Sequence[str]) -> None:
    """Press `keys` one after the other, and wait until the screen has settled."""
    for key in keys:
        await _patiently(pilot.press(key))
        update(pilot.app)
    await settle(pilot)


def update(app: App[None]) -> bool:
    """Lay out and draw now, without waiting for the screen's timer, which may be late.

    Return whether anything was to be done.
    """
    screen = app.screen
    due = not app._batch_count and (
        screen._layout_required
        or screen._scroll_required
        or screen._repaint_required
        or screen._dirty_widgets
        or screen._callbacks
    )
    if due:
        screen._on_timer_update()
    return bool(due)


def svg(app: App[None]) -> str:
    """Return the screen as it is now.

    `App.export_screenshot` would also display it in a notebook.
    """
    width, height = app.size
    console = Console(
        width=width,
        height=height,
        file=io.StringIO(),
        force_terminal=True,
        force_jupyter=False,
        color_system="truecolor",
        record=True,
        legacy_windows=False,
        safe_box=False,
    )
    below = app._background_screens
    compositor = app.screen._compositor
    console.print(compositor.render_update(full=True, screen_stack=below, simplify=True))
    return tidy(console.export_svg(title="dynftrace"))


def text(app: App[None]) -> str:
    """Return the text of the screen as it is now, line by line, without trailing blanks."""
    below = app._background_screens
    update = app.screen._compositor.render_update(full=True, screen_stack=below)
    assert isinstance(update, LayoutUpdate)
    rows = ("".join(strip.text for strip in row) for row in update.strips)
    return "".join(row.replace("\N{NO-BREAK SPACE}", " ").rstrip() + "\n" for row in rows)


async def settle(pilot: Pilot[None]) -> None:
    """Wait until the machine's thread is idle and the screen shows its latest view."""
    app = pilot.app
    assert isinstance(app, ConsoleApp)
    quiet = 0
    while quiet < 3:
        await _patiently(pilot.pause(0))
        if app.runner.failure is not None and not app.runner.opened:
            break
        if not app.is_running:
            return  # the console failed; the pilot raises its error
        if not (app.runner.idle and app.tour.drawn):
            quiet = 0
            await asyncio.sleep(0.001)
        elif app.runner.fresh:
            quiet = 0
            app.drain()  # it may ask the machine for more
        else:
            quiet += 1
    app.drain()
    await _patiently(pilot.pause(0))


async def _patiently(waiting: Coroutine[object, object, object]) -> None:
    """Wait for the pilot, but give up on removed widgets, which never answer."""
    with suppress(TimeoutError):
        await asyncio.wait_for(waiting, PATIENCE_S)


async def close_boxes(pilot: Pilot[None]) -> None:
    """Press escape until only the main screen is open."""
    while len(pilot.app.screen_stack) > 1:
        await _patiently(pilot.press("escape"))
        await settle(pilot)
