"""Number of calls of each function, for the function list.

While function_profile_enabled is 1, the profiler has the exact number of calls since it was
switched on. Otherwise the events in the trace are counted; old ones may have been overwritten.
The counts are updated only if something new happened.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...core.session.session import Session
from ...core.trace.select.explorer import TraceExplorer
from ..present.view import IN_TRACE, PROFILED
from .function_table import FunctionIndex


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """Calls of the functions of an index."""

    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Calls of each function, shape (n,)."""
    counted: str = IN_TRACE
    """The calls that are counted: `IN_TRACE` or `PROFILED`."""


class HitCounter:
    """Counts the calls in one session."""

    def __init__(self) -> None:
        self._hits = Hits()
        self._index: FunctionIndex | None = None
        self._of: object = None

    def hits(self, session: Session, index: FunctionIndex, trace: TraceExplorer) -> Hits:
        """Return the calls of the functions of `index`; the same object if nothing changed."""
        profiled = session.boot.array.profile.on
        of: object = (session.boots, session.now) if profiled else trace
        # A trace that has changed is a new object; comparing the contents would be slow.
        same = self._of == of if profiled else self._of is of
        if not same or index is not self._index:
            new = self._profiled(session, index) if profiled else self._traced(index, trace)
            old = self._hits
            if new.counted != old.counted or not np.array_equal(new.counts, old.counts):
                self._hits = new
            self._of, self._index = of, index
        return self._hits

    def _profiled(self, session: Session, index: FunctionIndex) -> Hits:
        ips, counts = session.boot.array.profile.hits()
        return Hits(index.sum_by_function(ips, counts), PROFILED)

    def _traced(self, index: FunctionIndex, trace: TraceExplorer) -> Hits:
        table = trace.table
        return Hits(index.sum_by_function(table.addresses, table.entries()), IN_TRACE)
