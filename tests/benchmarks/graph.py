"""What a traced call costs more: with its return traced or profiled, and with the stop flag."""

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
from .guest import CALLS, LIMIT, LOOP, called
from .measure import Row, paired

_TEST = re.compile(r"(ftrace_caller:\n)( +/\* HAVE_FUNCTION_TRACE_MCOUNT_TEST \*/\n.*\n.*\n)")
"""The test of function_trace_stop in ftrace_caller, of x86-64."""


def rows() -> Iterator[Row]:
    """A call with its return against the call alone, profiled against traced; the flag's test."""
    port = arches.load(arches.DEFAULT)
    function = _loop(port, "function", port.entry_source())
    pair = paired(_loop(port, "function_graph", port.entry_source()), function, rounds=7)
    yield Row(
        "a call and its return, traced",
        f"{CALLS / pair.a / 1e6:.2f} M/s",
        pair.ratio,
        "the call alone, traced",
        "(no target)",
        True,
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
    # In front of ftrace_caller nothing comes to it, and what follows stays where it is.
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
    """Calls of a kernel with this entry.S, traced by `value` in `file`; the buffer is full soon."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(type(port), "entry_source", lambda self: source),
    ):
        path = Path(folder) / "vmlinux"
        path.write_bytes(elf_writer.kernel(["traced"]))
        session = Session.open(port, MachineSpec(kernel=path, cpus=1))
    called(session)
    session.boot.tracefs.write(file, value)
    return lambda: _ended(session.boot.machine.requests.call(LOOP, limit_ns=LIMIT))


def _ended(result: int) -> None:
    del result  # the loop has none
