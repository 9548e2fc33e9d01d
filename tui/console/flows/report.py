"""Reports that must not be missed: each opens a box, once."""

from __future__ import annotations

from collections.abc import Sequence

from ...present.view import Report
from ..protocols import Console


class ReportFlow:
    """Opens a box for each new report, and acts on the user's answer."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._opened: list[Report] = []

    def show(self, reports: Sequence[Report]) -> None:
        """Open the first report that was not yet opened."""
        for report in reports:
            # By identity: an equal report may follow after a reboot.
            if not any(report is opened for opened in self._opened):
                self._opened.append(report)
                self._open(report)
                return

    def _open(self, report: Report) -> None:
        # Imported late, so that the first paint does not wait for its parts.
        from ..screens.report import ReportBox

        table, ip = self._console.view.functions, report.at
        has_site = table is not None and ip is not None and table.find(ip) is not None
        box = ReportBox(report, has_site=has_site)
        self._console.open_over(box, lambda answer: self._answered(report, answer))

    def _answered(self, report: Report, answer: str | None) -> None:
        if answer == "reboot":
            self._console.command("reboot")
        elif answer == "site" and report.at is not None:
            self._console.go_to(report.at)
