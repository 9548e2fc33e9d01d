"""A box over the main screen: a command's output, help, or a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.geometry import Size
from textual.markup import escape
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input

from ...present.line import Line, folded, plain
from .. import keymap
from ..tour_layout import beside_tour
from ..widgets.keys_bar import KeysBar
from ..widgets.rows import Rows
from ..widgets.text_view import TextView
from .tourkeys import TOURING, TourKeys

NARROW = 100
"""Width of a terminal below which a box spends no columns on padding."""

SHARE, SHARE_HIGH = 0.96, 0.9
"""Maximum shares of a wider terminal's columns and rows that a box takes, as in console.tcss."""

_FRAME = 7
"""Columns of the border, the padding of a wide terminal and a scrollbar."""

_LETTERS = ("close", "copy_all", "site", "reboot", "through")
"""Actions whose keys are just letters while the user types a search."""


class BoxText(TextView):
    """The text in a box: keys scroll it, `/` searches it, and `y` copies all of it."""

    BINDINGS: ClassVar[list[BindingType]] = [*keymap.BOX_SEARCH, keymap.BOX_COPY]
    HAS_CURSOR = False

    class Scrolled(Message):
        """Different lines are in sight."""

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Report that different lines are in sight."""
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Scrolled())

    def on_resize(self) -> None:
        """Report that different lines are in sight: the search line has appeared or disappeared."""
        super().on_resize()
        self.post_message(self.Scrolled())

    @property
    def seen(self) -> int:
        """Number of the last line in sight, from 1."""
        return min(self.scroll_offset.y + self.size.height, self.count())

    def action_search(self) -> None:
        """Open the line for a search text."""
        if isinstance(self.screen, Box):
            self.screen.open_search()

    def tell(self, word: str) -> None:
        """Show the result of a search in the frame, where it covers no text."""
        if isinstance(self.screen, Box):
            self.screen.found = word
            self.post_message(self.Scrolled())

    def action_copy_all(self) -> None:
        """Copy all lines."""
        if isinstance(self.screen, Box):
            self.screen.copy()


class SearchInput(Input):
    """The line for a search in a box."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "cancel", show=True),
        Binding("enter", "submit", "search", show=True, key_display="enter"),
    ]

    def action_leave(self) -> None:
        """Go back to the lines."""
        if isinstance(self.screen, Box):
            self.screen.close_search()


class Box(TourKeys, ModalScreen[str | None]):
    """Shows lines in a frame; `escape` closes it."""

    TEXT: type[TextView] = BoxText
    """The widget for the lines."""
    MARKS = 0
    """Cells of a mark that the widget puts before each line."""

    BINDINGS: ClassVar[list[BindingType]] = [*keymap.BOX, *keymap.THROUGH]

    def __init__(
        self, title: str, lines: Sequence[Line], *, copy: str | None = None, classes: str = ""
    ) -> None:
        super().__init__(classes=classes)
        self._title = title
        self._lines = lines
        self._copy = copy
        self.found = ""
        """Result of the last search."""

    def compose(self) -> ComposeResult:
        """Compose the frame, the lines and the keys."""
        with Vertical(id="box"):
            yield self.TEXT(self._lines, id="box-lines")
        search = SearchInput(id="box-search", compact=True, placeholder="search")
        search.cursor_blink = False
        search.display = False
        yield search
        yield KeysBar()

    def on_mount(self) -> None:
        """Fit the frame to its lines."""
        box = self.query_one("#box", Vertical)
        box.border_title = escape(self._title)
        widest = max((len(plain(line)) for line in self._lines), default=0)
        self.set_class(self.app.size.width < NARROW, "-narrow")
        # Border, padding, and room for a scrollbar.
        box.styles.width = max(widest + self.MARKS, len(self._title) + 4, 40) + _FRAME
        self._fold(self.app.size)

    def _fold(self, size: Size) -> None:
        """Fold lines that are too wide for a box in an area of this `size`, and fit its height."""
        lines = list(self._lines)
        if self.TEXT is BoxText:
            width = size.width + 2 if size.width < NARROW else int(size.width * SHARE)
            for scrollbar in (0, 1):
                room = width - _FRAME + 1 - scrollbar
                lines = [row for each in self._lines for row in folded(each, room)]
                if len(lines) + 2 <= size.height * SHARE_HIGH:
                    break
            self.query_one(TextView).show(lines)
        self.query_one("#box", Vertical).styles.height = len(lines) + 2

    def on_box_text_scrolled(self) -> None:
        """Show the visible range of lines in the lower edge, if not all lines are visible."""
        text = next(iter(self.query(BoxText)), None)
        if text is None:  # the box is closing
            return
        more = text.count() > text.size.height > 0
        where = [f"{text.seen:,} of {text.count():,}"] if more else []
        found = [self.found] if self.found else []
        self.query_one("#box", Vertical).border_subtitle = escape(" │ ".join(found + where))

    def open_search(self) -> None:
        """Show the line for a search."""
        search = self.query_one(SearchInput)
        search.display = True
        search.value = ""
        self.set_focus(search)

    def close_search(self) -> None:
        """Hide the line for a search."""
        self.query_one(SearchInput).display = False
        self.set_focus(self.query_one(Rows))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Search the lines."""
        event.stop()
        self.close_search()
        self.query_one(TextView).search(event.value.strip())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable keys that write characters while a search is typed."""
        if isinstance(self.focused, Input) and action in _LETTERS:
            return False
        return super().check_action(action, parameters)

    def on_resize(self) -> None:
        """Show which lines are in sight, and do not cover a tour's panel, which explains them."""
        if self.TEXT is BoxText:
            self.call_after_refresh(self.on_box_text_scrolled)
        if not self.app.has_class(TOURING):
            self._fold(self.app.size)
        else:
            room = beside_tour(self.app.size)
            right, below = self.app.size - room
            box = self.query_one("#box", Vertical)
            # The status line is above the panes, and two lines of the console are below them.
            box.styles.margin = (1, right, below + 1, 0)
            box.styles.max_width = room.width
            box.styles.max_height = room.height - 3
            if room.width < NARROW:
                box.styles.min_width = room.width
            self._fold(Size(room.width, room.height - 3))
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
        """Give the focus to the lines, which no longer exist if the box is closing."""
        for rows in self.query(Rows):
            rows.focus()
