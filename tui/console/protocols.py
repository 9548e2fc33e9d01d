"""The app, as its screens, its palette and its flows use it.

They depend on this protocol instead of the app, so each can be read and tested without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from textual.notifications import SeverityLevel
from textual.screen import Screen

from ..present.view import Done, View
from .worker import Driver, Runner

T = TypeVar("T")


class Console(Protocol):
    """The app, as its parts see it. Call it only from the interface's thread."""

    @property
    def runner(self) -> Runner:
        """The machine's thread."""
        ...

    @property
    def view(self) -> View:
        """The newest view that was shown."""
        ...

    @property
    def at_main(self) -> bool:
        """Whether no other screen is over the main one."""
        ...

    def ask(self, job: Callable[[Driver], T], then: Callable[[T], None] | None = None) -> None:
        """Do `job` in the machine's thread, then `then` with its result in the interface's."""
        ...

    def command(
        self,
        text: str,
        *,
        box: bool = True,
        typed: bool = False,
        then: Callable[[Done], None] | None = None,
    ) -> None:
        """Execute a command of the tracefs shell and show its result; then call `then`.

        With `box`, output of several lines opens a box. `typed` is whether the user typed it, so
        that its paths begin at the current directory.
        """
        ...

    def commands(
        self, texts: Sequence[str], before: Sequence[str], then: Callable[[], None]
    ) -> None:
        """Execute `before` and then `texts`, up to the first failure; show `texts` together.

        Output of several lines opens one box for all of them. Calls `then` at the end.
        """
        ...

    def turn_to(self, pane: int) -> Sequence[int]:
        """Show a pane of the main screen; return the numbers of the visible ones."""
        ...

    def leave(self) -> None:
        """End this console, to open another."""
        ...

    def open_over(self, screen: Screen[T], then: Callable[[T | None], None] | None = None) -> None:
        """Open `screen` over the others; `then` is called with its result."""
        ...

    def go_to(self, ip: int) -> None:
        """Show the call site at `ip` on the main screen."""
        ...

    def show_help(self) -> None:
        """Show the keys of the current screen."""
        ...

    def release_keys(self) -> None:
        """Handle the keys that were held back; see `TypeAhead`."""
        ...

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
    ) -> None:
        """Show a short message for some seconds."""
        ...
