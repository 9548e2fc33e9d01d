"""Synthetic events: the file synthetic_events, and the events in events/synthetic/.

Source: create_or_delete_synth_event(), create_synth_event() and synth_event_release() in
kernel/trace/trace_events_synth.c, 6.1.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ...abi import FIRST_SYNTH_EVENT_ID, LAST_SYNTH_EVENT_ID
from ...errors import TracefsError
from ...events.fields import Field, Layout
from ...events.formats import EventFormat
from ...events.hist import Hist
from ...events.synth import (
    GROUP,
    INVALID_CMD,
    INVALID_DYN_CMD,
    SUBSYSTEM,
    SynthError,
    SynthEvent,
    check_command,
    parse_synth,
)
from ...memento import Restore, in_order
from ..dynevents import DynEvents
from ..tree import File, Node
from .eventfile import EventFiles
from .hists import synth_data
from .switched import SwitchedEvent
from .triggers import TriggerServices

_DYNAMIC = "s:"
"""Prefix of a definition in dynamic_events."""


class SynthTraceEvent(SwitchedEvent):
    """A synthetic event in events/synthetic/."""

    def __init__(self, events: SynthEvents, definition: SynthEvent, number: int) -> None:
        self.definition = definition
        self._events = events
        files = events.files
        data = synth_data(definition, number, files.memory.byteorder)
        self.address = files.blocks.place(data)
        """Of its `struct synth_event`."""
        super().__init__(files, events.services, number, definition.fields)

    @property
    def group(self) -> str:
        """Its system."""
        return GROUP

    @property
    def name(self) -> str:
        """Its name."""
        return self.definition.name

    @property
    def line(self) -> str:
        """The definition as the file dynamic_events lists it."""
        return f"{_DYNAMIC}{GROUP}/{self.definition.line}"

    @property
    def probes(self) -> None:
        """Return None: a synthetic event is attached to no event."""
        return None

    @property
    def busy(self) -> bool:
        """Whether it is in use: on, counted, made by a histogram, or an event probe's event."""
        events = self._events
        counted = self.file.attached or bool(self.triggers.hists)
        return counted or events.made(self.definition) or events.dynamic.probed(self)

    @property
    def recorded(self) -> bool:
        """Whether it may be in the buffers."""
        return self.file.was_attached

    def matches(self, group: str | None, event: str, words: Sequence[str]) -> bool:
        """Return whether a removal means this one (`synth_event_match`)."""
        return group in (None, GROUP) and event == self.name

    def release(self) -> None:
        """Remove it. Raises `TracefsError` (EBUSY) while it is in use."""
        if self.busy:
            raise TracefsError(errno.EBUSY)
        self.clear()
        self._events.files.blocks.free(self.address)
        self._events.dynamic.remove(self)

    @property
    def fields(self) -> Sequence[Field]:
        """Its fields, each at a multiple of 8 bytes."""
        return self.definition.fields

    @property
    def print_fmt(self) -> str:
        """Its print format, as the file `format` shows it."""
        return self.definition.print_fmt

    def _attach(self, on: bool) -> None:
        self._events.switched(on)


