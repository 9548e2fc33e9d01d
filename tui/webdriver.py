"""The toolkit's driver in a visitor's console: it ends with the server."""

from __future__ import annotations

from textual import messages
from textual.drivers.web_driver import WebDriver


class VisitorDriver(WebDriver):
    """Speaks to the server through pipes; `TEXTUAL_DRIVER` names it."""

    def run_input_thread(self) -> None:
        """Pass input on; at its end nobody is there any more, and the console ends.

        So it does when the server was killed and could not say so.
        """
        super().run_input_thread()
        if not self.exit_event.is_set():
            self._app.post_message(messages.ExitApp())
