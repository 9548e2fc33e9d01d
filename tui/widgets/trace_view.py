"""The trace: events as the file `trace` shows them, followed or held still."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive

from .. import keymap
from ..messages import CommandWanted, FunctionWanted
from ..spans import Line, highlight
from ..view import Trace
from .rows import Rows

_EVENT = re.compile(
    r"(?P<task>.{16,}?-\S+ +)(?P<cpu>\[\d+\] )(?P<flags>\S{5} )?"
    r"(?P<time> *\d+(?:\.\d+)?: )(?P<function>\S+)(?P<parent> (?:<-|\().*)?"
)
_GRAPH = re.compile(
    r"(?P<head>(?:[ \d]+\.\d{6} \|  )?(?: +\d+\) )?(?:\s*\S+-\d+\s+\| )?)"
    r"(?P<mark>[ $@*#!+])(?P<duration> [ \d.us]{12}\|  )"
    r"(?P<indent> *)(?P<function>[^\s(){}/]+)?(?P<rest>.*)"
)
_BLOCK = 64


@dataclass(frozen=True, slots=True)
class Mark:
    """An event that was marked: it is found again however the buffer turns."""

    time: int
    text: str


class TraceView(Rows):
    """Shows a `Trace`; while `follow` is on, the newest event stays in sight.

    Moving up holds the trace: the table on the screen stays as it is, however
    much the machine overwrites, until `follow` is switched on again or the
    cursor goes to the last row.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*keymap.TRACE]

    follow: reactive[bool] = reactive(True, repaint=False, init=False)
    needle: reactive[str] = reactive("", repaint=False, init=False)

    class Held(Message):
        """Follow was switched, or `pending` more events wait behind the held table."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.trace: Trace | None = None
        self._newest: Trace | None = None
        self._blocks: dict[int, Sequence[str]] = {}
        self.marks: dict[str, Mark] = {}
        """Markers A and B, by their letters."""

    @property
    def pending(self) -> int:
        """Events written since the trace was held."""
        if self.trace is None or self._newest is None:
            return 0
        return max(0, self._newest.written - self.trace.written)

    def show(self, trace: Trace | None) -> None:
        """Take a new trace; a held one stays unless the buffer was cleared."""
        if trace is self._newest:
            return
        self._newest = trace
        cleared = trace is None or self.trace is None or trace.written < self.trace.written
        if self.follow or cleared:
            self._take()
        else:
            self.post_message(self.Held())

    def _take(self) -> None:
        self.trace = self._newest
        self._blocks.clear()
        self.changed(self.count() - 1 if self.follow else None)
        self.post_message(self.Held())

    def count(self) -> int:
        """Events shown."""
        return 0 if self.trace is None else len(self.trace)

    def row_width(self) -> int:
        """Room for long names: rows are wider than an 80-column pane."""
        return 110 if self.count() else 0

    def line(self, row: int, width: int) -> Line:
        """The event as the kernel prints it, a marker's letter in its first column."""
        text = self.text(row)
        line = highlight(event_line(text), self.needle)
        for letter, mark in self.marks.items():
            if mark.text == text and self.trace is not None and self.trace.time(row) == mark.time:
                first, tone = line[0]
                return (letter, "mark"), (first[1:], tone), *line[1:]
        return line

    def text(self, row: int) -> str:
        """The plain text of row `row`, formatted with its neighbours."""
        if self.trace is None:
            return ""
        start = row - row % _BLOCK
        block = self._blocks.get(start)
        if block is None:
            if len(self._blocks) > 64:
                self._blocks.clear()
            block = self.trace.lines(start, min(start + _BLOCK, len(self.trace)))
            self._blocks[start] = block
        return block[row - start] if row - start < len(block) else ""

    def watch_cursor(self, old: int, new: int) -> None:
        """Leaving the last row holds the trace."""
        super().watch_cursor(old, new)
        if self.follow and new < old:
            self.follow = False

    def watch_follow(self, follow: bool) -> None:
        """Catch up when following again."""
        if follow:
            self._take()
        else:
            self.post_message(self.Held())

    def watch_needle(self) -> None:
        """Mark what is searched."""
        self.changed()

    def _on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Looking back with the wheel holds the trace too."""
        self.follow = False
        super()._on_mouse_scroll_up(event)

    def action_follow(self) -> None:
        """Hold, or follow."""
        self.follow = not self.follow

    def action_last(self) -> None:
        """The last row follows."""
        self.follow = True
        super().action_last()

    def action_find(self, step: int) -> None:
        """Go to the next row, in direction `step`, that contains what was searched."""
        if self.trace is None or not self.needle:
            self.notify("nothing searched yet: / searches", timeout=3)
            return
        row = self.trace.find(self.needle, self.cursor + step, step)
        if row is None:
            where = "below" if step > 0 else "above"
            self.notify(f"no {self.needle!r} {where}", timeout=3)
            return
        self.follow = False
        self.cursor = row

    def action_mark(self) -> None:
        """Put marker A on the row, or B where A is set."""
        if self.trace is None or self.cursor >= self.count():
            return
        self.follow = False
        letter = "B" if "A" in self.marks else "A"
        self.marks[letter] = Mark(self.trace.time(self.cursor), self.text(self.cursor))
        self._marked()

    def action_unmark(self) -> None:
        """Take both markers off."""
        self.marks.clear()
        self._marked()

    def _marked(self) -> None:
        self.changed()
        self.post_message(self.Held())

    @property
    def between(self) -> int | None:
        """From the stamp at marker A to that at B; None where one is missing."""
        if len(self.marks) < 2:
            return None
        return self.marks["B"].time - self.marks["A"].time

    def action_open_site(self) -> None:
        """Show the function of the event."""
        if self.trace is not None and self.cursor < self.count():
            key = self.trace.site(self.cursor)
            if key is not None:
                self.post_message(FunctionWanted(key))

    def action_registers(self) -> None:
        """Show the registers that the event saved, or the last one before it that saved any."""
        hit = None
        if self.trace is not None and self.cursor < self.count():
            hit = self.trace.hit(self.cursor)
        if hit is None:
            self.notify("no event up to here saved registers: see dynamic_events", timeout=3)
        else:
            self.post_message(CommandWanted(f"regs hit {hit}"))

    def search(self, needle: str) -> None:
        """Search for `needle` from the cursor upwards first, as the newest rows are last."""
        self.needle = needle
        if not needle or self.trace is None:
            return
        row = self.trace.find(needle, self.cursor, -1)
        if row is None:
            row = self.trace.find(needle, self.cursor + 1, 1)
        if row is None:
            self.notify(f"no {needle!r} in the trace", timeout=3)
            return
        self.follow = False
        self.cursor = row
        self.refresh(Region(0, 0, self.size.width, self.size.height))


def event_line(text: str) -> Line:
    """Tones for a line of the trace; what does not look like an event stays plain."""
    match = _EVENT.fullmatch(text)
    if match is None:
        return graph_line(text)
    return (
        (match["task"], ""),
        (match["cpu"], "dim"),
        (match["flags"] or "", "dim"),
        (match["time"], "accent"),
        (match["function"], "strong"),
        (match["parent"] or "", "dim"),
    )


def graph_line(text: str) -> Line:
    """Tones for a line of the function graph, where the mark of a long duration stands out."""
    match = _GRAPH.fullmatch(text)
    if match is None:
        return ((text, ""),)
    return (
        (match["head"], "dim"),
        (match["mark"], "accent"),
        (match["duration"], "dim"),
        (match["indent"], ""),
        (match["function"] or "", "strong"),
        (match["rest"], ""),
    )
