"""The files `trigger` and `hist` of an event: commands that are executed when it happens.

    traceon|traceoff|snapshot|stacktrace[:COUNT] [if FILTER]
    enable_event|disable_event:SYSTEM:EVENT[:COUNT] [if FILTER]
    enable_hist|disable_hist:SYSTEM:EVENT[:COUNT] [if FILTER]
    hist:keys=… [if FILTER]

A `!` in front removes a command. The guest executes them and counts down; a histogram is a map
in guest memory (hists.py), which histparser.py makes from its definition. Source:
kernel/trace/trace_events_trigger.c and trace_events_hist.c, 6.1.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ... import abi
from ...abi import HistAction, TriggerCommand
from ...errors import TracefsError
from ...events.fields import Field
from ...events.filter import MOST_CHARACTERS, FilterError, Test, parse_filter
from ...events.hist import Hist
from ...events.histtext import Names, hist_text
from ...events.synth import SynthEvent
from ...memento import Restore, attributes
from ..number import kstrtoul
from ..tree import File
from .eventfile import EventFile, EventFiles
from .filters import stored
from .histparser import (
    NAMED_MISMATCH,
    SET_CLOCK_FAIL,
    TRIGGER_EEXIST,
    TRIGGER_ENOENT_CLEAR,
    HistParser,
)
from .hists import HistStore

AVAILABLE = (
    "# Available triggers:\n"
    "# traceon traceoff snapshot stacktrace enable_event disable_event "
    "enable_hist disable_hist hist\n"
)
"""Content of the file `trigger` without triggers."""

_OTHER = (TriggerCommand.HIST, TriggerCommand.EPROBE)
_COMMANDS = {each.name.lower(): each for each in TriggerCommand if each not in _OTHER}
_EVENT_COMMANDS = (TriggerCommand.ENABLE_EVENT, TriggerCommand.DISABLE_EVENT)
_HIST_SWITCHES = (TriggerCommand.ENABLE_HIST, TriggerCommand.DISABLE_HIST)
_TARGET_COMMANDS = (*_EVENT_COMMANDS, *_HIST_SWITCHES)
_TYPES = (
    {TriggerCommand.TRACEON, TriggerCommand.TRACEOFF},
    {*_EVENT_COMMANDS},
    {*_HIST_SWITCHES},
)
"""Sets of commands of one type: an event has one trigger of each type (`trigger_type`)."""

_HIST = re.compile(r"(?P<remove>!?)hist(?:[: \t]\s*(?P<rest>.*))?", re.DOTALL)
_CONDITION = re.compile(r"[ \t]if[ \t](?P<condition>.+)", re.DOTALL)

_LINE = re.compile(
    r"(?P<remove>!?)(?P<name>\w+)(?::(?P<rest>\S*))?(?:\s+if\s+(?P<condition>\S.*))?", re.DOTALL
)


class Triggered(Protocol):
    """An event that has triggers."""

    @property
    def group(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def fields(self) -> Sequence[Field]: ...

    @property
    def file(self) -> EventFile: ...

    @property
    def triggers(self) -> EventTriggers: ...


class TriggerServices(Protocol):
    """A trace array, as far as triggers need it."""

    @property
    def events(self) -> Sequence[Triggered]:
        """All events that exist now."""
        ...

    @property
    def triggered(self) -> Sequence[Triggered]:
        """All events that can have triggers."""
        ...

    def allocate_snapshot(self) -> None:
        """Make a spare buffer."""
        ...

    def hist_names(self) -> Names:
        """Return the names that histograms show."""
        ...

    @property
    def clock_in_ns(self) -> bool:
        """Whether the trace clock counts nanoseconds."""
        ...

    def set_clock(self, name: str) -> None:
        """Use another trace clock. Raises `TracefsError` (EINVAL)."""
        ...

    def synth_event(self, name: str) -> SynthEvent | None:
        """Return a synthetic event."""
        ...

    def synth_address(self, event: SynthEvent) -> int:
        """Return the address of a synthetic event's `struct synth_event`."""
        ...


