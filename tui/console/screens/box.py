"""A box over the main screen: a command's output, help, or a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from ...present.line import Line, plain
from .. import keymap
from ..tour_layout import beside_tour
from ..widgets.keys_bar import KeysBar
from ..widgets.rows import Rows
from ..widgets.text_view import TextView
from .tourkeys import TOURING, TourKeys


class BoxText(TextView):
    """The text in a box: keys scroll it, and `y` copies all of it."""

    BINDINGS: ClassVar[list[BindingType]] = [keymap.BOX_COPY]
    HAS_CURSOR = False

    def action_copy_all(self) -> None:
        """Copy all lines."""
        if isinstance(self.screen, Box):
            self.screen.copy()


class Box(TourKeys, ModalScreen[str | None]):
    """Shows lines in a frame; `escape` closes it."""

    TEXT: type[TextView] = BoxText
    """The widget for the lines."""

    BINDINGS: ClassVar[list[BindingType]] = [*keymap.BOX, *keymap.THROUGH]

    def __init__(
        self, title: str, lines: Sequence[Line], *, copy: str | None = None, classes: str = ""
    ) -> None:
        super().__init__(classes=classes)
        self._title = title
        self._lines = lines
        self._copy = copy

    def compose(self) -> ComposeResult:
        """Compose the frame, the lines and the keys."""
        with Vertical(id="box"):
            yield self.TEXT(self._lines, id="box-lines")
        yield KeysBar()

    def on_mount(self) -> None:
        """Fit the frame to its lines."""
        box = self.query_one("#box", Vertical)
        box.border_title = self._title
        box.styles.height = len(self._lines) + 2
        widest = max((len(plain(line)) for line in self._lines), default=0)
        # Border, padding, and room for a scrollbar.
        box.styles.width = max(widest, len(self._title) + 4, 40) + 7

    def on_resize(self) -> None:
        """Leave the panel of a tour uncovered: it explains what the box shows."""
        if self.app.has_class(TOURING):
            room = beside_tour(self.app.size)
            right, below = self.app.size - room
            box = self.query_one("#box", Vertical)
            # Above the panes is the status line, below them are two lines of the console.
            box.styles.margin = (1, right, below + 1, 0)
            box.styles.max_width = room.width
            box.styles.max_height = room.height - 3
            self.add_class("-beside-tour")

    def action_close(self) -> None:
        """Close."""
        self.dismiss(None)

    def action_through(self, action: str) -> None:
        """Close, and do an action of the main screen."""
        self._at_main(action)

    def copy(self) -> None:
        """Copy the whole content."""
        text = self._copy
        if text is None:
            text = "\n".join(plain(line).rstrip() for line in self._lines)
        self.app.copy_to_clipboard(text)
        self.notify("copied", timeout=2)

    def on_screen_resume(self) -> None:
        """Give the focus to the lines."""
        self.query_one(Rows).focus()
