"""Pane 1: the filter line, the function list and a legend of its signs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Input, Label, Static

from ...present.line import plain
from ...present.view import IN_TRACE, SIGNS, WORDS, Functions, State
from .candidates import shared
from .function_columns import title_line
from .function_list import SCROLLBAR, FunctionList
from .pane import Pane


class FilterInput(Input):
    """The input of the filter: enter and down go to the list, tab completes the last word."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "clear", "clear filter", show=True),
        Binding("enter,down", "list", "to the list", show=True, key_display="enter"),
        Binding("tab", "complete(1)", "complete", show=True),
        Binding("shift+tab", "complete(-1)", "Complete back", show=False),
    ]
    words: Sequence[str] = ()
    """Completions that tab walks through; `chosen` is the index of the one shown."""
    chosen = 0

    def action_clear(self) -> None:
        """Empty the filter and go to the list."""
        self.value = ""
        self.action_list()

    async def action_complete(self, step: int) -> None:
        """Complete the last word, on repetition with each completion; without a word, leave."""
        if not self.value[-1:].strip():
            await self.run_action(f"screen.next_pane({step})")
            return
        if self.words and self.value == self.words[self.chosen]:
            self.chosen = (self.chosen + step) % len(self.words)
        else:
            self.words = self.query_ancestor(FunctionPane).complete(self.value)
            self.chosen = 0 if step > 0 else len(self.words) - 1
            common = shared(self.words) if self.words else ""
            if len(common) > len(self.value):
                self._put(common)
                return
        if self.words:
            self._put(self.words[self.chosen])

    def _put(self, text: str) -> None:
        self.value = text
        self.cursor_position = len(text)

    def action_list(self) -> None:
        """Go to the list."""
        pane = self.query_ancestor(FunctionPane)
        pane.filter(self.value)
        self.screen.set_focus(pane.rows)


class FunctionPane(Pane):
    """Filters while the user types: text matches inside a name, globs are the kernel's."""

    def __init__(self) -> None:
        super().__init__(1)
        self._table: Functions | None = None
        self._titled = ""
        self._titles = Static("", id="function-titles", markup=False)
        self.rows = FunctionList(id="functions")

    def compose(self) -> ComposeResult:
        """Stack the filter line, titles, list and legend."""
        with Horizontal(id="filter-line"):
            yield Label("filter: ", id="filter-label")
            edit = FilterInput(
                placeholder="a glob like vfs_*", id="filter", compact=True, select_on_focus=False
            )
            edit.cursor_blink = False
            yield edit
        yield self._titles
        yield self.rows
        yield Static(_legend(), id="legend")

    def show(self, functions: Functions | None) -> None:
        """Show `functions`."""
        if functions is not self._table:
            self._table = functions
            self.rows.show(functions)
            self._title()
            self._count()

    def on_resize(self) -> None:
        """Lay out the titles for the new width."""
        self.call_after_refresh(self._title)

    def on_function_list_sorted(self) -> None:
        """Show the order in the titles."""
        self._title()

    def _title(self) -> None:
        counted = IN_TRACE if self._table is None else self._table.counted
        text = plain(title_line(counted, self.rows.order, self.rows.size.width - SCROLLBAR))
        if text != self._titled:
            self._titled = text
            self._titles.update(text)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter with each key."""
        event.stop()
        # Read the current text: a later key may have changed it already.
        self.filter(self.query_one(FilterInput).value)

    def filter(self, pattern: str) -> None:
        """Show the functions that `pattern` matches."""
        self.rows.pattern = pattern
        self._count()

    def set_filter(self, pattern: str) -> None:
        """Show the functions that `pattern` matches, and put it into the filter line."""
        self.query_one(FilterInput).value = pattern
        self.filter(pattern)

    def go_to(self, ip: int) -> bool:
        """Put the cursor on the function with the call site at `ip`; see `FunctionList.go_to`."""
        found = self.rows.go_to(ip)
        self.query_one(FilterInput).value = self.rows.pattern
        self._count()
        return found

    def complete(self, text: str) -> Sequence[str]:
        """Return filters that complete `text`."""
        return () if self._table is None else self._table.complete(text)

    def search(self) -> None:
        """Edit the filter."""
        edit = self.query_one(FilterInput)
        self.screen.set_focus(edit)
        edit.select_all()

    def _count(self) -> None:
        if self._table is not None:
            shown, all_ = self.rows.count(), len(self._table)
            self.note(f"{self._table.traced():,} traced │ {shown:,} of {all_:,}")


def _legend() -> Content:
    parts = [
        Content.assemble((SIGNS[state], "bold"), (f" {WORDS[state]}", "dim"))
        for state in (State.TRACED, State.NOP, State.CHOSEN, State.REFUSED)
    ]
    return Content(" ").join(parts)
