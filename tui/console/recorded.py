"""Shows a recorded trace in the console: its events, the functions in it, and its pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...core.errors import TraceFileError
from ...core.ftrace.patch import Performed
from ...core.session.pictures import picture_of_trace
from ...core.trace.file.recording import Recording
from ...core.trace.select.explorer import TraceExplorer
from ...core.views.drawing import Drawing
from ...core.views.lanes import Lanes
from ...core.views.time_pictures import FlameGraph
from ..explore.function_table import FunctionIndex, FunctionTable
from ..present.view import IN_TRACE, Done, State, Status, View

NO_MACHINE = "a recorded trace has no machine: commands need one"


class RecordedDriver:
    """A driver (see worker.py) of a recorded file: no machine, so time and events stand still."""

    progress = ""

    def __init__(self, path: Path, instance: str = "") -> None:
        """Read the file. Raises what `Recording` raises."""
        self.path = path
        recording = Recording(path, instance)
        self._text = recording.text()
        self._trace = TraceExplorer(self._text)
        self._ip: int | None = None
        table = recording.table
        counts = table.entries()
        called = np.flatnonzero(counts)
        functions = self._text.formatter.labels.functions
        index = FunctionIndex(
            [functions[number] for number in called.tolist()],
            [""] * len(called),
            table.addresses[called],
        )
        states = np.full(len(called), State.TRACED, np.uint8)
        nothing = np.zeros(len(called), np.bool_)
        self._functions = FunctionTable(index, states, nothing, counts[called], IN_TRACE)
        last = int(table.events["ts"][-1]) if len(table) else 0
        context = self._text.context
        self._status = Status(
            arch=path.name,
            cpus=context.cpus,
            tracer=context.tracer,
            events=len(table),
            overwritten=context.written - context.in_buffer,
            now=last,
            patch=recording.machine,
            recorded=True,
        )

    def run(self, ns: int) -> None:
        """Do nothing: there is no machine."""

    def now(self) -> int:
        """Return the time of the last event."""
        return self._status.now

    def stop(self) -> None:
        """Do nothing: there is no machine."""

    def look_at(self, ip: int) -> None:
        """Note the function under the cursor, for its histogram."""
        self._ip = ip

    def watch(self, step: int | None) -> None:
        """Do nothing: there is no CPU."""

    def view(self, *, old_s: float = 0.0) -> View:
        """Return the trace and its functions."""
        return View(status=self._status, functions=self._functions, trace=self._trace, ip=self._ip)

    def execute(self, command: str, typed: bool = False) -> Done:
        """Refuse: there is no machine."""
        return Done(command, error=f"{NO_MACHINE}\n", status=1)

    def complete(self, text: str) -> Sequence[str]:
        """Return nothing: no command can be executed."""
        return ()

    def preview(self, text: str) -> str:
        """Return nothing: no command can be executed."""
        return ""

    def picture(self, name: str, function: str = "") -> Drawing | FlameGraph | Lanes:
        """Return a picture; raises what `picture_of_trace` raises."""
        return picture_of_trace(self._text, name, function)

    def trace_dat(self) -> bytes:
        """Return the file itself. Raises `TraceFileError`."""
        return whole_file(self.path)

    def patches(self) -> Sequence[Performed]:
        """Return nothing: a file does not record changes of text."""
        return ()

    def workloads(self) -> Sequence[str]:
        """Return nothing: there is no guest."""
        return ()

    def lines(self) -> int:
        """Return 0: nothing can be undone."""
        return 0


def whole_file(path: Path) -> bytes:
    """Return the bytes of a file. Raises `TraceFileError`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise TraceFileError(str(path), error.strerror or "cannot be read") from error
