"""A picture of the console, made without a terminal.

The same app runs headless: commands are executed as if typed, keys pressed,
and the screen exported as SVG once nothing is left to do. There is no clock
and no blinking in it, so equal input gives equal bytes.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.pilot import Pilot

from ..core.errors import UsageError
from .app import ConsoleApp
from .tourwalk import Walk
from .worker import Driver

if TYPE_CHECKING:
    from ..core.session import Session


PATIENCE_S = 2.0
"""Host seconds after which a widget that has not answered is taken to be gone."""


@dataclass(frozen=True, slots=True)
class Pose:
    """How a screen is reached: keys to press. `boxes` says whether boxes stay open."""

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
    "output": Pose(boxes=True),
    "report": Pose(boxes=True),
}
"""The screens `--screen` takes."""


def take_picture(
    open_session: Callable[[], Session], commands: str, screen: str, size: tuple[int, int]
) -> str:
    """The SVG of `screen` at `size` (columns, rows) after `commands`.

    Commands are executed line by line. `output` and `report` show the box the
    last one opened. Raises `UsageError` for a screen that does not exist or a
    size out of range, and what `open_session` raises.
    """
    from .driver import SessionDriver

    pose = POSES.get(screen)
    if pose is None:
        raise UsageError(f"no screen {screen!r}; there is: {', '.join(POSES)}")
    check_size(size)
    session = open_session()
    lines = [text for text in commands.splitlines() if text.strip()]
    return asyncio.run(picture(lambda: SessionDriver(session), lines, pose, size))


def parse_size(text: str) -> tuple[int, int]:
    """Columns and rows of `120x40`; raises `UsageError`."""
    match = re.fullmatch(r"(\d{1,4})x(\d{1,4})", text)
    if match is None:
        raise UsageError(f"a size is COLUMNSxROWS such as 120x40, not {text!r}")
    return int(match[1]), int(match[2])


def check_size(size: tuple[int, int]) -> None:
    """Raise `UsageError` for a size that is no terminal's."""
    width, height = size
    if not (20 <= width <= 500 and 5 <= height <= 300):
        raise UsageError(f"a size must be within 20x5 and 500x300, not {width}x{height}")


async def picture(
    start: Callable[[], Driver],
    commands: Sequence[str],
    pose: Pose,
    size: tuple[int, int],
    walk: Walk | None = None,
) -> str:
    """As `take_picture`, for any driver and pose, within an event loop; `walk` is a tour."""
    check_size(size)
    app = ConsoleApp(start, walk)
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        for command in commands:
            await _close_boxes(pilot)
            app.command(command)
            await settle(pilot)
        if not pose.boxes:
            await _close_boxes(pilot)
        for key in pose.keys:
            await _patiently(pilot.press(key))
        await settle(pilot)
        return svg(app)


def svg(app: ConsoleApp) -> str:
    """The screen as it is, with ids that do not depend on its content."""
    text = app.export_screenshot(title="dynftrace")
    return re.sub(r"\bterminal-\d+-", "terminal-", text)


async def settle(pilot: Pilot[None]) -> None:
    """Wait until the machine's thread has nothing to do and the screen shows what it made."""
    app = pilot.app
    assert isinstance(app, ConsoleApp)
    quiet = 0
    while quiet < 3:
        await _patiently(pilot.pause(0.001))
        if app.runner.failure is not None and not app.runner.opened:
            break
        if not app.is_running:
            return  # it ended by an error of its own, which the pilot raises
        if app.runner.idle:
            quiet += 1
        else:
            quiet = 0
            await asyncio.sleep(0.002)
    app.drain()
    await _patiently(pilot.pause(0.001))


async def _patiently(waiting: Coroutine[object, object, object]) -> None:
    """Wait for the pilot, which waits for every widget, but not long for one that has gone."""
    with suppress(TimeoutError):
        await asyncio.wait_for(waiting, PATIENCE_S)


async def _close_boxes(pilot: Pilot[None]) -> None:
    while len(pilot.app.screen_stack) > 1:
        await _patiently(pilot.press("escape"))
        await settle(pilot)
