"""The box to pick a workload from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual.binding import Binding, BindingType

from ...present.line import Line
from ...present.workloads import FIRST, workload_lines
from ..widgets.rows import Rows
from ..widgets.text_view import TextView
from .box import Box


class Choices(TextView):
    """Rows with a mark at the current one."""

    def line(self, row: int, width: int) -> Line:
        """Return row `row`, with a mark if the cursor is on it."""
        mark = ("▶ " if row == self.cursor else "  ", "accent")
        return replace(super().line(row, width), mark=mark)


class WorkloadBox(Box):
    """Lists workloads; its result is the name of the picked one."""

    TEXT = Choices
    MARKS = 2
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "close"),
        Binding("enter", "pick", "run it", key_display="enter"),
    ]

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__("Run a workload", workload_lines(names), classes="picker")
        self._names = names

    def on_mount(self) -> None:
        """Put the cursor on the recommended workload."""
        super().on_mount()
        if FIRST in self._names:
            self.query_one(Rows).cursor = self._names.index(FIRST)

    def action_pick(self) -> None:
        """Pick the workload under the cursor."""
        rows = self.query_one(Rows)
        if rows.cursor < len(self._names):
            self.dismiss(self._names[rows.cursor])
