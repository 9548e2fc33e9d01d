"""The columns of the function list, and their titles.

The widths depend only on the width of the list, so nothing moves while counts grow. A narrow
list shows the module after the name, as available_filter_functions does, and only the sign of
the state.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len

from ...present.line import Line, Span, Subject, fit, line
from ...present.view import SIGNS, TONES, WORDS, FunctionRow

WORDS_WIDTH = 38
"""Minimum width of a list that shows the state in words too."""

MODULE_WIDTH = 50
"""Minimum width of a list with a column for modules."""

_SIGNS = 3
_GAP = 1
_WORD = 7

_TITLES = {"use": "", "address": "", "name": " ▲", "state": " ▼", "hits": " ▼"}
"""The sign after the title of the column that the list is sorted by."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Cells of each column, 0 for one without room.

    `hits` and `state` include a blank before them.
    """

    name: int
    module: int
    hits: int
    state: int

    @classmethod
    def of(cls, width: int) -> Columns:
        """Return the columns of a list `width` cells wide."""
        state = _GAP + _WORD if width >= WORDS_WIDTH else 0
        module = 11 if width >= MODULE_WIDTH else 0
        hits = 10 if width >= MODULE_WIDTH else 6
        return cls(max(width - _SIGNS - module - hits - state, 4), module, hits, state)


def row_line(row: FunctionRow, width: int, current: bool) -> Line:
    """Return a function's sign, name, module and hits, and its state in words if there is room.

    Copying the line gives the name.
    """
    columns = Columns.of(width)
    tone = TONES[row.state]
    strong = "strong" if tone == "good" else ""
    name: tuple[Span, ...]
    if columns.module or not row.module:
        name = ((fit(row.name, columns.name), strong),)
    else:
        # Users look for the name: cut the module first.
        owner = f" [{row.module}]"
        taken = cell_len(row.name)
        room = columns.name - taken
        name = (
            (fit(row.name, min(taken, columns.name)), strong),
            (fit(owner, room) if room > 1 else " " * room, "dim"),
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
    """Return the titles; `counted` is the title of the hits, and a sign shows the `order`."""
    columns = Columns.of(width)
    sign = _TITLES[order]
    hits = counted + (sign if order == "hits" else "")
    name = "function" + (sign if order == "name" else "")
    # A title of the hits that is longer than its column extends to the left.
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
    """Return `number` in at most `width` (at least 4) characters.

    A number that does not fit is given in thousands (`k`), millions (`M`) and so on, rounded
    down.
    """
    text = str(number)
    for sign in "kMGTPE":
        if len(text) <= width:
            break
        number //= 1000
        text = f"{number}{sign}"
    return text
