"""Dynamic events: the definitions of all kinds, in the order in which they were made.

Source: kernel/trace/trace_dynevent.c, 6.1.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import Protocol

from ..errors import TracefsError
from ..memento import Restore, attributes
from .tree import File

RESERVED = {"enable", "filter"}
"""Names of files beside the directories of groups and events."""


class DynEvent(Protocol):
    """One definition."""

    @property
    def line(self) -> str:
        """The definition as the files list it."""
        ...

    @property
    def busy(self) -> bool:
        """Whether its event is in use, so that it cannot be removed."""
        ...

    @property
    def recorded(self) -> bool:
        """Whether removing it leaves events in the buffers that nothing can print."""
        ...

    @property
    def probes(self) -> tuple[str, str] | None:
        """Group and name of the event that it is attached to, if it is an event probe."""
        ...

    def matches(self, group: str | None, event: str, words: Sequence[str]) -> bool:
        """Return whether a removal names this definition; `words` follow the names."""
        ...

    def release(self) -> None:
        """Remove it. Raises `TracefsError` (EBUSY)."""
        ...


class Named(Protocol):
    """An event."""

    @property
    def group(self) -> str: ...

    @property
    def name(self) -> str: ...


class DynEventType(Protocol):
    """A kind of definitions."""

    def create(self, words: Sequence[str]) -> bool:
        """Create the definition in a line; return False if it is of another kind.

        Raises `TracefsError`.
        """
        ...

    def owns(self, event: DynEvent) -> bool:
        """Return whether the definition is of this kind."""
        ...


class DynEvents:
    """All definitions."""

    def __init__(self, reset: Callable[[], None]) -> None:
        """`reset` drops all recorded events."""
        self._all: tuple[DynEvent, ...] = ()
        self._types: list[DynEventType] = []
        self._reset = reset

    def save(self) -> Restore:
        """Return a function that restores the list of definitions."""
        return attributes(self, "_all")

    def add_type(self, kind: DynEventType) -> None:
        """Add a kind of definitions, tried on each line after the earlier kinds."""
        self._types.append(kind)

    def add(self, event: DynEvent) -> None:
        """Add a definition."""
        self._all = (*self._all, event)

    def remove(self, event: DynEvent) -> None:
        """Remove a definition from the list."""
        self._all = tuple(each for each in self._all if each is not event)

    def all(self, kind: DynEventType | None = None) -> tuple[DynEvent, ...]:
        """Return the definitions, only those of `kind` if given."""
        return tuple(each for each in self._all if kind is None or kind.owns(each))

    def probed(self, event: Named) -> bool:
        """Return whether an event probe is attached to `event`."""
        return any(each.probes == (event.group, event.name) for each in self._all)

    def command(self, line: str, kind: DynEventType | None = None) -> None:
        """Execute one line: a definition, or a removal, only of `kind` if given.

        Raises `TracefsError`: EINVAL for any other line, ENOENT if no definition matches a removal,
        EBUSY if it is in use, and what the definition raises.
        """
        words = line.partition("#")[0].split()
        if not words:
            return
        if words[0][0] == "-" or (kind is None and words[0][0] == "!"):
            self._release(words, kind)
            return
        types = self._types if kind is None else [kind]
        if not any(each.create(words) for each in types):
            raise TracefsError(errno.EINVAL)

    def _release(self, words: Sequence[str], kind: DynEventType | None) -> None:
        _, colon, name = words[0].partition(":")
        if not colon or (words[0][0] == "-" and not words[0].startswith("-:")):
            raise TracefsError(errno.EINVAL)
        named, slash, event = name.partition("/")
        group, event = (named, event) if slash else (None, name)
        if group is None and not event:
            raise TracefsError(errno.EINVAL)
        found = [each for each in self.all(kind) if each.matches(group, event, words[1:])]
        if not found:
            raise TracefsError(errno.ENOENT)
        self.release(found)

    def clear(self, kind: DynEventType | None = None) -> None:
        """Remove all definitions; EBUSY, with none removed, while one is in use."""
        chosen = self.all(kind)
        if not chosen:
            return
        if any(each.busy for each in chosen):
            raise TracefsError(errno.EBUSY)
        self.release(chosen)

    def release(self, chosen: Sequence[DynEvent]) -> None:
        """Remove definitions, and drop recorded events that could no longer be printed.

        Raises `TracefsError` (EBUSY) at the first that is in use.
        """
        reset = False
        try:
            for each in chosen:
                recorded = each.recorded
                each.release()
                reset |= recorded
        finally:
            if reset:
                self._reset()


class EventsFile(File):
    """Definitions of dynamic events, of all kinds or of one."""

    mode = 0o640

    def __init__(self, dynamic: DynEvents, kind: DynEventType | None = None) -> None:
        self._dynamic = dynamic
        self._kind = kind

    def read(self) -> str:
        """Return one definition a line."""
        return "".join(f"{each.line}\n" for each in self._dynamic.all(self._kind))

    def write(self, text: str) -> None:
        """Execute commands, one a line, up to the first that is refused."""
        for line in text.split("\n"):
            self._dynamic.command(line, self._kind)

    def truncate(self) -> None:
        """Remove all definitions."""
        self._dynamic.clear(self._kind)
