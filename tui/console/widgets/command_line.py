"""The line at the bottom: a command after `:`, a search after `/`, the trace's filter after `F`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input, Label

from ...explore.filter_completion import PLACEHOLDER
from ..messages import (
    CommandWanted,
    FilterEdited,
    FilterWanted,
    LineClosed,
    LineDone,
    LineEdited,
    SearchWanted,
)
from ..typeahead import TypeAhead
from .candidates import Candidates, shared

OPEN = ("/", ":")
"""Endings of a candidate that the user continues in the same word."""


class Edit(Input):
    """The input: tab completes, up and down walk through the history."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "cancel", show=True),
        Binding("tab", "complete(1)", "complete", show=True),
        Binding("shift+tab", "complete(-1)", "Complete back", show=False),
        Binding("up", "history(-1)", "history", show=True, key_display="↑"),
        Binding("down", "history(1)", "Newer", show=False),
        Binding("ctrl+r", "search", "search the history", show=False),
        Binding("enter", "submit", "run", show=True, key_display="enter"),
    ]

    def action_leave(self) -> None:
        """Close the line without submitting it."""
        self._hold_keys()
        self.post_message(LineClosed())
        self.post_message(LineDone())

    async def action_submit(self) -> None:
        """Submit the text; the keys typed after it are not for this line."""
        self._hold_keys()
        await super().action_submit()

    def _hold_keys(self) -> None:
        if isinstance(self.app, TypeAhead):
            self.app.hold_keys()

    def action_complete(self, step: int) -> None:
        """Take the next candidate."""
        line = self.query_ancestor(CommandLine)
        line.complete(step)

    def action_history(self, step: int) -> None:
        """Show an older or newer line."""
        self.query_ancestor(CommandLine).recall(step)

    def action_search(self) -> None:
        """Show the next older line that contains the typed text."""
        self.query_ancestor(CommandLine).search()


class CommandLine(Horizontal):
    """Edits a command (`:`), a search (`/`) or the trace's filter (`F`), each with its history."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.prefix = ":"
        self._history: dict[str, list[str]] = {":": [], "/": [], "F": []}
        self._at = 0
        self._words: Sequence[str] = ()
        self._hint = ""
        self._chosen: int | None = None
        self._typed = ""
        self._setting = ""
        self._wanted: str | None = None
        """What `search` looks for; None before its first step."""

    def compose(self) -> ComposeResult:
        """Put a prefix before the input."""
        yield Label(":", id="line-prefix")
        # If focus selected the text, the next key would replace what was typed so far.
        edit = Edit(id="line-edit", compact=True, select_on_focus=False)
        edit.cursor_blink = False
        yield edit

    @property
    def edit(self) -> Edit:
        """The input."""
        return self.query_one(Edit)

    def open(self, prefix: str, text: str = "") -> None:
        """Edit `text` after `prefix`."""
        self._open(prefix, text)
        self._ask(text)

    def _open(self, prefix: str, text: str) -> None:
        self.prefix = prefix
        self._at = len(self._history[prefix])
        self._chosen = self._wanted = None
        self._words, self._hint = (), ""
        self.query_one(Label).update("filter " if prefix == "F" else prefix)
        self.display = True
        self._put(text)
        self.edit.placeholder = PLACEHOLDER if prefix == "F" else ""
        self.screen.set_focus(self.edit)

    def correct(self, text: str, column: int, reason: str) -> None:
        """Edit `text` again: `reason` explains the error in the word at `column`."""
        if self.display:
            return  # the user is typing another line by now
        self._open(":", text)
        self.edit.cursor_position = column
        self._candidates().show_wrong(reason, column)

    def close(self) -> None:
        """Stop editing and hide."""
        self.display = False
        self._candidates().show((), None)

    def offer(self, text: str, words: Sequence[str], hint: str = "") -> None:
        """Offer `words` and a `hint` for `text`, unless it has changed since."""
        if self.display and self.prefix != "/" and text == self._typed:
            self._words, self._hint = words, hint
            self._chosen = None
            self._candidates().show(words, None, hint)

    def complete(self, step: int) -> None:
        """Insert the candidates' common prefix; on repetition, one candidate after another."""
        if not self._words:
            return
        if self._chosen is None:
            common = shared(self._words)
            if len(self._words) == 1 and not common.endswith(OPEN):
                # The word is complete: ask for the next one.
                self._put(common + " ")
                self._words = ()
                self._ask(self._typed)
                return
            if len(common) > len(self._typed) and len(self._words) > 1:
                self._put(common)
                self._typed = common
                self._ask(common)
                return
            self._chosen = 0 if step > 0 else len(self._words) - 1
        else:
            self._chosen = (self._chosen + step) % len(self._words)
        self._put(self._words[self._chosen])
        self._candidates().show(self._words, self._chosen, self._hint)

    def recall(self, step: int) -> None:
        """Show an older (-1) or newer (1) line."""
        history = self._history[self.prefix]
        self._at = max(0, min(self._at + step, len(history)))
        self._put(history[self._at] if self._at < len(history) else "")

    def search(self) -> None:
        """Show the next older line that contains the text typed before the first search."""
        if self._wanted is None:
            self._wanted = self._typed
        history = self._history[self.prefix]
        found = [at for at in range(self._at) if self._wanted in history[at]]
        if found:
            self._at = found[-1]
            self._put(history[self._at])
        elif self.prefix != "/":
            self._candidates().show((), None, f"no older line contains {self._wanted!r}")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Ask for candidates after the user has typed."""
        event.stop()
        if event.value == self._setting:
            return
        self._wanted = None
        self._setting = self._typed = event.value
        self._ask(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Post the text as the message of its prefix."""
        event.stop()
        text = event.value.strip()
        history = self._history[self.prefix]
        if text and (not history or history[-1] != text):
            history.append(text)
        self.post_message(LineClosed())
        if self.prefix == "/":
            self.post_message(SearchWanted(text))
        elif self.prefix == "F":
            self.post_message(FilterWanted(text))
        elif text:
            self.post_message(CommandWanted(text, typed=True))
        self.post_message(LineDone())

    def _ask(self, text: str) -> None:
        """Ask for candidates; a search has none."""
        if self.prefix == ":":
            self.post_message(LineEdited(text))
        elif self.prefix == "F":
            self.post_message(FilterEdited(text))

    def _put(self, text: str) -> None:
        self._setting = text
        if self._chosen is None:
            self._typed = text
        self.edit.value = text
        self.edit.cursor_position = len(text)

    def _candidates(self) -> Candidates:
        return self.screen.query_one(Candidates)
