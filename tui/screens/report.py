"""The box for what must not be missed: a refused patch, a guest's oops."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType

from .. import keymap
from ..view import Report
from .box import Box


class ReportBox(Box):
    """Shows a report; its result is `site` or `reboot` when one of these was asked for."""

    BINDINGS: ClassVar[list[BindingType]] = [*keymap.BOX, *keymap.REPORT]

    def __init__(self, report: Report) -> None:
        super().__init__(report.title, report.lines, copy=report.copy, classes="report")
        self.report = report

    def action_site(self) -> None:
        """Go to where it happened."""
        self.dismiss("site")

    def action_reboot(self) -> None:
        """Boot the machine again."""
        self.dismiss("reboot")
