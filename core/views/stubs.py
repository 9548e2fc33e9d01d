"""A module's trampolines: each as it is in memory, and which call sites need it.

The records say what each must be: sites as compiled call the stub of mcount,
enabled ones that of ftrace_caller, or of ftrace_regs_caller. The others are calls of
the module's own code to functions elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..arch import Addresses, Edit, Trampoline
from ..errors import MissingSymbolError
from ..ftrace.ftrace import Ftrace
from .path import Hop, PathReader


@dataclass(frozen=True, slots=True)
class StubView:
    """One trampoline."""

    hop: Hop
    """Its code, verified."""
    symbol: str
    """What it is there to reach."""
    compiled: int
    """Call sites that went through it as the compiler left them."""
    enabled: int
    """Call sites that go through it when they are traced."""


def module_stubs(
    ftrace: Ftrace, paths: PathReader, name: str, stubs: Sequence[Trampoline]
) -> tuple[StubView, ...]:
    """The trampolines `stubs` of module `name`, and others its sites use, in order of address."""
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
    """The stubs that the calls of `edit` go through, one for each that has one."""
    return np.concatenate([np.empty(0, np.uint64), *edit.via])
