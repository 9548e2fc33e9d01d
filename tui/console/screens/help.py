"""The help: every key, beginning with the keys of the focused pane."""

from __future__ import annotations

from itertools import zip_longest

from textual.binding import Binding

from ...present.line import Line, line, plain
from ...present.view import SIGNS, STEPPING, TONES, WORDS, State
from .. import keymap
from .box import Box

TWO_COLUMNS = 120
"""Least width at which the help has two columns."""

_COLUMN = 54
_KEYS = 14

_CODE = "Call site, trampoline"

_OWN = {1: "Functions", 2: _CODE, 3: _CODE, 4: "Trace", STEPPING: "Stepping"}
"""The group of keys a pane has for itself."""

_NAMES = {
    "question_mark": "?",
    "slash": "/",
    "colon": ":",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    **{f"f{number}": f"F{number}" for number in range(1, 13)},
    "minus": "-",
    "plus": "+",
    "underscore": "_",
    "pageup": "PgUp",
    "pagedown": "PgDn",
}


class HelpBox(Box):
    """The keys, from the keymap itself."""

    def __init__(self, pane: int, width: int) -> None:
        super().__init__("Keys", help_lines(pane, width), classes="help")


def help_lines(pane: int, width: int = 80) -> tuple[Line, ...]:
    """Return the help while pane `pane` has the focus, for a window `width` wide."""
    if pane in _OWN:
        first, rest = [_OWN[pane], "Everywhere"], ["Rows"]
    else:
        first, rest = ["Everywhere", "Functions"], ["Rows"]
    rest += [name for name in keymap.GROUPS if name not in first + rest]
    left = [row for name in first for row in _section(name)]
    right = [*(row for name in rest for row in _section(name)), *_signs()]
    if width < TWO_COLUMNS:
        return (*left, *right)
    return tuple(
        line(*(a or ()), " " * (_COLUMN - len(plain(a or ()))), *(b or ()))
        for a, b in zip_longest(left, right)
    )


def _section(name: str) -> list[Line]:
    rows = [line((name, "strong"))]
    for binding in keymap.GROUPS[name]:
        if binding.id == "main.pane1":
            rows.append(_row("1 2 3 4", "accent", "go to a pane"))
        elif not (binding.id or "").startswith("main.pane"):
            rows.append(_row(_keys(binding), "accent", binding.tooltip))
    return [*rows, line("")]


def _signs() -> list[Line]:
    rows = [line(("Signs", "strong"))]
    for state in (State.TRACED, State.NOP, State.CHOSEN, State.REFUSED):
        rows.append(_row(SIGNS[state], TONES[state], f"{WORDS[state]} function"))
    rows.append(_row("*", "accent", "byte changed since it was loaded"))
    rows.append(_row("!", "bad", "byte ftrace does not expect"))
    rows += [line(""), line(("Function filter", "strong"))]
    rows.append(_row("sched", "accent", "names that contain it"))
    rows.append(_row("vfs_* [a-m]*?", "accent", "globs of the kernel"))
    rows.append(_row(":mod:usbcore", "accent", "functions of a module"))
    rows.append(_row("!*lock*", "accent", "leave these out"))
    rows += [line(""), line(("Trace filter", "strong"))]
    rows.append(_row("sched vfs_*", "accent", "functions, as in pane 1"))
    rows.append(_row("func:schedule", "accent", "only this one"))
    rows.append(_row("task:sh", "accent", "by name; pid:7 by number"))
    rows.append(_row("cpu:0,2-3", "accent", "of these CPUs; !cpu:1 leaves one out"))
    rows.append(_row("in the kernel", "accent", "set_ftrace_filter/_pid tracing_cpumask"))
    return rows


def _row(keys: str, tone: str, text: str) -> Line:
    return line("  ", (f"{keys:<{_KEYS}}", tone), text)


def _keys(binding: Binding) -> str:
    return " ".join(_NAMES.get(key, key) for key in binding.key.split(","))
