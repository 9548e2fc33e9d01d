"""The help: every key, beginning with the keys of the focused pane."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from textual.binding import Binding

from ...present.line import Line, line, plain
from ...present.view import PATCH, RACE, SIGNS, STEPPING, TONES, State
from .. import keymap
from .box import Box

TWO_COLUMNS = 120
"""Minimum width at which the help has two columns."""

_COLUMN = 54
_KEYS = 14

_CODE = "Call site, trampoline"

_OWN = {
    **{1: "Functions", 2: _CODE, 3: _CODE, 4: "Trace"},
    **{STEPPING: "Stepping", PATCH: "Patch", RACE: "Race"},
}
"""The keymap group of each pane."""

_STATES = {
    State.TRACED: "traced: its site holds a call",
    State.NOP: "off: its site holds a nop",
    State.CHOSEN: "chosen for the tracer, which is off",
}

_STATUS = (
    ("tracer nop", "no tracer: no function is traced"),
    ("tracing on", "tracers may write events"),
    ("overwritten", "old events of a full buffer, now gone"),
    ("stop_machine", "how text is patched: all CPUs wait"),
)

_WORDS: dict[int, tuple[tuple[str, str], ...]] = {
    1: (
        ("events", "calls of it in the trace"),
        ("chosen", "named in set_ftrace_filter"),
        ("refused", "ftrace found other bytes at its site"),
        *_STATUS,
    ),
    2: (
        ("call site", "the call that the compiler inserted"),
        ("as compiled", "the bytes in the kernel's file"),
        ("expected", "what ftrace wrote here last"),
        ("now", "what guest memory holds"),
        ("user", "a tracer that wants this function"),
        ("global_ops", "the user behind current_tracer"),
    ),
    3: (
        ("ftrace_caller", "saves registers, calls the tracer"),
        ("ftrace_call", "the place in it that calls the tracer"),
        ("ftrace_stub", "returns at once: nothing is traced"),
        ("stub", "code on the way to a far function"),
    ),
    4: (
        ("TASK-PID", "who called"),
        ("CPU#", "where"),
        ("1st flag", "d interrupts off, b softirqs, D both"),
        ("2nd flag", "n wants to reschedule, N p B L b l too"),
        ("3rd flag", "h in an interrupt, s softirq, H both"),
        ("4th, 5th", "depth of preempt_, of migrate_disable"),
        ("5us+", "us since the start, + >10, ! >100, # >1 ms"),
        ("a <-b", "function a, called by b"),
        *_STATUS[2:3],
    ),
    STEPPING: (
        ("path", "site, stub, caller, slot, tracer"),
        ("*", "register changed by the last step"),
        ("clock", "this CPU's; others may be ahead"),
    ),
    PATCH: (
        ("▶", "the phase that comes next; pc in a CPU's row"),
        ("[ ]", "bytes that a phase changes"),
        ("mem", "the site's bytes in memory"),
        ("C0", "as CPU 0 would fetch them"),
        ("stale", "its translated code is older than memory"),
        ("!", "the phase is not safe"),
    ),
    RACE: (
        ("makes", "the patch writes a call, or a nop"),
        ("site+4", "bytes from the start of the site to pc"),
        ("inside", "pc is in the middle of the site"),
        ("lost r2", "it oopsed: its TOC pointer is wrong"),
        ("stale", "it executed the old text"),
        ("event lost", "it made no event with the new text"),
        ("▶", "where you are"),
    ),
}

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
    own = _OWN[pane]
    over = {STEPPING: keymap.STEPPING, PATCH: keymap.PATCH, RACE: keymap.RACE}
    if pane in over:
        # The keys of the main screen have no meaning here, or another one.
        groups = {own: over[pane], "Everywhere": keymap.APP, "Tour": keymap.TOUR}
    else:
        over_it = [*over.values(), keymap.PICTURE]
        groups = {name: keys for name, keys in keymap.GROUPS.items() if keys not in over_it}
    first = [own, "Everywhere"]
    rest = [name for name in ("Rows", *groups) if name in groups and name not in first]
    keys, everywhere = (_section(name, groups[name]) for name in first)
    left = [*keys, *_words(pane), *everywhere]
    right = [row for name in dict.fromkeys(rest) for row in _section(name, groups[name])]
    right += [] if pane in over else _signs()
    if width < TWO_COLUMNS:
        return (*left, *right)
    return tuple(
        line(*(a or ()), " " * (_COLUMN - len(plain(a or ()))), *(b or ()))
        for a, b in zip_longest(left, right)
    )


def _words(pane: int) -> list[Line]:
    """Return the words that a pane uses, with their meanings."""
    rows = [_row(word, "accent", meaning) for word, meaning in _WORDS[pane]]
    return [line(("Words", "strong")), *rows, line("")]


def _section(name: str, bindings: Sequence[Binding]) -> list[Line]:
    rows = [line((name, "strong"))]
    for binding in bindings:
        if binding.id == "main.pane1":
            rows.append(_row("1 2 3 4", "accent", "go to a pane"))
        elif not (binding.id or "").startswith("main.pane"):
            rows.append(_row(_keys(binding), "accent", binding.tooltip))
    return [*rows, line("")]


def _signs() -> list[Line]:
    rows = [line(("Signs", "strong"))]
    for state in (State.TRACED, State.NOP, State.CHOSEN):
        rows.append(_row(SIGNS[state], TONES[state], _STATES[state]))
    rows.append(_row("*", "accent", "changed since compiled or loaded"))
    rows.append(_row("!", "bad", "not what ftrace expects"))
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
