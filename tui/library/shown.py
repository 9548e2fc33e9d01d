"""The library's results, which draw themselves: in a terminal with Rich, in a notebook as HTML.

Each class holds data of `core`. `print` gives plain text, Rich and Jupyter give colours.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.abi import TraceType
from ...core.ftrace.state import ENABLED
from ...core.trace.buffer.details import EVENT
from ...core.trace.export.records import EVENTS, event_text
from ...core.trace.text.columntexts import comm_of
from ...core.trace.text.defaultformat import DefaultFormatter
from ...core.trace.text.tracetext import TraceText
from ...core.views.call_site import CallSite
from ...core.views.path import Hop
from ..present.call_path import path_lines
from ..present.call_site import site_lines
from ..present.line import Line, line, plain

if TYPE_CHECKING:
    from rich.text import Text

WIDTH = 100
"""Columns of what is drawn."""

ROWS = 40
"""Rows of a trace that are drawn: the last ones, as the console does."""

_TYPES = 0x100
"""Added to types of events in the buffer, so that they differ from the kinds of `EVENTS`."""

_CSS = {
    "dim": "opacity:.65",
    "strong": "font-weight:bold",
    "accent": "color:#b57614",
    "good": "color:#2e8b57",
    "bad": "color:#d0403f;font-weight:bold",
    "mark": "background:#d8b26e;color:#14181d;font-weight:bold",
    "link": "color:#3b7cc4",
    "found": "background:#ffe08a;color:#14181d",
}
_RICH = {
    "dim": "dim",
    "strong": "bold",
    "accent": "yellow",
    "good": "green",
    "bad": "bold red",
    "mark": "reverse",
    "link": "blue",
    "found": "black on yellow",
}
"""How the tones of `present.line` look, on light and on dark backgrounds."""


class Shown:
    """Something that is drawn as lines."""

    def lines(self) -> Sequence[Line]:
        """Return the lines to draw."""
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n".join(plain(each).rstrip() for each in self.lines())

    def __rich__(self) -> Text:
        """Draw it with Rich."""
        from rich.text import Text

        spans = [
            (text, _RICH.get(tone, "")) for each in self.lines() for text, tone in (*each, _END)
        ]
        return Text.assemble(*spans[:-1], no_wrap=True)

    def _repr_html_(self) -> str:
        """Draw it in a notebook."""
        rows = ("".join(map(_span, each)) for each in self.lines())
        return f'<pre style="line-height:1.25">{chr(10).join(rows)}</pre>'

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> Mapping[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}


_END = ("\n", "")


def _span(span: tuple[str, str]) -> str:
    text, tone = span
    escaped = html.escape(text, quote=False)
    return f'<span style="{_CSS[tone]}">{escaped}</span>' if tone in _CSS else escaped


@dataclass(frozen=True)
class Site(Shown):
    """A snapshot of a call site; `view` has all of it as data."""

    view: CallSite

    @property
    def ip(self) -> int:
        """Address of the call site."""
        return self.view.ip

    @property
    def name(self) -> str:
        """Name of the traced function."""
        return self.view.name

    @property
    def enabled(self) -> bool:
        """Whether it calls the tracer."""
        return self.view.state == ENABLED

    def _joined(self, form: str) -> bytes:
        return b"".join(getattr(row, form).data for row in self.view.rows if row.is_site)

    @property
    def compiled(self) -> bytes:
        """Its bytes as the compiler left them; in a module, after relocation."""
        return self._joined("compiled")

    @property
    def expected(self) -> bytes:
        """Its bytes as ftrace left them."""
        return self._joined("expected")

    @property
    def now(self) -> bytes:
        """Its bytes in guest memory."""
        return self._joined("now")

    def lines(self) -> Sequence[Line]:
        """Return the lines of the console's pane."""
        return site_lines(self.view, WIDTH)


@dataclass(frozen=True)
class Path(Shown, Sequence[Hop]):
    """The hops from a call site to the tracer, each read from guest memory."""

    hops: tuple[Hop, ...]

    def __getitem__(self, at: Any) -> Any:
        return self.hops[at]

    def __len__(self) -> int:
        return len(self.hops)

    def lines(self) -> Sequence[Line]:
        """Return the lines of the console's pane."""
        return path_lines(self.hops, (), WIDTH)


