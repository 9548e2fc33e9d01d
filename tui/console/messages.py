"""Every message that the console's parts send to each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from ..explore.trace_export import Export


class ViewReady(Message):
    """The machine's thread has made a view that should be shown at once."""


class Answered(Message):
    """A job of the machine's thread has ended; `deliver` passes its result to the caller."""

    def __init__(self, deliver: Callable[[], None]) -> None:
        super().__init__()
        self.deliver = deliver


class FunctionHighlighted(Message):
    """The cursor of the function list moved to the function with the call site at `ip`."""

    def __init__(self, ip: int) -> None:
        super().__init__()
        self.ip = ip


class FunctionWanted(Message):
    """Show the function whose call site is at `ip` in the list (from a trace event or a report)."""

    def __init__(self, ip: int) -> None:
        super().__init__()
        self.ip = ip


class CommandWanted(Message):
    """Execute a command of the tracefs shell; if `typed`, in its current directory."""

    def __init__(self, command: str, typed: bool = False) -> None:
        super().__init__()
        self.command = command
        self.typed = typed


class VisitWanted(Message):
    """Go to the machine at an event of the trace, given by its time and CPU as text."""

    def __init__(self, event: str) -> None:
        super().__init__()
        self.event = event


class BitsWanted(Message):
    """Draw the bit fields of the instruction at address `at`, or of `data` as if it were there."""

    def __init__(self, at: int, data: bytes | None = None) -> None:
        super().__init__()
        self.at = at
        self.data = data


class SearchWanted(Message):
    """The search line was closed with `needle`."""

    def __init__(self, needle: str) -> None:
        super().__init__()
        self.needle = needle


class LineEdited(Message):
    """The text of the command line has changed; it needs candidates."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class LineClosed(Message):
    """The command line was closed."""


class LineDone(Message):
    """All messages that follow from closing the command line have been sent."""


class FilterEdited(Message):
    """The text of the trace's filter has changed; it needs candidates."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class FilterWanted(Message):
    """The line of the trace's filter was closed with `text`."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class ExportWanted(Message):
    """Save rows of the trace."""

    def __init__(self, export: Export) -> None:
        super().__init__()
        self.export = export


class DrawingWanted(Message):
    """Save a picture."""

    def __init__(self, svg: str) -> None:
        super().__init__()
        self.svg = svg


class TimeWanted(Message):
    """Put the cursor of the trace on the event nearest to `instant`, in virtual ns."""

    def __init__(self, instant: int) -> None:
        super().__init__()
        self.instant = instant


class SaveWanted(Message):
    """Save the session."""


class TourWanted(Message):
    """Do the tour's `action` on the main screen; the screen over it has been closed."""

    def __init__(self, action: str) -> None:
        super().__init__()
        self.action = action
