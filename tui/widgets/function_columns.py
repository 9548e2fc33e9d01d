"""The columns of the function list: a row, and the titles over them.

Widths follow from the list's width alone, so that nothing moves while counts grow. In a
narrow list the module stands behind the name, as in available_filter_functions, and the
state has its sign only.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..spans import Line, Span, Subject, fit, line
from ..view import SIGNS, TONES, WORDS, FunctionRow

WORDS_WIDTH = 39
"""From here on the state is told in words too."""

MODULE_WIDTH = 50
"""From here on modules have a column of their own."""

_SIGNS = 3
_GAP = 2
_WORD = 7

_TITLES = {"address": "", "name": " ▲", "state": " ▼", "hits": " ▼"}
"""What stands behind the title of the column that is sorted by."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Cells of each column; 0 for one there is no room for. `hits` comes with a blank before it,
    `state` with two."""

    name: int
    module: int
    hits: int
    state: int

    @classmethod
    def of(cls, width: int) -> Columns:
        """The columns of a list `width` cells wide."""
        state = _GAP + _WORD if width >= WORDS_WIDTH else 0
        module = 11 if width >= MODULE_WIDTH else 0
        hits = 10 if width >= MODULE_WIDTH else 6
        return cls(max(width - _SIGNS - module - hits - state, 4), module, hits, state)


def row_line(row: FunctionRow, width: int, current: bool) -> Line:
    """Cursor sign, state sign, name, module, hits, and the state in words where there is room."""
    columns = Columns.of(width)
    tone = TONES[row.state]
    strong = "strong" if tone == "good" else ""
    name: tuple[Span, ...]
    if columns.module or not row.module:
        name = ((fit(row.name, columns.name), strong),)
    else:
        # The name is what one looks for: it is cut last.
        behind = f" [{row.module}]"
        room = columns.name - len(row.name)
        name = (
            (fit(row.name, min(len(row.name), columns.name)), strong),
            (fit(behind, room) if room > 1 else " " * room, "dim"),
        )
    count = compact(row.hits, columns.hits - 1) if row.hits else ""
    return line(
        (SIGNS[row.state] + " ", tone),
        *name,
        (" " + fit(row.module, columns.module - 1) if columns.module else "", "dim"),
        (count.rjust(columns.hits), "" if row.hits else "dim"),
        (" " * _GAP + fit(WORDS[row.state], columns.state - _GAP) if columns.state else "", tone),
        subject=Subject(row.name, row.ip),
        copy=row.name,
        mark=("▶" if current else " ", "accent"),
    )


def title_line(counted: str, order: str, width: int) -> Line:
    """The titles of the columns; `counted` is that of the hits, and one shows the `order`."""
    columns = Columns.of(width)
    sign = _TITLES[order]
    hits = counted + (sign if order == "hits" else "")
    name = "function" + (sign if order == "name" else "")
    # Longer than its column, the title of the hits reaches to the left.
    module = "module" if columns.module else ""
    left = f"{name:<{columns.name}}" + (f" {module:<{columns.module - 1}}" if module else "")
    room = len(left) + columns.hits
    left = left[: max(room - len(hits) - 1, 0)]
    state = "state" + (sign if order == "state" else "")
    text = " " * _SIGNS + left + hits.rjust(room - len(left))
    if columns.state:
        text += " " * _GAP + fit(state, columns.state - _GAP)
    elif order == "state":
        text = sign.strip().rjust(2) + text[2:]
    return line((fit(text, width), "dim"))


def compact(number: int, width: int) -> str:
    """`number` in at most `width` (at least 4) characters, in full where that fits.

    Else in thousands (`k`), millions (`M`) and so on, rounded down.
    """
    text = str(number)
    for sign in "kMGTPE":
        if len(text) <= width:
            break
        number //= 1000
        text = f"{number}{sign}"
    return text
