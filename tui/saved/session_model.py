"""The parts of a saved session: its machine, commands and runs, and layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...core.trace.select.rowkey import RowKey
from ..present.view import ORDERS
from .machine_options import MachineOptions

if TYPE_CHECKING:
    from ...core.session.journal import Action


@dataclass(frozen=True, slots=True)
class Layout:
    """The panes, filters and marks of the console.

    `function` is the rec.ip under the cursor of the function list.
    """

    pane: int = 1
    zoomed: bool = False
    theme: str | None = None
    filter: str = ""
    order: str = ORDERS[0]
    function: int | None = None
    trace_filter: str = ""
    marks: Mapping[str, RowKey] = field(default_factory=dict)
    """Rows of the trace with the markers A and B, by letter."""
    bookmarks: tuple[RowKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Saved:
    """A saved session; `now` is the virtual time of saving in ns, or None if unknown."""

    machine: MachineOptions
    done: tuple[Action, ...] = ()
    """Commands as text, and runs as virtual ns, in order."""
    now: int | None = None
    layout: Layout = Layout()

    @property
    def commands(self) -> int:
        """Number of commands in `done`, which also holds runs."""
        return sum(not isinstance(action, int) for action in self.done)
