"""The toolkit's driver in a visitor's console: it ends with the server."""

from __future__ import annotations

import os
from functools import partial

from textual import messages
from textual.app import App
from textual.drivers.web_driver import WebDriver


def write_if_read(fileno: int, data: bytes) -> int:
    """Write `data`; a console that nobody reads has to come to its end all the same."""
    try:
        return os.write(fileno, data)
    except BrokenPipeError:
        return len(data)


class VisitorDriver(WebDriver):
    """Speaks to the server through pipes; `TEXTUAL_DRIVER` names it."""

    def __init__(
        self,
        app: App[object],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        """As the toolkit makes them."""
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._write = partial(write_if_read, self.fileno)

    def run_input_thread(self) -> None:
        """Pass input on; at its end nobody is there any more, and the console ends.

        So it does when the server was killed and could not say so.
        """
        super().run_input_thread()
        if not self.exit_event.is_set():
            self._app.post_message(messages.ExitApp())
