"""Saves the rows of a trace that are shown, as text below the trace's own header."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..files.whole_file import free_path, write_whole

if TYPE_CHECKING:
    from .trace_selection import ShownRows

_BLOCK = 4096
"""Rows formatted at once."""


@dataclass(frozen=True, slots=True)
class Export:
    """The rows at indices `start` to `stop` (exclusive) of those shown."""

    shown: ShownRows
    start: int
    stop: int
    marked: bool = False
    """Whether markers A and B are the limits."""

    def __len__(self) -> int:
        return self.stop - self.start

    def text(self) -> Iterator[str]:
        """Generate header and rows, in pieces of whole lines; comments say what is left out."""
        trace = self.shown.trace
        for comment in () if trace is None else trace.text.header:
            yield f"{comment}\n"
        if self.marked:
            yield "# from marker A to marker B\n"
        if self.shown.only is not None:
            yield f"# filter: {self.shown.only.text}\n"
        for start in range(self.start, self.stop, _BLOCK):
            texts = self.shown.texts(start, min(start + _BLOCK, self.stop))
            yield "".join(f"{text}\n" for text in texts)

    def save(self, folder: Path) -> Path:
        """Write dynftrace-N.txt with the first free N; raises `DynftraceError`."""
        path = free_path(folder, ".txt")
        write_whole(path, self.text())
        return path