@dataclass(slots=True, eq=False)
class Trigger:
    """One command of an event."""

    command: TriggerCommand
    address: int
    """Guest address of its `struct event_trigger`."""
    condition: str = ""
    filter: int = 0
    """Address of its condition's tests, or 0."""
    target: Triggered | None = None
    hist: Hist | None = None
    probe: int = 0
    """Address of the `struct trace_probe` of an event probe in the guest, or 0."""


class EventTriggers:
    """The triggers of one event: the newest first, and after them histograms, the oldest first."""

    def __init__(
        self,
        files: EventFiles,
        file: EventFile,
        fields: Sequence[Field],
        services: TriggerServices,
    ) -> None:
        self._files = files
        self._file = file
        self._fields = fields
        self._services = services
        self._triggers: list[Trigger] = []
        order = files.memory.byteorder
        self._layout = abi.event_trigger(order)
        self._store = HistStore(files)

    def save(self) -> Restore:
        """Return a function that restores the triggers; the machine saves their memory."""
        return attributes(self, "_triggers")

    @property
    def triggers(self) -> Sequence[Trigger]:
        """The triggers."""
        return self._triggers

    @property
    def hists(self) -> Sequence[Hist]:
        """The histograms."""
        return [each.hist for each in self._triggers if each.hist is not None]

    # Files

    def lines(self) -> Iterator[str]:
        """Yield one line for each trigger."""
        for each in self._triggers:
            if each.command is not TriggerCommand.EPROBE:
                yield self._line(each)

    def hist_texts(self) -> Iterator[str]:
        """Yield the content of all histograms."""
        found = [each for each in self._triggers if each.hist is not None]
        for number, each in enumerate(found):
            if number:
                yield "\n\n"
            assert each.hist is not None
            content = self._store.content(each.hist)
            yield from hist_text(each.hist, self._line(each), content, self._services.hist_names())

    def execute(self, text: str) -> None:
        """Execute what was written to `trigger`.

        Raises `TracefsError`: EINVAL for an unknown command, a wrong count or condition, EEXIST
        if the event has the trigger, ENOENT if a histogram to change does not exist, EBUSY if
        another histogram reads its variables.
        """
        if len(text) >= MOST_CHARACTERS:
            raise TracefsError(errno.EINVAL)
        text = text.strip()
        if not self._files.has(self._file.number):
            raise TracefsError(errno.ENOSPC, "Too many events have triggers")
        hist = _HIST.fullmatch(text)
        if hist is not None:
            self._execute_hist(hist["rest"] or "", bool(hist["remove"]))
            return
        match = _LINE.fullmatch(text)
        command = None if match is None else _COMMANDS.get(match["name"])
        if match is None or command is None:
            raise TracefsError(errno.EINVAL)
        target, number = None, match["rest"] or ""
        if command in _TARGET_COMMANDS:
            group, _, rest = number.partition(":")
            name, _, number = rest.partition(":")
            target = self._event(group, name)
        same = next((each for each in self._triggers if _same(each, command, target)), None)
        if match["remove"]:
            if same is not None:
                self._remove(same)
            return
        if same is not None:
            raise TracefsError(errno.EEXIST)
        count = kstrtoul(number, 64, base=0) if number else None
        if command is TriggerCommand.SNAPSHOT:
            self._services.allocate_snapshot()
        row = np.zeros((), self._layout)
        row["counted"], row["count"] = count is not None, (count or 0) & (1 << 63) - 1
        if target is not None:
            row["data"] = self._files.address(target.file.number)
        condition = (match["condition"] or "").strip()
        self._add(Trigger(command, 0, condition, target=target), row, self._tests(condition))

    def truncate(self) -> None:
        """Remove all histograms, if none of their variables is read, and what pauses others."""
        hists = self.hists
        if not any(_is_read(hist, self._everywhere()) for hist in hists):
            for each in [each for each in self._triggers if each.hist is not None]:
                self._remove(each)
        for each in [each for each in self._triggers if each.command in _HIST_SWITCHES]:
            self._remove(each)

    def clear(self) -> None:
        """Remove all triggers."""
        for each in list(self._triggers):
            if each.command is not TriggerCommand.EPROBE:
                self._remove(each)

    def attach_probe(self, probe: int, condition: str) -> None:
        """Have the event probe at guest address `probe` write an event for each hit."""
        row = np.zeros((), self._layout)
        row["data"] = probe
        trigger = Trigger(TriggerCommand.EPROBE, 0, condition, probe=probe)
        self._add(trigger, row, self._tests(condition))

    def detach_probe(self, probe: int) -> None:
        """Detach the event probe at guest address `probe`."""
        for each in [each for each in self._triggers if each.probe == probe]:
            self._remove(each)

    # Parts

    def _event(self, group: str, name: str) -> Triggered:
        for each in self._services.events:
            if (each.group, each.name) == (group, name) and self._files.has(each.file.number):
                return each
        raise TracefsError(errno.EINVAL)

    def _line(self, trigger: Trigger) -> str:
        row = self._row(trigger)
        condition = f" if {trigger.condition}" if trigger.condition else ""
        if trigger.hist is not None:
            return f"{trigger.hist.text}{condition} [{'paused' if row['paused'] else 'active'}]"
        name = trigger.command.name.lower()
        if trigger.target is not None:
            name += f":{trigger.target.group}:{trigger.target.name}"
        count = f"count={int(row['count'])}" if row["counted"] else "unlimited"
        return f"{name}:{count}{condition}"

    def _row(self, trigger: Trigger) -> np.void:
        data = self._files.memory.read(trigger.address, self._layout.itemsize)
        row: np.void = np.frombuffer(bytearray(data), self._layout)[0]
        return row

    def _tests(self, condition: str) -> list[Test]:
        """Return the tests of a condition. Raises `TracefsError` (EINVAL)."""
        if not condition:
            return []
        try:
            return parse_filter(condition, self._fields)
        except FilterError:
            raise TracefsError(errno.EINVAL) from None

    def _add(self, trigger: Trigger, row: np.ndarray, tests: Sequence[Test]) -> None:
        files = self._files
        files.settle()
        trigger.filter = stored(files, tests) if tests else 0
        row["command"], row["filter"] = trigger.command, trigger.filter
        at = len(self._triggers) if trigger.hist is not None else 0
        row["next"] = self._triggers[at].address if at < len(self._triggers) else 0
        trigger.address = files.blocks.place(row.tobytes())
        self._link(at, trigger.address)
        self._triggers.insert(at, trigger)
        if trigger.target is not None and trigger.command in _EVENT_COMMANDS:
            trigger.target.file.use(True)
        self._file.use(True)

    def _link(self, at: int, address: int) -> None:
        """Link the trigger before number `at`, or the head of the list, to `address`."""
        if at:
            # `next` is the first field.
            self._files.memory.write_int(self._triggers[at - 1].address, address, 8)
        else:
            self._files.set(self._file.number, "triggers", address)

    def _remove(self, trigger: Trigger) -> None:
        files, hist = self._files, trigger.hist
        files.settle()
        self._link(self._triggers.index(trigger), int(self._row(trigger)["next"]))
        self._triggers.remove(trigger)
        for block in (trigger.address, trigger.filter):
            if block:
                files.blocks.free(block)
        if hist is not None and hist not in self._everywhere():
            self._store.free(hist)
            self._remove_others(hist)
        if trigger.target is not None and trigger.command in _EVENT_COMMANDS:
            trigger.target.file.use(False)
        self._file.use(False)

    # Histograms

    def _everywhere(self) -> list[Hist]:
        """Return the histograms of all events; named ones occur once for each event."""
        return [hist for event in self._services.triggered for hist in event.triggers.hists]

    def _execute_hist(self, text: str, remove: bool) -> None:
        """Execute `hist:` or `!hist:`, and explain in error_log what is wrong."""
        event = next(each for each in self._services.triggered if each.triggers is self)
        command = f"hist:{text}"

        def explain(reason: str, word: str) -> None:
            place = max(command.find(word), 0)
            location = f"hist:{event.group}:{event.name}"
            self._files.errors.add(location, command, reason, place)

        self.define(text, remove, explain)

    def define(self, text: str, remove: bool, explain: Callable[[str, str], None]) -> None:
        """Add, change or remove the histogram with this definition. Raises `TracefsError`."""
        text = text.strip()
        found = _CONDITION.search(text)
        condition = "" if found is None else found["condition"].strip()
        event = next(each for each in self._services.triggered if each.triggers is self)
        scope = _HistScope(self._services, explain)
        parser = HistParser(event.group, event.name, self._fields, scope)
        if not text or text.startswith("if ") or text.endswith((" if", "\tif")):
            raise TracefsError(errno.EINVAL)
        hist = parser.parse(text if found is None else text[: found.start()].strip(), remove)
        tests = self._tests(condition)
        same = self._same_hist(hist, condition)
        if remove:
            if same is None:
                return
            assert same.hist is not None
            if _is_read(same.hist, self._everywhere()):
                raise TracefsError(errno.EBUSY)
            self._remove(same)
        elif same is not None and hist.change:
            self._change(same, hist.change)
        else:
            try:
                parser.bind()
                self._add_hist(hist, condition, tests, explain)
            except TracefsError:
                self._remove_others(hist)
                raise

    def _named(self, hist: Hist) -> Hist | None:
        """Return the histogram that counts for all histograms of this name."""
        named = (each for each in self._everywhere() if each.name == hist.name)
        return next(named, None) if hist.name else None

    def _same_hist(self, hist: Hist, condition: str) -> Trigger | None:
        """Return the trigger of this event with the same definition (`hist_trigger_match`)."""
        named = self._named(hist)
        for each in self._triggers:
            if each.hist is None or each.condition != condition:
                continue
            shared = each.hist is named if named is not None else not each.hist.name
            if shared and each.hist.signature == hist.signature:
                return each
        return None

    def _change(self, trigger: Trigger, change: str) -> None:
        """Pause or continue a histogram, or empty it."""
        self._files.settle()
        assert trigger.hist is not None
        if change == "clear":
            self._store.clear(trigger.hist)
            return
        row = self._row(trigger)
        row["paused"] = change == "pause"
        self._files.memory.write(trigger.address, row.tobytes())

    def _remove_others(self, hist: Hist) -> None:
        """Remove the histograms that were made for the actions of `hist`."""
        for *place, definition in hist.others:
            for event in self._services.triggered:
                if [event.group, event.name] == place:
                    event.triggers.define(definition, True, lambda *_: None)

    def _add_hist(
        self,
        hist: Hist,
        condition: str,
        tests: Sequence[Test],
        explain: Callable[[str, str], None],
    ) -> None:
        """Add a histogram; a named one shares its counts with the others of that name."""

        def refuse(reason: str, word: str, number: int) -> TracefsError:
            explain(reason, word)
            return TracefsError(number, f"{os.strerror(number)}: {reason}")

        named = self._named(hist)
        if named is not None and named.signature != hist.signature:
            raise refuse(NAMED_MISMATCH, hist.name, errno.EINVAL)
        if self._same_hist(hist, condition) is not None:
            raise refuse(TRIGGER_EEXIST, "", errno.EEXIST)
        if hist.change in ("cont", "clear"):
            raise refuse(TRIGGER_ENOENT_CLEAR, "", errno.ENOENT)
        if any(each.action is HistAction.SNAPSHOT for each in hist.actions):
            actions = (action for each in self._everywhere() for action in each.actions)
            if any(each.action is HistAction.SNAPSHOT for each in actions):
                raise TracefsError(errno.EBUSY)
            self._services.allocate_snapshot()
        if hist.timestamps:
            try:
                self._services.set_clock(hist.clock)
            except TracefsError as error:
                raise refuse(SET_CLOCK_FAIL, hist.clock, error.errno) from None
        if named is None:
            in_ns = self._services.clock_in_ns
            self._store.place(hist, in_ns, self._services.synth_address)
        row = np.zeros((), self._layout)
        counting = named or hist
        row["data"], row["paused"] = counting.address, hist.change == "pause"
        self._add(Trigger(TriggerCommand.HIST, 0, condition, hist=counting), row, tests)


