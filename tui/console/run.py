"""Runs the console: applies the settings, takes one tour after another, saves the session."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from ...core.errors import DynftraceError
from ..saved import settings as config
from . import user_keymap
from .app import ConsoleApp
from .worker import Driver

if TYPE_CHECKING:
    from ...core.session.session import Session
    from ..saved.session_store import SessionStore
    from ..tours.progress import Progress
    from ..tours.walk import Walk

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

PATIENCE_S = 10.0
"""Time limit for the machine's thread to end, in host seconds."""

HANGUP_S = 3.0
"""Time limit for the program to end after its terminal has closed, in host seconds."""


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
    """Run the console until the user leaves it; return the exit status.

    `open_session` is called in the machine's thread. `keys` is a keymap file; by default
    the keys are those of `config.toml` and `keymap.toml` in the user's settings folder, and
    the latter takes precedence. `walk` is the tour to take, `progress` records its finished
    steps. `store` opens the session instead of `open_session`, and saves it when the user
    leaves.

    Raises `UsageError` for an invalid keymap or an unknown theme; `theme_from` begins the
    message about the theme and says where it was set.
    """

    while True:
        app = _console(open_session, theme_name, theme_from, keys, walk, progress, store)
        with _exit_on_signals(app):
            _end_with_the_terminal()
            app.run()
        if store is not None:
            _keep(app, store)
            store = None
        if app.tour.wanted is None:
            return app.return_code or 0
        from ..tours import course
        from ..tours.progress import Progress
        from ..tours.walk import Walk

        theme_name = app.theme
        chosen = course.load_path(app.tour.wanted)
        # The progress of a visitor is not that of the user who runs the server.
        progress = progress or (None if app.is_web else Progress())
        walk = Walk(chosen, 0 if progress is None else progress.next(chosen))
        open_session = walk.open


def run_recorded(
    path: Path, instance: str = "", *, theme_name: str | None = None, theme_from: str = ""
) -> int:
    """Run the console on a recorded trace until the user leaves it; return the exit status.

    Keymaps and themes are as for `run_console`. Raises `UsageError`.
    """

    def start() -> Driver:
        from .recorded import RecordedDriver

        driver = RecordedDriver(path, instance)
        spare_the_interface()
        return driver

    app = ConsoleApp(start, recorded=True)
    app.set_keymap(_keymap(None))
    if theme_name is not None:
        app.choose_theme(theme_name, theme_from)
    with _exit_on_signals(app):
        _end_with_the_terminal()
        app.run()
    return app.return_code or 0


@contextmanager
def _exit_on_signals(app: ConsoleApp) -> Iterator[None]:
    """Within the context, signals that end a program make `app` exit and restore the terminal.

    The exit status is that of a program killed by the signal.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            # The terminal is in its normal state: not yet changed, or already restored.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        else:
            # After a refresh: a screen must not lose its widgets while it is being composed.
            loop.call_soon_threadsafe(app.call_after_refresh, app.exit, None, 128 + number)

    before = {number: signal.getsignal(number) for number in _ENDING}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_with_the_terminal() -> None:
    """End the program when its terminal closes, even if it ignores SIGHUP, as under nohup.

    Otherwise the toolkit would read the end of input forever. One of its threads may do so even
    after SIGHUP has ended the app: the kernel also sends SIGCONT, and the toolkit may start a
    second input thread on it.
    """
    if not sys.stdin.isatty():
        return
    grace = 0.0 if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else HANGUP_S
    terminal = select.poll()
    terminal.register(sys.stdin.fileno(), 0)  # a hang-up is always reported

    def wait() -> None:
        terminal.poll()
        time.sleep(grace)
        os._exit(128 + signal.SIGHUP)

    threading.Thread(target=wait, name="terminal", daemon=True).start()


def spare_the_interface() -> None:
    """Keep the garbage collector from delaying keys, once the session is open.

    Existing objects live as long as the process. Scanning all of them would delay a key by
    70 ms, about once a second while the guest runs, so they are exempted. Few objects are made
    later, so their number soon grows by the quarter that triggers a full collection in CPython:
    hence the higher threshold. A start leaves no garbage worth collecting.
    """
    gc.freeze()
    gc.set_threshold(700, 10, 1000)


def _keep(app: ConsoleApp, store: SessionStore) -> None:
    """Save the session after the user has left the console. Raises `DynftraceError`."""
    # Before the first view there is no layout to save.
    if app.return_code or app.view.functions is None:
        return
    from .layout import layout_of

    if not app.runner.ended.wait(PATIENCE_S):
        raise DynftraceError(f"session {store.name} not saved: the machine did not stop")
    reason = store.save(layout_of(app.main, app.theme))
    if reason:
        print(f"dynftrace: {reason}", file=sys.stderr)


def _keymap(keys: Path | None) -> Mapping[str, str]:
    """Return the user's keys, or those of the file `keys`. Raises `UsageError`."""
    if keys is not None:
        return user_keymap.read(keys)
    settings = config.config_path()
    return user_keymap.read(settings) | user_keymap.read(settings.with_name("keymap.toml"))


def _console(
    open_session: Callable[[], Session],
    theme_name: str | None,
    theme_from: str,
    keys: Path | None,
    walk: Walk | None,
    progress: Progress | None,
    store: SessionStore | None,
) -> ConsoleApp:
    """Return the app that `run_console` runs. Raises `UsageError`."""

    def start() -> Driver:
        from .driver import SessionDriver

        driver = SessionDriver(open_session() if store is None else store.open())
        spare_the_interface()
        return driver

    app = ConsoleApp(start, walk, progress, store)
    app.set_keymap(_keymap(keys))
    if theme_name is not None:
        app.choose_theme(theme_name, theme_from)
    if store is not None and store.layout is not None:
        saved = store.layout.theme
        if saved in app.available_themes:
            app.theme = saved
    return app
