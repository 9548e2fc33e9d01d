"""A console that nobody sees costs less: style sheets are parsed once, and nothing is painted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual._compositor import Compositor
from textual.css.stylesheet import RuleSet, Stylesheet


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


def unpainted(patch: pytest.MonkeyPatch) -> None:
    """Paint a screen only when a picture of it is taken."""
    original: Callable[..., object] = Compositor.render_update

    def render_update(self: Compositor, full: bool = False, **named: Any) -> object:
        if full:
            return original(self, full=True, **named)
        self._dirty_regions.clear()
        return None

    patch.setattr(Compositor, "render_update", render_update)
