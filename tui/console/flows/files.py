"""Files that the console writes: rows of the trace, and pictures of the screen."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App

from ....core.errors import DynftraceError
from ...files.whole_file import STEM, free_path, write_whole
from ..protocols import Console
from ..worker import Driver

if TYPE_CHECKING:
    from ...explore.trace_export import Export

_ADVICE = """\
enter saves; an existing file is replaced.
.txt has the rows shown, other names the whole trace:
.json (Perfetto), .folded or .speedscope.json (flames),
.csv or .jsonl (tables), .dat (trace-cmd),
.report.txt (as trace-cmd prints it)."""


class FileFlow:
    """Saves files in the working directory, or as downloads if a browser shows the console."""

    def __init__(self, console: Console, app: App[None]) -> None:
        self._console = console
        self._app = app

    def export(self, export: Export) -> None:
        """Save rows of the trace, or the whole trace for another tool, to a file.

        The user types its name; a browser gets the rows as a download.
        """
        if self._app.is_web:
            self._write(export, None)
            return
        # Imported late, like the module below: the first paint must not wait for it.
        from ..screens.save_as import SaveAs

        offered = free_path(Path(), ".txt").name
        self._console.open_over(SaveAs(offered, _ADVICE), lambda name: self._named(export, name))

    def _named(self, export: Export, name: str | None) -> None:
        if name is not None:
            self._write(export, Path(name).expanduser())

    def _write(self, export: Export, path: Path | None) -> None:
        """Write to `path`, or as a download.

        This is a job of the machine's thread: many rows take seconds.
        """

        def save(driver: Driver) -> tuple[str, str] | DynftraceError:
            try:
                if path is None:
                    return f"{len(export):,} rows", export.whole_text()
                return export.save(path, driver.trace_dat, driver.patches())
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
        from ...present.svg import tidy

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
