"""Running the console: its settings, its tours one after the other, and saving at the end."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.errors import DynftraceError
from ..saved import settings as config
from ..saved.session_store import SessionStore
from ..tours import tour
from ..tours.progress import Progress
from ..tours.walk import Walk
from . import user_keymap
from .app import ConsoleApp
from .layout import layout_of
from .worker import Driver

if TYPE_CHECKING:
    from ...core.session.session import Session

PATIENCE_S = 10.0
"""Host seconds the machine's thread has to end."""


def run_console(
    open_session: Callable[[], Session],
    *,
    theme_name: str | None = None,
    theme_from: str = "",
    keys: Path | None = None,
    walk: Walk | None = None,
    progress: Progress | None = None,
    store: SessionStore | None = None,
) -> int:
    """Run the console until the user leaves it; returns the exit status.

    `open_session` is called in the machine's thread. `keys` is a keymap file,
    by default `keymap.toml` in the user's folder of settings, over `config.toml` there.
    `walk` is a tour to be taken, `progress` where it is kept how far one comes. Raises
    `UsageError` for a keymap that cannot be used or a theme that does not exist, of which
    `theme_from` says where it was named. `store` opens the session instead of
    `open_session`, and keeps it when the console is left.
    """

    while True:
        app = _console(open_session, theme_name, theme_from, keys, walk, progress, store)
        app.run()
        if store is not None:
            _keep(app, store)
            store = None
        if app.tour.wanted is None:
            return app.return_code or 0
        theme_name = app.theme
        chosen = tour.load(app.tour.wanted)
        progress = progress or Progress()
        open_session, walk = chosen.open, Walk(chosen, progress.next(chosen))


def spare_the_interface() -> None:
    """Keep the garbage collector from holding up keys, once the session is open.

    What is here by now stays: looking for garbage in all of it would hold up a key for 70 ms,
    about once a second while the guest runs. What is left is small, so that it soon has grown
    by the quarter that makes CPython look through all of it again: that is made rare.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(700, 10, 1000)


def _keep(app: ConsoleApp, store: SessionStore) -> None:
    """Keep the session of a console that was left. Raises `DynftraceError`."""
    # A console that was left before its first view lies nowhere yet.
    if app.return_code or app.view.functions is None:
        return
    if not app.runner.ended.wait(PATIENCE_S):
        raise DynftraceError(f"session {store.name} is not kept: the machine does not stop")
    reason = store.save(layout_of(app.main, app.theme))
    if reason:
        print(f"dynftrace: {reason}", file=sys.stderr)


def _console(
    open_session: Callable[[], Session],
    theme_name: str | None,
    theme_from: str,
    keys: Path | None,
    walk: Walk | None,
    progress: Progress | None,
    store: SessionStore | None,
) -> ConsoleApp:
    """The app that `run_console` runs."""

    def start() -> Driver:
        from .driver import SessionDriver

        driver = SessionDriver(open_session() if store is None else store.open())
        spare_the_interface()
        return driver

    app = ConsoleApp(start, walk, progress, store)
    if keys is None:
        settings = config.config_path()
        app.set_keymap(
            user_keymap.read(settings) | user_keymap.read(settings.with_name("keymap.toml"))
        )
    else:
        app.set_keymap(user_keymap.read(keys))
    if theme_name is not None:
        app.choose_theme(theme_name, theme_from)
    if store is not None and store.layout is not None:
        kept = store.layout.theme
        if kept in app.available_themes:
            app.theme = kept
    return app
