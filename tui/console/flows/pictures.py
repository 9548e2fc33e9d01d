"""Opening pictures: the machine's thread makes the picture that a screen then shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....core.errors import DynftraceError
from ..protocols import Console
from ..screens.picture import PictureScreen
from ..worker import Driver

if TYPE_CHECKING:
    from ....core.views.drawing import Drawing
    from ....core.views.lanes import Lanes
    from ....core.views.time_pictures import FlameGraph


def open_picture(console: Console, kind: str, cursor: int | None) -> None:
    """Open the picture `kind`: map, lanes, flame or hist.

    `cursor` is the time of the event under the trace's cursor. Map and histogram are those of
    the function under the cursor.
    """
    view = console.view
    row = None if view.ip is None or view.functions is None else view.functions.find(view.ip)
    name = ""
    if row is not None and view.functions is not None and kind in ("map", "hist"):
        name = view.functions.row(row).name

    def made(driver: Driver) -> Drawing | FlameGraph | Lanes | str:
        try:
            return driver.picture(kind, name)
        except DynftraceError as error:
            return str(error)

    def show(picture: Drawing | FlameGraph | Lanes | str) -> None:
        if isinstance(picture, str):
            console.notify(picture, severity="warning", timeout=5)
        elif not isinstance(console_screen(console), PictureScreen):
            command = "" if view.status.recorded else f"{kind} {name}".rstrip()
            console.open_over(PictureScreen(console, command, picture, cursor, view.trace))

    console.ask(made, show)


def console_screen(console: Console) -> object:
    """Return the screen that is shown."""
    return getattr(console, "screen", None)