def _is_read(hist: Hist, others: Sequence[Hist]) -> bool:
    """Return whether another histogram reads a variable of `hist` (`check_var_refs`)."""
    return any(ref.hist is hist for each in others if each is not hist for ref in each.refs)


class _HistScope:
    """The events, histograms and variables that definitions can refer to."""

    def __init__(self, services: TriggerServices, explain: Callable[[str, str], None]) -> None:
        self._services = services
        self.explain = explain

    def _event(self, group: str, name: str) -> Triggered | None:
        wanted = group, name
        found = (each for each in self._services.triggered if (each.group, each.name) == wanted)
        return next(found, None)

    def has_event(self, group: str, name: str) -> bool:
        """Return whether the event exists."""
        return self._event(group, name) is not None

    def hists(self, group: str, name: str) -> Sequence[Hist]:
        """Return the histograms of an event."""
        event = self._event(group, name)
        return () if event is None else event.triggers.hists

    def with_vars(self) -> Iterator[Hist]:
        """Yield the histograms of all events that have variables."""
        for event in self._services.triggered:
            yield from (hist for hist in event.triggers.hists if hist.vars or hist.refs)

    def condition(self, hist: Hist) -> str:
        """Return the filter of a histogram, or nothing."""
        event = self._event(hist.group, hist.event)
        triggers = () if event is None else event.triggers.triggers
        return next((each.condition for each in triggers if each.hist is hist), "")

    def synth_event(self, name: str) -> SynthEvent | None:
        """Return a synthetic event."""
        return self._services.synth_event(name)

    def define(self, group: str, name: str, definition: str) -> None:
        """Add a histogram to another event. Raises `TracefsError`."""
        event = self._event(group, name)
        assert event is not None
        event.triggers.define(definition, False, self.explain)


