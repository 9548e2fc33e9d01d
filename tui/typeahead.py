"""Keys in their order, however fast they come.

The toolkit hands a key to the widget that has the focus, through a queue, and moves the
focus through another: what is typed within some ms behind a key that moves it goes to the
widget that had it before, where it is lost. Here all of a key's work is done before the next
key is looked at; and where that work goes on in messages, the keys behind it wait until
these have arrived.
"""

from __future__ import annotations

from collections import deque

from textual import events
from textual.app import App
from textual.widgets import Input

from .widgets.rows import Rows


class TypeAhead(App[None]):
    """An app whose lists and inputs get each key where the one before it has left the focus."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: deque[events.Key | events.Paste] = deque()
        self._holding = False

    def hold_keys(self) -> None:
        """Have the keys from here on wait for `release_keys`."""
        self._holding = True

    def release_keys(self) -> None:
        """Go on with the keys that wait, and with those that come."""
        self.call_later(self._go_on)

    async def _go_on(self) -> None:
        self._holding = False
        while self._waiting and not self._holding:
            await self._typed(self._waiting.popleft())

    async def on_event(self, event: events.Event) -> None:
        """Do a key's work here instead of in the widget's own time."""
        if not isinstance(event, events.Key | events.Paste) or event.is_forwarded:
            await super().on_event(event)
        elif self._holding or self._waiting:
            self._waiting.append(event)
        else:
            await self._typed(event)

    async def _typed(self, event: events.Key | events.Paste) -> None:
        focused = self.focused
        if not isinstance(focused, Rows | Input) or self.screen.maximized is not None:
            await super().on_event(event)
        elif isinstance(event, events.Key):
            await self._key(focused, event)
        elif isinstance(focused, Input):
            focused._on_paste(event)
        else:
            self.pasted(event.text)

    async def _key(self, focused: Rows | Input, event: events.Key) -> None:
        self.app_focus = True
        if await self._check_bindings(event.key, priority=True):
            return
        if isinstance(focused, Input) and event.is_printable:
            await focused._on_key(event)
        else:
            await self._check_bindings(event.key)

    def pasted(self, text: str) -> None:
        """Take `text`, which was pasted where nothing is edited."""
