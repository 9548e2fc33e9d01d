"""The list of the functions that can be traced."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.message import Message
from textual.reactive import reactive

from ...present.empty_states import NO_FUNCTION, NO_RECORD, OPENING
from ...present.line import Line
from ...present.view import ORDERS, Functions, Indices
from .. import keymap
from ..messages import CommandWanted, FunctionHighlighted
from .function_columns import row_line
from .rows import Rows

_ORDER = {"use": ": starting points, modules, then the kernel by address"}
"""Explanations of the orders, shown after their names."""

SCROLLBAR = 1
"""Cells of the scrollbar, at the right edge of the list."""


class FunctionList(Rows):
    """Shows the functions of a table that match a pattern, in one of `ORDERS`.

    When the pattern, the order or the table changes, the cursor stays on its function (known
    by the address of its call site) as long as that is shown.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*keymap.FUNCTIONS]
    DEFAULT_CSS = """
    FunctionList {
        /* Keeps the columns in place if a filter leaves few rows. */
        overflow-y: scroll;
    }
    """
    CURSOR_WHEN_BLURRED = True

    class Sorted(Message):
        """The order has changed."""

    pattern: reactive[str] = reactive("", repaint=False, init=False)
    order: reactive[str] = reactive(ORDERS[0], repaint=False, init=False)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.functions: Functions | None = None
        self._shown: Indices = ()
        self._ip: int | None = None

    def count(self) -> int:
        """Return the number of functions shown."""
        return len(self._shown)

    def empty(self) -> Sequence[str]:
        """Return why no functions are shown."""
        if self.functions is None:
            return OPENING
        return NO_FUNCTION if len(self.functions) else NO_RECORD

    def show(self, functions: Functions | None) -> None:
        """Show `functions`; do nothing if they are shown already."""
        if functions is not self.functions:
            # Counts change ten times a second: do not scroll while the user looks elsewhere.
            fresh = self.functions is None
            self.functions = functions
            self._select(scroll=fresh or self.cursor_in_sight)

    def current(self) -> int | None:
        """Return the index, in the table, of the function under the cursor."""
        return int(self._shown[self.cursor]) if self.cursor < len(self._shown) else None

    @property
    def ip(self) -> int | None:
        """ip of the function under the cursor; while no function is shown, of the last one."""
        return self._ip

    def go_to(self, ip: int) -> bool:
        """Put the cursor on the function with the call site at `ip`; clear a pattern that hides it.

        Return False if the table has no such function.
        """
        index = None if self.functions is None else self.functions.find(ip)
        if self.functions is None or index is None:
            return False
        if self.functions.position(self._shown, index) is None:
            self.pattern = ""
        self._ip = ip
        self._select(scroll=False)
        self.show_row(self.cursor, context=True)
        self.post_message(FunctionHighlighted(ip))
        return True

    def watch_pattern(self) -> None:
        """Show other functions; put the cursor on one whose whole name was typed."""
        self._select()
        table = self.functions
        if table is not None and self.count() and table.exact(self.pattern) == self._shown[0]:
            self.cursor = 0

    def watch_order(self) -> None:
        """Sort the list again."""
        self._select()
        self.post_message(self.Sorted())

    def watch_cursor(self, old: int, new: int) -> None:
        """Report the function under the cursor."""
        super().watch_cursor(old, new)
        self._announce()

    def _select(self, *, scroll: bool = True) -> None:
        table = self.functions
        self._shown = () if table is None else table.match(self.pattern, self.order)
        row = None
        if table is not None and self._ip is not None:
            index = table.find(self._ip)
            row = None if index is None else table.position(self._shown, index)
        self.changed(row, scroll=scroll)
        self._announce()

    def _at_cursor(self) -> int | None:
        index = self.current()
        return None if index is None or self.functions is None else self.functions.ip(index)

    def _announce(self) -> None:
        ip = self._at_cursor()
        if ip is not None and ip != self._ip:
            self._ip = ip
            self.post_message(FunctionHighlighted(ip))

    def line(self, row: int, width: int) -> Line:
        """Return the line of the function in row `row`."""
        if self.functions is None:
            return Line()
        function = self.functions.row(int(self._shown[row]))
        return row_line(function, width - SCROLLBAR, row == self.cursor)

    def action_choose(self) -> None:
        """Add the current function to set_ftrace_filter, or remove it."""
        index = self.current()
        if index is None or self.functions is None:
            return
        name = self.functions.row(index).name
        sign = "!" if self.functions.chosen(index) else ""
        text = f"'!{name}'" if sign else name
        self.post_message(CommandWanted(f"echo {text} >> set_ftrace_filter"))

    def action_choose_shown(self) -> None:
        """Set set_ftrace_filter to the functions shown."""
        if self.functions is not None and self.count():
            words = shlex.quote(self.functions.as_filter(self.pattern))
            self.post_message(CommandWanted(f"echo {words} > set_ftrace_filter"))

    def action_clear_filter(self) -> None:
        """Empty set_ftrace_filter."""
        self.post_message(CommandWanted("echo > set_ftrace_filter"))

    def action_order(self) -> None:
        """Sort by the next order."""
        self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
        self.notify(f"sorted by {self.order}{_ORDER.get(self.order, '')}", timeout=2)
