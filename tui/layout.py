"""The console's layout, as a saved session keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..core.trace.place import Place
from .view import ORDERS


@dataclass(frozen=True, slots=True)
class Layout:
    """The pane, filters and marks of a console, and its cursor in the function list."""

    pane: int = 1
    zoomed: bool = False
    theme: str | None = None
    filter: str = ""
    order: str = ORDERS[0]
    function: int | None = None
    """Address of the call site under the cursor of the function list."""
    trace_filter: str = ""
    marks: Mapping[str, Place] = field(default_factory=dict)
    """Markers A and B of the trace, by their letters."""
    bookmarks: tuple[Place, ...] = ()
