"""Textual's web driver for a visitor's console, changed to exit with the server."""

from __future__ import annotations

import os
from functools import partial

from textual import messages
from textual.app import App
from textual.drivers.web_driver import WebDriver


def write_if_read(fileno: int, data: bytes) -> int:
    """Write `data` and ignore a closed pipe, so that the console can still exit."""
    try:
        return os.write(fileno, data)
    except BrokenPipeError:
        return len(data)


class VisitorDriver(WebDriver):
    """The driver that talks to the server through pipes, selected by `TEXTUAL_DRIVER`."""

    def __init__(
        self,
        app: App[object],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        """Take the arguments of Textual's drivers."""
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._write = partial(write_if_read, self.fileno)

    def run_input_thread(self) -> None:
        """Read input until it ends, then exit the console.

        Input also ends if the server was killed and could not stop the console.
        """
        super().run_input_thread()
        if not self.exit_event.is_set():
            self._app.post_message(messages.ExitApp())
