"""A console that nobody sees costs less.

Style sheets are parsed once, little is painted, and waiting posts no messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized
from typing import Any

import pytest
from textual._compositor import Compositor
from textual._context import active_app
from textual.app import App
from textual.css.stylesheet import RuleSet, Stylesheet
from textual.pilot import Pilot
from textual.widget import Widget

from dynftrace.tui.pictures.picture import update


def parse_once(patch: pytest.MonkeyPatch) -> None:
    """Let all apps of the process share the rules parsed from the same text and variables."""
    parsed: dict[object, list[RuleSet]] = {}
    original = Stylesheet._parse_rules

    def parse(self: Stylesheet, *args: Any, **named: Any) -> list[RuleSet]:
        key = frozenset(self._variables.items()), args, frozenset(named.items())
        if key not in parsed:
            parsed[key] = original(self, *args, **named)
        return parsed[key]

    patch.setattr(Stylesheet, "_parse_rules", parse)


def sketch(patch: pytest.MonkeyPatch) -> None:
    """Let widgets draw, but put their lines together only when a picture is taken.

    What is put together for the terminal is the greater part of a repaint, and nobody sees it.
    """
    original: Callable[..., object] = Compositor.render_update

    def render_update(self: Compositor, full: bool = False, **named: Any) -> object:
        if full:
            return original(self, full=True, **named)
        changed = self._dirty_regions.copy()
        self._dirty_regions.clear()
        for widget, (region, _) in self.visible_widgets.items():
            if any(map(region.overlaps, changed)):
                _draw(widget)
        return None

    patch.setattr(Compositor, "render_update", render_update)


def _draw(widget: Widget) -> None:
    """Draw what is inside the border of `widget`."""
    if type(widget).render_line is Widget.render_line:
        widget.render()
    else:
        for y in range(widget.size.height):
            widget.render_line(y)


QUIET = 4
"""Turns of the event loop with nothing to do after which the screen waits for nothing."""


async def quiet(app: App[Any]) -> bool:
    """Wait until neither event loop nor screen has something to do.

    Return False if the app has no screen.
    """
    ready: Sized = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    turns = 0
    while turns < QUIET and not app._exception_event.is_set():
        await asyncio.sleep(0)
        if not app.is_running or not app.screen_stack:
            return False
        turns = 0 if ready else turns + 1
        if turns == QUIET and update(app):
            turns = 0
    return True


def look_at_the_loop(patch: pytest.MonkeyPatch) -> None:
    """Have a pilot wait until no widget has a message, instead of for a message to each of them.

    A message in a queue wakes the task that reads it, so the event loop knows that one is there.

    A message to each widget, several times for each key, is half of the work of many tests. And
    after each key, Textual sleeps until the process has been idle for a while, twice: most of
    the time of tests that type.
    """
    original = Pilot._wait_for_screen

    async def wait(self: Pilot[Any], timeout: float = 30.0) -> bool:
        if not await quiet(self.app):
            return await original(self, timeout)
        return not self.app._exception_event.is_set()

    async def until_idle(min_sleep: float = 0, max_sleep: float = 1) -> None:
        await quiet(active_app.get())

    patch.setattr(Pilot, "_wait_for_screen", wait)
    patch.setattr("textual.app.wait_for_idle", until_idle)
