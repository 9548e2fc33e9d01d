"""Pictures of a session, by name: for the console and for `dynftrace draw`."""

from __future__ import annotations

from ..errors import UsageError
from ..trace.export.stacks import has_calls
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

    `function` is that of the call on the map, or of the histogram. Raises `UsageError` for an
    unknown picture or function, or if the trace lacks what it shows, and `MemoryFault`.
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
        text = boot.array.text()
        if name == "lanes":
            if not len(text.table):
                raise UsageError("nothing was traced: first switch a tracer or an event on")
            return Lanes(text, boot.ftrace.patcher.performed)
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
    made = picture_of(session, name, function)
    if isinstance(made, Lanes):
        return made.drawing(*made.span)
    return made.drawing() if isinstance(made, FlameGraph) else made
