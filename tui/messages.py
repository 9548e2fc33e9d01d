"""Every message that travels between the console's parts."""

from __future__ import annotations

from collections.abc import Sequence

from textual.message import Message

from .traceexport import Export
from .view import Done


class ViewReady(Message):
    """The machine's thread has made a view that should be shown at once."""


class CommandDone(Message):
    """A command was executed; `box` says whether long output gets one."""

    def __init__(self, done: Done, box: bool) -> None:
        super().__init__()
        self.done = done
        self.box = box


class CandidatesFound(Message):
    """What the command line `text` can become, and what is to be said of it."""

    def __init__(self, text: str, words: Sequence[str], hint: str) -> None:
        super().__init__()
        self.text = text
        self.words = words
        self.hint = hint


class TourLooked(Message):
    """Step `at` of the tour was looked at."""

    def __init__(self, at: int, done: bool) -> None:
        super().__init__()
        self.at = at
        self.done = done


class Compared(Message):
    """A function was compared on every port; `lines` tell, or are a sentence that it was not."""

    def __init__(self, function: str, lines: Sequence[str]) -> None:
        super().__init__()
        self.function = function
        self.lines = lines


class WorkloadsFound(Message):
    """The workloads to pick from."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = names


class FunctionHighlighted(Message):
    """The cursor of the function list is on the function with the call site at `ip`."""

    def __init__(self, ip: int) -> None:
        super().__init__()
        self.ip = ip


class CommandWanted(Message):
    """A widget or the command line asks for a command of the tracefs shell."""

    def __init__(self, command: str) -> None:
        super().__init__()
        self.command = command


class BitsWanted(Message):
    """Draw the bit fields of the instruction at address `at`."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at


class SearchWanted(Message):
    """The search line was closed with `needle`."""

    def __init__(self, needle: str) -> None:
        super().__init__()
        self.needle = needle


class LineEdited(Message):
    """The command line's text changed and wants candidates."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class LineClosed(Message):
    """The command line went away without a command."""


class FilterEdited(Message):
    """The text of the trace's filter changed and wants candidates."""

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


class Exported(Message):
    """Rows of the trace were saved, or not: `text` is one sentence on it.

    What a browser is to save is in `download`.
    """

    def __init__(self, text: str, failed: bool, download: str = "") -> None:
        super().__init__()
        self.download = download
        self.text = text
        self.failed = failed


class SaveWanted(Message):
    """The session shall be kept."""


class SessionSaved(Message):
    """The session was kept; `reason` is why not, or what of it was not, or nothing."""

    def __init__(self, reason: str, failed: bool) -> None:
        super().__init__()
        self.reason = reason
        self.failed = failed


class LineDone(Message):
    """All that closing the command line leads to has been said."""


class FunctionWanted(Message):
    """Show the function with the call site at `ip` in the list; a trace event asks for it."""

    def __init__(self, ip: int) -> None:
        super().__init__()
        self.ip = ip
