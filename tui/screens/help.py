"""The help: every key, those of the focused pane first."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding

from .. import keymap
from ..spans import Line, line
from ..view import SIGNS, TONES, WORDS, State
from .box import Box

_PANE_GROUPS = {1: ("Functions", "Rows"), 2: ("Rows",), 3: ("Rows",), 4: ("Trace", "Rows")}

_NAMES = {
    "question_mark": "?",
    "slash": "/",
    "colon": ":",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "f1": "F1",
    "f8": "F8",
    "pageup": "PgUp",
    "pagedown": "PgDn",
}


class HelpBox(Box):
    """The keys, from the keymap itself."""

    def __init__(self, pane: int) -> None:
        super().__init__("Keys", help_lines(pane), classes="help")

    def compose(self) -> ComposeResult:
        """As any box."""
        yield from super().compose()


def help_lines(pane: int) -> tuple[Line, ...]:
    """The text of the help while pane `pane` has the focus."""
    first = _PANE_GROUPS[pane]
    order = [*first, "Everywhere", *(name for name in keymap.GROUPS if name not in first)]
    lines: list[Line] = []
    for name in dict.fromkeys(order):
        lines.append(line((name, "strong")))
        lines += [_key_line(binding) for binding in keymap.GROUPS[name]]
        lines.append(line(""))
    lines.append(line(("Signs in the function list", "strong")))
    for state in (State.TRACED, State.NOP, State.CHOSEN, State.REFUSED):
        lines.append(line("  ", (f"{SIGNS[state]:<14}", TONES[state]), WORDS[state]))
    lines.append(line(""))
    lines.append(line(("The filter", "strong")))
    for text in (
        "plain text matches anywhere in a name; * ? [a-z] are the kernel's globs",
        "*:mod:usbcore shows a module, !*lock* leaves out what it matches",
    ):
        lines.append(line("  " + text))
    return tuple(lines)


def _key_line(binding: Binding) -> Line:
    keys = " ".join(_NAMES.get(key, key) for key in binding.key.split(","))
    return line("  ", (f"{keys:<14}", "accent"), binding.tooltip)