class Trace(Shown):
    """The events of a trace, oldest first, as columns. Later events do not appear in it."""

    def __init__(self, text: TraceText) -> None:
        self._text = text

    def __len__(self) -> int:
        return len(self._text.table)

    @cached_property
    def columns(self) -> Mapping[str, NDArray[Any]]:
        """The columns: numpy arrays of one length, by name.

        `time_ns`, `cpu`, `pid`; `comm`, the task's name; `event`, such as `function`,
        `funcgraph_entry` or `syscall`; `function` and `caller`; `depth` and `duration_ns` of
        calls, or -1; `text`, the text of an event that is not a call. An event without a name
        has "" in that column.
        """
        table = self._text.table
        events = table.events
        kinds, ip, parent = events["type"], events["ip"], events["parent"]
        traced = kinds == TraceType.FN
        entry, done = kinds == TraceType.GRAPH_ENT, kinds == TraceType.GRAPH_RET
        names = self._text.formatter.labels.functions
        depth = np.full(len(events), -1, np.int64)
        duration = np.full(len(events), -1, np.int64)
        depth[entry] = parent[entry]
        if done.any():
            returns = table.details.returns[parent[done].astype(np.intp)]
            depth[done] = returns["depth"]
            duration[done] = returns["rettime"] - returns["calltime"]
        known = self._text.context.cmdlines
        called = traced | entry | done
        found = {
            "time_ns": events["ts"].astype(np.int64),
            "cpu": events["cpu"].astype(np.int64),
            "pid": events["pid"].astype(np.int64),
            "comm": _named(events["pid"], lambda pid: comm_of(pid, known)),
            "event": _named(self._types(), self._event),
            "function": _named(ip, lambda at: names[at], called),
            "caller": _named(parent, lambda at: names[at], traced),
            "depth": depth,
            "duration_ns": duration,
            "text": self._texts(np.flatnonzero(~called)),
        }
        return MappingProxyType(found)

    def _types(self) -> NDArray[np.uint16]:
        """Return the type of each event: of a trace event, the buffer's type plus `_TYPES`."""
        table = self._text.table
        kinds = table.events["type"].astype(np.uint16)
        switched = np.flatnonzero(kinds == TraceType.CTX)
        woken = table.details.switches["wakeup"][table.events["parent"][switched]].astype(np.bool_)
        kinds[switched[woken]] = TraceType.WAKE
        traced = kinds == EVENT
        kinds[traced] = _TYPES + table.details.records.ids[table.events["parent"][traced]]
        return kinds

    def _event(self, kind: int) -> str:
        if kind < _TYPES:
            return EVENTS.get(kind, "unknown")
        event = self._text.context.events.get(kind - _TYPES)
        return EVENTS.get(kind - _TYPES, "unknown") if event is None else event.name

    def _texts(self, rows: NDArray[np.intp]) -> NDArray[np.str_]:
        """Return a column with the text of the events `rows`."""
        said = DefaultFormatter(self._text.table, self._text.context)
        texts = [event_text(said, row) for row in rows.tolist()]
        column = np.zeros(len(self), f"U{max(map(len, texts), default=1)}")
        column[rows] = texts
        return column

    @property
    def array(self) -> NDArray[np.void]:
        """All columns as one structured array."""
        columns = self.columns
        found = np.empty(len(self), [(name, each.dtype) for name, each in columns.items()])
        for name, each in columns.items():
            found[name] = each
        return found

    def __getitem__(self, column: str) -> NDArray[Any]:
        """Return one column. Raises `KeyError`."""
        return self.columns[column]

    @property
    def text(self) -> str:
        """The content of the file `trace`."""
        return "".join(self._text.file())

    def lines(self) -> Sequence[Line]:
        """Return the heading and the last `ROWS` rows."""
        count = len(self._text)
        heading = [line((each, "dim")) for each in self._text.header]
        rows = [line(each) for each in self._text.texts(max(count - ROWS, 0), count)]
        cut = [line((f"… {count - ROWS:,} rows before", "dim"))] if count > ROWS else []
        return [*heading, *cut, *rows]


def _named(numbers: NDArray[Any], name: Any, where: NDArray[np.bool_] | None = None) -> Any:
    """Return a column with the name of each number; "" except at `where`."""
    chosen = numbers if where is None else numbers[where]
    known, inverse = np.unique(chosen, return_inverse=True)
    names = np.array([name(each) for each in known.tolist()], np.str_)
    if where is None:
        return names[inverse]
    column = np.zeros(len(numbers), names.dtype if len(known) else "U1")
    column[where] = names[inverse] if len(known) else ""
    return column


@dataclass(frozen=True)
class Picture:
    """A picture of the console."""

    svg: str

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> Mapping[str, str]:
        """Draw it in a notebook, whose page may hold several: their styles must not mix."""
        own = f"t{sha256(self.svg.encode()).hexdigest()[:8]}-"
        return {
            "text/plain": repr(self),
            "image/svg+xml": self.svg.replace("terminal-", own),
        }

    def __repr__(self) -> str:
        return f"<Picture of {len(self.svg):,} bytes>"