def _same(trigger: Trigger, command: TriggerCommand, target: Triggered | None) -> bool:
    """Return whether the two triggers exclude each other on one event (`register_trigger`)."""
    kind = next((each for each in _TYPES if command in each), {command})
    if trigger.command not in kind:
        return False
    if trigger.target is None or target is None:
        return True
    return (trigger.target.group, trigger.target.name) == (target.group, target.name)


class TriggerFile(File):
    """The triggers of an event."""

    mode = 0o644

    def __init__(self, triggers: EventTriggers) -> None:
        self._triggers = triggers

    def read(self) -> str:
        """Return one trigger a line, or the names of all commands."""
        return "".join(f"{line}\n" for line in self._triggers.lines()) or AVAILABLE

    def write(self, text: str) -> None:
        """Add, remove or change a trigger."""
        self._triggers.execute(text)

    def truncate(self) -> None:
        """Remove the histograms."""
        self._triggers.truncate()


class HistFile(File):
    """The counts of an event's histograms."""

    def __init__(self, triggers: EventTriggers) -> None:
        self._triggers = triggers

    def read(self) -> str:
        """Return the histograms; empty if there are none."""
        return "".join(self._triggers.hist_texts())


def files(triggers: EventTriggers) -> Mapping[str, File]:
    """Return the files of an event's triggers by name."""
    return {"hist": HistFile(triggers), "trigger": TriggerFile(triggers)}
