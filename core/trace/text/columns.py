"""The columns of a trace, and a row as fields in them: joined, their texts are the kernel's text.

Each format of rows (defaultformat.py, latencyformat.py, graphformat.py) makes the fields, and
header.py the titles above them. Nothing here imports numpy, so that the console can map
columns to colours before numpy is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import TypeAlias


class Column(Enum):
    """The columns of all formats."""

    TASK = auto()
    """Name and pid of a task, with its tgid if the tgid is shown."""
    CPU = auto()
    FLAGS = auto()
    """The five characters for interrupts, rescheduling, context and preemption."""
    TIME = auto()
    OVERHEAD = auto()
    """The sign of a long duration."""
    DURATION = auto()
    FUNCTION = auto()
    """The traced function, or the name of the event."""
    CALLER = auto()
    """The caller of the function, or the arguments of a dynamic event."""
    FOLD = auto()
    """The text that replaces the rows of a folded call; the kernel has no such field."""
    TEXT = auto()
    """Text in no column."""


Field: TypeAlias = tuple[Column, str]
"""The column of a field, and its text with the spaces around it."""

Fields: TypeAlias = tuple[Field, ...]
"""The fields of one row, from left to right."""


def joined(fields: Iterable[Field]) -> str:
    """Return the text of a row."""
    return "".join([text for _, text in fields])
