"""The last line: the most useful keys of the focused widget.

It is one widget without children. Textual's own footer replaces its children with every
change of focus, and each time the whole screen is laid out again.
"""

from __future__ import annotations

from textual import events
from textual.content import Content
from textual.widgets import Static

GAP = "  "


class KeysBar(Static):
    """Shows the key and description of each binding with `show`; a click presses the key."""

    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__("")
        self._places: list[tuple[int, int, str]] = []
        """For each key, its first column, the column after it, and the key."""

    def on_mount(self) -> None:
        """Follow the bindings of this screen."""
        self.screen.bindings_updated_signal.subscribe(self, lambda screen: self._show())
        self._show()

    def _show(self) -> None:
        """Show the keys of the focused widget."""
        # Bindings also change while the app shuts down, after the last screen is gone.
        if not self.is_attached or not self.app.screen_stack:
            return
        parts: list[tuple[str, str]] = []
        self._places = []
        seen: set[str] = set()
        column = 1
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if not binding.show or not active.enabled or binding.action in seen:
                continue
            seen.add(binding.action)
            key = self.app.get_key_display(binding)
            text = f" {binding.description}"
            parts += [(key, "bold $footer-key-foreground"), (text, ""), (GAP, "")]
            end = column + len(key) + len(text)
            self._places.append((column, end, binding.key))
            column = end + len(GAP)
        self.update(Content.assemble(" ", *parts), layout=False)

    def on_click(self, event: events.Click) -> None:
        """Press the key under the mouse."""
        for start, end, key in self._places:
            if start <= event.x < end:
                self.app.simulate_key(key)
