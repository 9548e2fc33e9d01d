"""The box for reports that must not be missed: a refused patch, a guest's oops."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType

from ...present.view import Report
from .. import keymap
from .box import Box


class ReportBox(Box):
    """Shows a report; its result is `site`, `reboot`, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [*keymap.REPORT]

    def __init__(self, report: Report, *, has_site: bool = True) -> None:
        """`has_site` says whether the report is about a call site that can be shown."""
        super().__init__(report.title, report.lines, copy=report.copy, classes="report")
        self.report = report
        self._has_site = has_site

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable going to a site that does not exist."""
        if action == "site" and not self._has_site:
            return False
        return super().check_action(action, parameters)

    def action_site(self) -> None:
        """Go to the call site."""
        self.dismiss("site")

    def action_reboot(self) -> None:
        """Reboot the machine."""
        self.dismiss("reboot")
