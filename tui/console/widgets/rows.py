"""A list of text rows with a cursor, drawn row by row.

Textual's own lists create a widget or a renderable for each row, which is too slow for 60,000
functions or millions of events. Here a row becomes a `Strip` when it becomes visible, and a small
cache keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ...present.line import Line, line, plain, short
from .. import keymap

REVERSED = ("mark", "found")
"""Tones that reverse colours; on the cursor's background they would be hard to read."""

GOES_ON = "›"
"""Sign in the last column of a row that is wider than the list."""


class Rows(ScrollView, can_focus=True):
    """Shows `count()` rows, each given by `line()`; `cursor` is the current row."""

    BINDINGS: ClassVar[list[BindingType]] = [*keymap.ROWS]
    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "rows--cursor",
        "rows--cursor-blurred",
        "rows--dim",
        "rows--strong",
        "rows--accent",
        "rows--good",
        "rows--bad",
        "rows--mark",
        "rows--link",
        "rows--found",
    }
    DEFAULT_CSS = """
    Rows {
        height: 1fr;
        width: 1fr;
        /* It has no height: if it came and went, the screen would be laid out each time. */
        overflow-x: scroll;
        overflow-y: auto;
        scrollbar-size-horizontal: 0;
        scrollbar-size-vertical: 1;
    }
    """
    HAS_CURSOR = True
    """False if keys scroll the text instead of moving a cursor."""
    CURSOR_WHEN_BLURRED = False
    """Whether the cursor row stays marked while another widget has the focus."""

    cursor: reactive[int] = reactive(0, repaint=False)

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._strips: LRUCache[tuple[int, int, int, int, int, bool], Strip] = LRUCache(1024)
        self._styles: dict[tuple[str, bool], Style] = {}
        self._generation = 0
        self._toned_by: object = None
        """The style sheet's rules that gave the tones their styles."""

    def count(self) -> int:
        """Return the number of rows."""
        raise NotImplementedError

    def line(self, row: int, width: int) -> Line:
        """Return row `row`, for a list `width` cells wide."""
        raise NotImplementedError

    def row_width(self) -> int:
        """Return the cells of the widest row; 0 if no row is wider than the list."""
        return 0

    def empty(self) -> Sequence[str]:
        """Return the text of an empty list: why it is empty, and how to fill it."""
        return ()

    def changed(self, cursor: int | None = None, *, scroll: bool = True) -> None:
        """Draw new rows, with the cursor on row `cursor` (None keeps it).

        Without `scroll`, the cursor may be out of sight.
        """
        self._generation += 1
        self._strips.clear()
        row = self.validate_cursor(self.cursor if cursor is None else cursor)
        self.set_reactive(Rows.cursor, row)
        self._measure(Size(self.row_width(), self.count()))
        if scroll:
            self.show_row(row)
        # A scrollbar that appears with this layout does not know the scroll position yet.
        self.call_after_refresh(self._place_scrollbar)
        self.refresh()

    def _measure(self, size: Size) -> None:
        """Set the size of all rows without laying out the screen again, which takes 10 ms."""
        if not self.container_size:
            self.virtual_size = size
        elif size != self.virtual_size:
            self.set_reactive(Rows.virtual_size, size)
            self._scroll_update(size)

    def _place_scrollbar(self) -> None:
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.position = self.scroll_y

    def validate_cursor(self, cursor: int) -> int:
        """Keep the cursor on a row."""
        return max(0, min(cursor, self.count() - 1))

    def watch_cursor(self, old: int, new: int) -> None:
        """Draw only the two rows that changed."""
        self._refresh_row(old)
        self._refresh_row(new)
        self.show_row(new)

    def show_row(self, row: int, *, context: bool = False) -> None:
        """Scroll as little as needed to see `row`; a row far away goes to the middle.

        With `context`, any row out of sight or at the edge goes there.
        """
        height = self.scrollable_content_region.height
        if height <= 0:
            return
        top = self.scroll_offset.y
        far = -2 if context else height
        if not top - far <= row < top + height + far:
            self.scroll_to(y=row - height // 2, animate=False, immediate=True, force=True)
        elif row < top:
            self.scroll_to(y=row, animate=False, immediate=True, force=True)
        elif row >= top + height:
            self.scroll_to(y=row - height + 1, animate=False, immediate=True, force=True)

    @property
    def cursor_in_sight(self) -> bool:
        """Return whether the cursor's row is in sight."""
        top = self.scroll_offset.y
        return top <= self.cursor < top + self.scrollable_content_region.height

    def _refresh_row(self, row: int) -> None:
        y = row - self.scroll_offset.y
        if 0 <= y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        """Return one row of the screen as a strip."""
        x, top = self.scroll_offset
        row = top + y
        width = self.size.width
        if row >= self.count():
            said = () if self.count() else self.empty()
            if 0 <= row - 1 < len(said):  # below one blank row
                return self._strip(line((f"  {said[row - 1]}", "dim")), False).adjust_cell_length(
                    width, self._style("", False)
                )
            return Strip.blank(width, self._style("", False))
        shows = self.HAS_CURSOR and (self.has_focus or self.CURSOR_WHEN_BLURRED)
        marked = shows and row == self.cursor
        seen = width - (self.scrollbar_size_vertical if self.show_vertical_scrollbar else 0)
        key = (self._generation, row, x, width, seen, marked)
        strip = self._strips.get(key)
        if strip is None:
            shown = self.line(row, width)
            strip = self._strip(shown, marked)
            if seen > 0 and cell_len(plain(shown).rstrip()) > x + seen:
                sign = Segment(GOES_ON, self._style("accent", marked))
                cut = strip.crop_extend(x, x + seen - 1, self._style("", marked))
                strip = Strip([*cut, sign]).extend_cell_length(width, self._style("", marked))
            else:
                strip = strip.crop_extend(x, x + width, self._style("", marked))
            self._strips[key] = strip
        return strip

    def _style(self, tone: str, marked: bool) -> Style:
        """Return the style of `tone`, from a cache: a lookup takes longer than drawing a row."""
        key = tone, marked
        style = self._styles.get(key)
        if style is None:
            if marked and tone not in REVERSED:
                ground = "rows--cursor" if self.has_focus else "rows--cursor-blurred"
                style = self.get_component_rich_style(ground)
                if tone == "dim" and self.has_focus:
                    tone = ""  # too faint to read on this background
            else:
                style = self.rich_style
            if tone:
                style += self.get_component_rich_style(f"rows--{tone}", partial=True)
            self._styles[key] = style
        return style

    def _strip(self, shown: Line, marked: bool) -> Strip:
        return Strip([Segment(text, self._style(tone, marked)) for text, tone in shown])

    def _forget_drawn(self) -> None:
        self._strips.clear()
        self._styles.clear()

    def _get_component_classes(self) -> frozenset[str]:  # type: ignore[override]
        """Return the tones that need styles.

        Textual styles all of them again for each change of a class on the screen, which took
        most of a change of focus; they depend only on the style sheet.
        """
        rules = self.app.stylesheet.rules
        if rules is self._toned_by:
            return frozenset()
        self._toned_by = rules
        return super()._get_component_classes()

    def notify_style_update(self) -> None:
        """Drop strips drawn in the old theme."""
        super().notify_style_update()
        self._forget_drawn()

    def on_focus(self) -> None:
        """Draw the cursor row in its new look."""
        self._forget_drawn()
        self._refresh_row(self.cursor)

    def on_blur(self) -> None:
        """Draw the cursor row in its new look."""
        self._forget_drawn()
        self._refresh_row(self.cursor)

    def on_resize(self) -> None:
        """Draw rows for the new width, with the cursor in sight."""
        self._strips.clear()
        # Until the layout of the new size is done, scrolling stops at the old end.
        self.call_after_refresh(lambda: self.show_row(self.cursor))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where the mouse is."""
        self.cursor = event.y + self.scroll_offset.y

    def move(self, rows: int) -> None:
        """Move the cursor (or the text) down by `rows`."""
        if self.HAS_CURSOR:
            self.cursor += rows
        else:
            self.scroll_to(y=self.scroll_offset.y + rows, animate=False, immediate=True)

    def action_up(self) -> None:
        """Move one row up."""
        self.move(-1)

    def action_down(self) -> None:
        """Move one row down."""
        self.move(1)

    def action_left(self) -> None:
        """Scroll left by a tab."""
        self.scroll_to(x=self.scroll_offset.x - 8, animate=False)

    def action_right(self) -> None:
        """Scroll right by a tab."""
        self.scroll_to(x=self.scroll_offset.x + 8, animate=False)

    def action_page(self, pages: float) -> None:
        """Move by `pages` times the height; negative is up."""
        self.move(int(pages * max(self.size.height, 2)))

    def action_first(self) -> None:
        """Go to the first row."""
        self.move(-self.count())

    def action_last(self) -> None:
        """Go to the last row."""
        self.move(self.count())

    def action_copy(self) -> None:
        """Copy the row under the cursor."""
        if self.cursor < self.count():
            text = self.line(self.cursor, self.size.width).copied
            self.app.copy_to_clipboard(text)
            self.notify(f"copied: {short(text)}", timeout=2)
