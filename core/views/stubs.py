"""A module's stubs: their present text, and the number of call sites that need each.

Sites as compiled call the stub of mcount; enabled sites call the stub of ftrace_caller or
of ftrace_regs_caller. The other stubs serve the module's calls of functions out of reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..arch import Addresses, Edit, ModuleStub
from ..errors import MissingSymbolError
from ..ftrace.ftrace import Ftrace
from .path import Hop, PathReader


@dataclass(frozen=True, slots=True)
class StubView:
    """One stub."""

    hop: Hop
    """Its code, verified."""
    symbol: str
    """The symbol that the stub leads to."""
    compiled: int
    """Number of call sites that use it as compiled."""
    enabled: int
    """Number of call sites that use it when enabled."""


def module_stubs(
    ftrace: Ftrace, paths: PathReader, name: str, stubs: Sequence[ModuleStub]
) -> tuple[StubView, ...]:
    """Return the `stubs` of module `name` and all others its sites use, by address."""
    records = ftrace.records
    rows = np.flatnonzero(np.array([owner == name for owner in records.module_names()], np.bool_))
    sites = records.sites(rows)
    try:
        left = _through(ftrace.port.init_nop(sites, ftrace.mcount))
        callers = ftrace.entry.callers.values()
        calls = (ftrace.port.make_call(sites, caller) for caller in callers)
        traced = np.concatenate([_through(call) for call in calls])
    except MissingSymbolError:
        left = traced = np.empty(0, np.uint64)
    used = records.stubs_at(np.concatenate([left, traced]))
    known = {stub.address: stub for stub in (*used, *stubs)}
    return tuple(
        StubView(
            paths.stub(stub),
            stub.symbol,
            int(np.count_nonzero(left == np.uint64(address))),
            int(np.count_nonzero(traced == np.uint64(address))),
        )
        for address, stub in sorted(known.items())
    )


def _through(edit: Edit) -> Addresses:
    """Return the address of the stub of each call of `edit` that uses one."""
    return np.concatenate([np.empty(0, np.uint64), *edit.via])
