"""A console that nobody sees costs less: style sheets are parsed once, little is painted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual._compositor import Compositor
from textual.css.stylesheet import RuleSet, Stylesheet
from textual.widget import Widget


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
