"""Files that the console writes: rows of the trace, and pictures of the screen."""

from __future__ import annotations

import io
from pathlib import Path

from textual.app import App

from ....core.errors import DynftraceError
from ...explore.trace_export import Export
from ...files.whole_file import STEM, free_path, write_whole
from ...present.svg import tidy
from ..protocols import Console
from ..worker import Driver


class FileFlow:
    """Saves files in the working directory, or as downloads if a browser shows the console."""

    def __init__(self, console: Console, app: App[None]) -> None:
        self._console = console
        self._app = app

    def export(self, export: Export) -> None:
        """Save rows of the trace.

        This is a job of the machine's thread: many rows take seconds.
        """
        web, rows = self._app.is_web, f"{len(export):,} rows"

        def save(_: Driver) -> tuple[str, str] | DynftraceError:
            if web:
                return rows, "".join(export.text())
            try:
                return f"saved {export.save(Path())}: {rows}", ""
            except DynftraceError as error:
                return error

        def saved(result: tuple[str, str] | DynftraceError) -> None:
            if isinstance(result, DynftraceError):
                self._console.notify(str(result), timeout=3, severity="error")
                return
            message, download = result
            if download:
                self._download(download, ".txt", "text/plain")
            self._console.notify(message, timeout=3)

        self._console.ask(save, saved)

    def picture(self) -> None:
        """Save the screen as dynftrace-N.svg."""
        self.save_svg(tidy(self._app.export_screenshot(title=self._app.title, simplify=True)))

    def save_svg(self, picture: str) -> None:
        """Save an SVG as dynftrace-N.svg."""
        if self._app.is_web:
            self._download(picture, ".svg", "image/svg+xml")
            return
        path = free_path(Path(), ".svg")
        try:
            write_whole(path, picture)
        except DynftraceError as error:
            self._console.notify(str(error), severity="error")
        else:
            self._console.notify(f"saved {path}", timeout=3)

    def _download(self, text: str, suffix: str, mime_type: str) -> None:
        """Send `text` to the browser that shows the app."""
        name = f"{STEM}{suffix}"
        self._app.deliver_text(io.StringIO(text), save_filename=name, mime_type=mime_type)
