"""How often functions were called, for the function list.

While function_profile_enabled is 1 the profiler knows it exactly, from when that was
written; else the events in the trace are counted, of which old ones may be gone. Counted
is only when there is something new to count.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..core.session import Session
from ..core.trace.explorer import TraceExplorer
from .functions import FunctionIndex
from .view import IN_TRACE, PROFILED


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """Calls of the functions of an index, shape (n,); `counted` says which are counted."""

    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    counted: str = IN_TRACE


class HitCounter:
    """Counts for one session."""

    def __init__(self) -> None:
        self._hits = Hits()
        self._index: FunctionIndex | None = None
        self._of: object = None

    def hits(self, session: Session, index: FunctionIndex, trace: TraceExplorer) -> Hits:
        """The calls of the functions of `index`: the same object while nothing is new."""
        profiled = session.array.profile.on
        of: object = (session.boots, session.now) if profiled else trace
        # A trace is a new object when it is another; to compare two would take long.
        same = self._of == of if profiled else self._of is of
        if not same or index is not self._index:
            new = self._profiled(session, index) if profiled else self._traced(index, trace)
            old = self._hits
            if new.counted != old.counted or not np.array_equal(new.counts, old.counts):
                self._hits = new
            self._of, self._index = of, index
        return self._hits

    def _profiled(self, session: Session, index: FunctionIndex) -> Hits:
        ips, counts = session.array.profile.hits()
        return Hits(index.spread(ips, counts), PROFILED)

    def _traced(self, index: FunctionIndex, trace: TraceExplorer) -> Hits:
        table = trace.table
        return Hits(index.spread(table.addresses, table.entries()), IN_TRACE)
