"""Pictures of a session, by name: for the console and for `dynftrace draw`."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import UsageError
from ..ftrace.patch import Performed
from ..trace.export.stacks import has_calls
from ..trace.text.tracetext import TraceText
from ..views.address_map import map_drawing
from ..views.call_site import find_sites
from ..views.drawing import Drawing
from ..views.lanes import Lanes
from ..views.time_pictures import FlameGraph, hist_drawing
from ..views.times import flame, histogram
from .session import Session

PICTURES = ("map", "lanes", "flame", "hist")
"""The names of the pictures."""

UNTIMED = "no call has been timed: first echo function_graph > current_tracer"


def picture_of(session: Session, name: str, function: str = "") -> Drawing | FlameGraph | Lanes:
    """Return the picture `name` of `PICTURES`.

    `function` names the call to draw on the map, or the function of the histogram. Raises
    `UsageError` for an unknown picture or function, or if the trace lacks what it shows, and
    `MemoryFault`.
    """
    with session.lock:
        boot = session.boot
        if name == "map":
            prefix = session.port.facts.abi.text_prefix
            records = boot.ftrace.records
            ip = next(iter(find_sites(records, function, prefix)), None) if function else None
            if function and ip is None:
                raise UsageError(f"no function named '{function}' has a call site")
            return map_drawing(session.address_space(ip))
        if name not in PICTURES:
            raise UsageError(f"unknown picture '{name}' (choose from: {', '.join(PICTURES)})")
        return picture_of_trace(
            boot.array.text(), name, function, patches=boot.ftrace.patcher.performed
        )


def picture_of_trace(
    text: TraceText, name: str, function: str = "", *, patches: Sequence[Performed] = ()
) -> Drawing | FlameGraph | Lanes:
    """Return the picture `name` of a trace; `patches` are marked on the lanes.

    Raises `UsageError` for a picture that needs a machine, and as `picture_of`.
    """
    if name == "lanes":
        if not len(text.table):
            raise UsageError("nothing was traced: first switch a tracer or an event on")
        return Lanes(text, patches)
    if name not in ("flame", "hist"):
        raise UsageError(f"the picture '{name}' needs a machine: a trace alone does not have it")
    if not has_calls(text):
        raise UsageError(UNTIMED)
    if name == "flame":
        return FlameGraph(flame(text))
    if not function:
        raise UsageError("name the function whose calls the histogram shows")
    found = histogram(text, function)
    if found is None:
        raise UsageError(f"no call of {function} in the trace has returned")
    return hist_drawing(function, found)


def drawing_of(session: Session, name: str, function: str = "") -> Drawing:
    """Return all of the picture `name` as a drawing; raises as `picture_of`."""
    return whole(picture_of(session, name, function))


def whole(made: Drawing | FlameGraph | Lanes) -> Drawing:
    """Return all of a picture as a drawing."""
    if isinstance(made, Lanes):
        return made.drawing(*made.span)
    return made.drawing() if isinstance(made, FlameGraph) else made