class SynthEvents:
    """The synthetic events of the machine, in the order of their definition."""

    def __init__(
        self,
        files: EventFiles,
        services: TriggerServices,
        dynamic: DynEvents,
        hists: Callable[[], Iterable[Hist]],
        switched: Callable[[bool], None],
    ) -> None:
        """`hists` returns all histograms; `switched` is called while an event is switched."""
        self.files = files
        self.services = services
        self.dynamic = dynamic
        self.switched = switched
        self._hists = hists
        dynamic.add_type(self)

    def save(self) -> Restore:
        """Return a function that restores the events; the machine saves their memory."""
        return in_order(*(each.save() for each in self))

    def __iter__(self) -> Iterator[SynthTraceEvent]:
        return (each for each in self.dynamic.all() if isinstance(each, SynthTraceEvent))

    def owns(self, event: object) -> bool:
        """Return whether it is a synthetic event."""
        return isinstance(event, SynthTraceEvent)

    def find(self, name: str) -> SynthTraceEvent | None:
        """Return the event `name`."""
        return next((each for each in self if each.name == name), None)

    def made(self, event: SynthEvent) -> bool:
        """Return whether a histogram makes `event`."""
        return any(action.event == event for hist in self._hists() for action in hist.actions)

    @property
    def by_number(self) -> Mapping[int, EventFormat]:
        """The events as the trace shows them, by number of their type."""
        layout = Layout(self.files.memory.byteorder, self.files.memory.pointer_size)
        return {
            each.number: EventFormat(
                *(GROUP, each.name, each.number, each.definition.fields),
                *(each.definition.shown_fmt, layout),
            )
            for each in self
        }

    # Commands

    def command(self, line: str) -> None:
        """Execute one line written to synthetic_events: `NAME FIELDS` or `!NAME`.

        Raises `TracefsError`: EINVAL with a reason, EEXIST, ENOENT, EBUSY if the event is in use.
        """
        line = line.partition("#")[0].lstrip()
        if not line:
            return
        name, fields = _split(line)
        if line.startswith("!"):
            self.remove(name[1:])
            return
        with _Explained(self.files, line):
            check_command(line)
            self._add(name, fields)

    def create(self, words: Sequence[str]) -> bool:
        """Make the event of `s:[synthetic/]NAME FIELDS`, a line written to dynamic_events.

        Return False if it defines something else. Raises as `command`.
        """
        if not words[0].startswith(_DYNAMIC):
            return False
        line = " ".join(words)
        with _Explained(self.files, line):
            name, fields = _split(line.removeprefix(_DYNAMIC))
            if not fields:
                raise SynthError(INVALID_CMD)
            group, slash, rest = name.partition("/")
            if slash and group != GROUP:
                raise SynthError(INVALID_DYN_CMD)
            name = rest if slash else name
            check_command(f"{name} {fields}")
            self._add(name, fields)
        return True

    def _add(self, name: str, fields: str) -> None:
        long = self.files.memory.pointer_size
        event = parse_synth(name, fields, long, lambda name: self.find(name) is not None)
        used = {each.number for each in self}
        numbers = range(FIRST_SYNTH_EVENT_ID, LAST_SYNTH_EVENT_ID + 1)
        number = next((each for each in numbers if each not in used), None)
        if number is None or not self.files.has(number):
            raise TracefsError(errno.ENODEV, "Too many event types")
        self.dynamic.add(SynthTraceEvent(self, event, number))

    def remove(self, name: str) -> None:
        """Remove the event `name`. Raises `TracefsError` (ENOENT, EBUSY)."""
        event = self.find(name)
        if event is None:
            raise TracefsError(errno.ENOENT)
        self.dynamic.release([event])


class _Explained:
    """Explains in error_log why a definition is refused."""

    def __init__(self, files: EventFiles, command: str) -> None:
        self._files = files
        self._command = command

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, SynthError):
            place = max(self._command.find(error.word), 0)
            self._files.errors.add(SUBSYSTEM, self._command, error.reason, place)
            text = f"{os.strerror(error.number)}: {error.reason}"
            raise TracefsError(error.number, text) from None


def _split(line: str) -> tuple[str, str]:
    name, *rest = line.split(maxsplit=1)
    return name, rest[0] if rest else ""


class SynthEventsFile(File):
    """The definitions; each line written adds one or removes one."""

    mode = 0o640

    def __init__(self, events: SynthEvents) -> None:
        self._events = events

    def read(self) -> str:
        """Return one definition a line."""
        return "".join(f"{each.definition.line}\n" for each in self._events)

    def write(self, text: str) -> None:
        """Execute commands, one a line, up to the first that is refused."""
        for line in text.split("\n"):
            self._events.command(line)

    def truncate(self) -> None:
        """Remove all definitions."""
        self._events.dynamic.clear(self._events)


def files(events: SynthEvents) -> Mapping[str, Node]:
    """Return the files of this module by name."""
    return {"synthetic_events": SynthEventsFile(events)}
