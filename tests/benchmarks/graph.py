"""The extra cost of a traced call: its return traced or profiled, and the stop flag."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

from dynftrace import arches
from dynftrace.core.arch import Port
from dynftrace.core.session.session import MachineSpec, Session

from ..support import elf_writer
from . import floor
from .guest import CALLS, LIMIT, LOOP, called
from .measure import Limit, Row, at_most, paired

_TEST = re.compile(r"(ftrace_caller:\n)( +/\* HAVE_FUNCTION_TRACE_MCOUNT_TEST \*/\n.*\n.*\n)")
"""x86-64's test of function_trace_stop in ftrace_caller."""


def rows() -> Iterator[Row]:
    """Compare call and return with the call alone, profiled with traced, and the flag's test."""
    port = arches.load(arches.DEFAULT)
    function = _loop(port, "function", port.entry_source())
    pair = paired(_loop(port, "function_graph", port.entry_source()), function, rounds=7)
    bare = paired(floor.graph(_kernel(port)), floor.function(_kernel(port)), rounds=7)
    yield at_most(
        "a call and its return, traced",
        f"{CALLS / pair.a / 1e6:.2f} M/s",
        pair.ratio,
        "the call alone, traced",
        2.2,
        Limit(bare.ratio * floor.CHECKS, floor.REASON),
    )
    graph = _loop(port, "function_graph", port.entry_source())
    pair = paired(
        _loop(port, "1", port.entry_source(), "function_profile_enabled"), graph, rounds=7
    )
    yield Row(
        "a call and its return, profiled",
        f"{CALLS / pair.a / 1e6:.2f} M/s",
        pair.ratio,
        "the two traced",
        "(no target)",
        True,
    )
    # Before ftrace_caller the code is never reached, and the code after it does not move.
    source, count = _TEST.subn(r"\2\1", port.entry_source())
    assert count == 1
    pair = paired(function, _loop(port, "function", source), rounds=15)
    yield Row(
        "a traced call with function_trace_stop",
        f"{CALLS / pair.a / 1e6:.2f} M/s",
        pair.ratio,
        "the same without that test",
        "(no target)",
        True,
    )


def _loop(port: Port, value: str, source: str, file: str = "current_tracer") -> Callable[[], None]:
    """Run calls with this entry.S, traced by `value` in `file`; the buffer fills up soon."""
    with patch.object(type(port), "entry_source", lambda self: source):
        session = _kernel(port)
    called(session)
    session.boot.tracefs.write(file, value)
    return lambda: _ended(session.boot.machine.requests.call(LOOP, limit_ns=LIMIT))


def _kernel(port: Port) -> Session:
    """Open a kernel with the function `traced`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vmlinux"
        path.write_bytes(elf_writer.kernel(["traced"]))
        return Session.open(port, MachineSpec(kernel=path, cpus=1))


def _ended(result: int) -> None:
    del result  # the loop has no symbol
