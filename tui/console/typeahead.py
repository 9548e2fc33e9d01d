"""Handles keys in the order they were typed, however fast they arrive.

Textual sends a key to the focused widget through one queue and moves the focus through
another: a key typed within a few ms after a key that moves the focus goes to the old widget and is
lost. Here each key is handled completely before the next one; if handling it posts messages, the
keys after it wait until those have arrived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from textual import events
from textual.app import App
from textual.widget import Widget
from textual.widgets import Input


class TypeAhead(App[None]):
    """An app that gives each key to the widget that the previous key has focused."""

    def __init__(self, is_list: Callable[[Widget], bool]) -> None:
        """Handle the keys of inputs, and of the widgets for which `is_list` is true."""
        super().__init__()
        self._is_list = is_list
        self._waiting: deque[events.Key | events.Paste] = deque()
        self._holding = False

    def hold_keys(self) -> None:
        """Make the following keys wait for `release_keys`."""
        self._holding = True

    def release_keys(self) -> None:
        """Handle the waiting keys, and from now on each key as it arrives."""
        self.call_later(self._go_on)

    async def _go_on(self) -> None:
        self._holding = False
        while self._waiting and not self._holding:
            await self._typed(self._waiting.popleft())

    async def on_event(self, event: events.Event) -> None:
        """Handle a key now, instead of in the widget's own queue."""
        if not isinstance(event, events.Key | events.Paste) or event.is_forwarded:
            await super().on_event(event)
        elif self._holding or self._waiting:
            self._waiting.append(event)
        else:
            await self._typed(event)

    async def _typed(self, event: events.Key | events.Paste) -> None:
        if not self.screen_stack:  # the console is closing
            return
        focused = self.focused
        handled = isinstance(focused, Input) or (focused is not None and self._is_list(focused))
        if focused is None or not handled or self.screen.maximized is not None:
            await super().on_event(event)
        elif isinstance(event, events.Key):
            await self._key(focused, event)
        elif isinstance(focused, Input):
            focused._on_paste(event)
        else:
            self.pasted(event.text)

    async def _key(self, focused: Widget, event: events.Key) -> None:
        self.app_focus = True
        if await self._check_bindings(event.key, priority=True):
            return
        if isinstance(focused, Input) and event.is_printable:
            await focused._on_key(event)
        else:
            await self._check_bindings(event.key)

    def pasted(self, text: str) -> None:
        """Accept `text`, pasted while no text is being edited."""
