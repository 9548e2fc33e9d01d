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
from ...memento import Restore, attributes, in_order
from ..tree import File
from .eventfile import EventFile, EventFiles
from .filters import EventFilter
from .hists import synth_data
from .triggers import EventTriggers, TriggerServices

_DYNAMIC = "s:"
"""What a definition in dynamic_events begins with."""


class SynthTraceEvent:
    """A synthetic event in events/synthetic/."""

    def __init__(
        self,
        definition: SynthEvent,
        number: int,
        files: EventFiles,
        services: TriggerServices,
        switched: Callable[[bool], None],
    ) -> None:
        self.definition = definition
        self.number = number
        """Number of its type in the ring buffer."""
        data = synth_data(definition, number, files.memory.byteorder)
        self.address = files.blocks.place(data)
        """Of its `struct synth_event`."""
        self.file = EventFile(files, number, switched)
        self.filter = EventFilter(files, number, self.fields)
        self.triggers = EventTriggers(files, self.file, self.fields, services)

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

    def matches(self, group: str | None, event: str) -> bool:
        """Return whether a removal of `group` (None for any) and `event` means this one."""
        return group in (None, GROUP) and event == self.name

    @property
    def on(self) -> bool:
        """Whether histograms make it."""
        return self.file.made

    @property
    def fields(self) -> Sequence[Field]:
        """Its fields, each at a multiple of 8 bytes."""
        return self.definition.fields

    @property
    def print_fmt(self) -> str:
        """How its file `format` says that it is printed."""
        return self.definition.print_fmt

    def switch(self, on: bool) -> None:
        """Switch the event on or off."""
        self.file.enable(on)


class SynthEvents:
    """The synthetic events of the machine, in the order of their definition."""

    def __init__(
        self,
        files: EventFiles,
        services: TriggerServices,
        hists: Callable[[], Iterable[Hist]],
        reset: Callable[[], None],
        switched: Callable[[bool], None],
    ) -> None:
        """`hists` returns all histograms, and `reset` drops all recorded events.

        `switched` is called while an event goes on or off.
        """
        self._files = files
        self._services = services
        self._hists = hists
        self._reset = reset
        self._switched = switched
        self._events: list[SynthTraceEvent] = []
        self._was_on: set[int] = set()

    def save(self) -> Restore:
        """Return a function that restores the events; the machine saves their memory."""
        parts = ((each.file, each.filter, each.triggers) for each in self._events)
        states = (part.save() for each in parts for part in each)
        return in_order(attributes(self, "_events", "_was_on"), *states)

    def __iter__(self) -> Iterator[SynthTraceEvent]:
        return iter(self._events)

    def find(self, name: str) -> SynthTraceEvent | None:
        """Return the event `name`."""
        return next((each for each in self._events if each.name == name), None)

    @property
    def by_number(self) -> Mapping[int, EventFormat]:
        """The events as the trace shows them, by number of their type."""
        layout = Layout(self._files.memory.byteorder, self._files.memory.pointer_size)
        return {
            each.number: EventFormat(
                *(GROUP, each.name, each.number, each.definition.fields),
                *(each.definition.shown_fmt, layout),
            )
            for each in self._events
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
        with _Explained(self._files, line):
            check_command(line)
            self._add(name, fields)

    def create(self, words: Sequence[str]) -> bool:
        """Make what `s:[synthetic/]NAME FIELDS` defines, one line written to dynamic_events.

        Return False if it defines something else. Raises as `command`.
        """
        if not words[0].startswith(_DYNAMIC):
            return False
        line = " ".join(words)
        with _Explained(self._files, line):
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
        long = self._files.memory.pointer_size
        event = parse_synth(name, fields, long, lambda name: self.find(name) is not None)
        used = {each.number for each in self._events}
        numbers = range(FIRST_SYNTH_EVENT_ID, LAST_SYNTH_EVENT_ID + 1)
        number = next((each for each in numbers if each not in used), None)
        if number is None or not self._files.has(number):
            raise TracefsError(errno.ENODEV, "Too many event types")

        def switched(on: bool) -> None:
            self._was_on.add(number)
            self._switched(on)

        made = SynthTraceEvent(event, number, self._files, self._services, switched)
        self._events.append(made)

    def remove(self, name: str) -> None:
        """Remove the event `name`. Raises `TracefsError` (ENOENT, EBUSY)."""
        event = self.find(name)
        if event is None:
            raise TracefsError(errno.ENOENT)
        self._drop([event])

    def clear(self) -> None:
        """Remove all events; EBUSY, with none removed, while one of them is in use."""
        self._drop(list(self._events))

    def _drop(self, chosen: Sequence[SynthTraceEvent]) -> None:
        used = {action.event for hist in self._hists() for action in hist.actions}
        if any(
            each.file.attached or each.triggers.hists or each.definition in used for each in chosen
        ):
            raise TracefsError(errno.EBUSY)
        for each in chosen:
            if each.filter.text:
                each.filter.set("0")
            each.triggers.clear()
            self._files.blocks.free(each.address)
        self._events = [each for each in self._events if each not in chosen]
        # Another event can get the number.
        if self._was_on & {each.number for each in chosen}:
            self._was_on -= {each.number for each in chosen}
            self._reset()


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
        self._events.clear()
