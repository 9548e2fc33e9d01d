"""Saves the rows of a trace that are shown as text, or all of it in another format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..files.whole_file import write_whole

if TYPE_CHECKING:
    from ...core.ftrace.patch import Performed
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
        """Generate header and rows, in pieces of whole lines; comments mark omitted rows."""
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

    def whole_text(self) -> str:
        """Return the rows as one text."""
        return "".join(self.text())

    def save(
        self, path: Path, trace_dat: Callable[[], bytes], patches: Sequence[Performed] = ()
    ) -> tuple[str, str]:
        """Write to `path` in the format that its name selects; return a message, and "".

        Text has the rows shown; other formats have the whole trace. `trace_dat` returns the
        file for trace-cmd with the current contents of the buffers. A timeline also has `patches`,
        phases of changes of text. Raises `DynftraceError`.
        """
        from ...core.trace.export.formats import TRACE_DAT, exported, format_of

        kind = format_of(path.name)
        if kind == "text":
            write_whole(path, self.text())
            return f"saved {path}: {len(self):,} rows", ""
        if kind == TRACE_DAT:
            write_whole(path, trace_dat())
            return f"saved {path}", ""
        trace = self.shown.trace
        assert trace is not None
        write_whole(path, exported(trace.text, kind, path.name, patches))
        return f"saved {path}: {len(trace.text.table):,} events", ""
