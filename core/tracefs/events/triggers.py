"""The files `trigger` and `hist` of an event: commands that are executed when it happens.

    traceon|traceoff|snapshot|stacktrace[:COUNT] [if FILTER]
    enable_event|disable_event:SYSTEM:EVENT[:COUNT] [if FILTER]
    enable_hist|disable_hist:SYSTEM:EVENT[:COUNT] [if FILTER]
    hist:keys=… [if FILTER]

A `!` in front removes a command. The guest executes them and counts down; a histogram is a map
in guest memory. Source: kernel/trace/trace_events_trigger.c and trace_events_hist.c, 6.1.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ... import abi
from ...abi import FilterKind, HistKind, TriggerCommand
from ...errors import TracefsError
from ...events.fields import Field
from ...events.filter import MOST_CHARACTERS, FilterError, parse_filter
from ...events.hist import Content, Hist, HistField, Names, Row, hist_text, parse_hist
from ...memento import Restore, attributes
from ..number import kstrtoul
from ..tree import File
from .eventfile import EventFile, EventFiles
from .filters import stored

AVAILABLE = (
    "# Available triggers:\n"
    "# traceon traceoff snapshot stacktrace enable_event disable_event "
    "enable_hist disable_hist hist\n"
)
"""What the file `trigger` shows without triggers."""

_OTHER = (TriggerCommand.HIST, TriggerCommand.EPROBE)
_COMMANDS = {each.name.lower(): each for each in TriggerCommand if each not in _OTHER}
_EVENT_COMMANDS = (TriggerCommand.ENABLE_EVENT, TriggerCommand.DISABLE_EVENT)
_TARGET_COMMANDS = (*_EVENT_COMMANDS, TriggerCommand.ENABLE_HIST, TriggerCommand.DISABLE_HIST)
_TYPES = (
    {TriggerCommand.TRACEON, TriggerCommand.TRACEOFF},
    {*_EVENT_COMMANDS},
    {TriggerCommand.ENABLE_HIST, TriggerCommand.DISABLE_HIST},
)
"""Commands of one type, of which an event has one (`trigger_type`)."""

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

    def allocate_snapshot(self) -> None:
        """Make a spare buffer."""
        ...

    def hist_names(self) -> Names:
        """Return the names that histograms show."""
        ...


@dataclass(slots=True, eq=False)
class Trigger:
    """One command of an event."""

    command: TriggerCommand
    address: int
    """Of its `struct event_trigger` in the guest."""
    condition: str = ""
    filter: int = 0
    """Address of its condition's tests, or 0."""
    target: Triggered | None = None
    hist: Hist | None = None
    data: int = 0
    """Address of its `struct hist_trigger`."""
    map: int = 0


class EventTriggers:
    """The triggers of one event, the newest first."""

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
        self._hist = abi.hist_trigger(order)

    def save(self) -> Restore:
        """Return a function that restores the triggers; the machine saves their memory."""
        return attributes(self, "_triggers")

    @property
    def triggers(self) -> Sequence[Trigger]:
        """The triggers."""
        return self._triggers

    # Files

    def lines(self) -> Iterator[str]:
        """Yield one line for each trigger."""
        for each in self._triggers:
            if each.command is not TriggerCommand.EPROBE:
                yield self._line(each)

    def hists(self) -> Iterator[str]:
        """Yield the content of all histograms."""
        found = [each for each in self._triggers if each.hist is not None]
        for number, each in enumerate(found):
            if number:
                yield "\n\n"
            assert each.hist is not None
            names = self._services.hist_names()
            yield from hist_text(each.hist, self._line(each), self._content(each), names)

    def execute(self, text: str) -> None:
        """Execute what was written to `trigger`.

        Raises `TracefsError`: EINVAL for an unknown command, a wrong count or condition, EEXIST
        if the event has the trigger, ENOENT if a histogram to change does not exist.
        """
        if len(text) >= MOST_CHARACTERS:
            raise TracefsError(errno.EINVAL)
        match = _LINE.fullmatch(text.strip())
        if match is None:
            raise TracefsError(errno.EINVAL)
        if not self._files.has(self._file.number):
            raise TracefsError(errno.ENOSPC, "Too many events have triggers")
        if match["name"] == "hist":
            self._execute_hist(match)
            return
        command = _COMMANDS.get(match["name"])
        if command is None:
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
        self._add(Trigger(command, 0, target=target), row, match["condition"])

    def clear_hists(self) -> None:
        """Remove all histograms, as a file that is emptied first."""
        for each in [each for each in self._triggers if each.hist is not None]:
            self._remove(each)

    def clear(self) -> None:
        """Remove all triggers."""
        for each in list(self._triggers):
            if each.command is not TriggerCommand.EPROBE:
                self._remove(each)

    def attach_probe(self, probe: int, condition: str) -> None:
        """Have the event probe at guest address `probe` write an event for each of these."""
        row = np.zeros((), self._layout)
        row["data"] = probe
        trigger = Trigger(TriggerCommand.EPROBE, 0, data=probe)
        self._add(trigger, row, condition or None)

    def detach_probe(self, probe: int) -> None:
        """End that."""
        for each in [each for each in self._triggers if each.data == probe]:
            each.data = 0  # it is not this trigger's to free
            self._remove(each)

    # Parts

    def _event(self, group: str, name: str) -> Triggered:
        for each in self._services.events:
            if (each.group, each.name) == (group, name) and self._files.has(each.file.number):
                return each
        raise TracefsError(errno.EINVAL)

    def _line(self, trigger: Trigger) -> str:
        row = self._row(trigger)
        if trigger.hist is not None:
            condition = f" if {trigger.condition}" if trigger.condition else ""
            state = "paused" if self._hist_row(trigger)["paused"] else "active"
            return f"{trigger.hist.text}{condition} [{state}]"
        name = trigger.command.name.lower()
        if trigger.target is not None:
            name += f":{trigger.target.group}:{trigger.target.name}"
        count = f"count={int(row['count'])}" if row["counted"] else "unlimited"
        return f"{name}:{count}{f' if {trigger.condition}' if trigger.condition else ''}"

    def _row(self, trigger: Trigger) -> np.void:
        data = self._files.memory.read(trigger.address, self._layout.itemsize)
        row: np.void = np.frombuffer(data, self._layout)[0]
        return row

    def _hist_row(self, trigger: Trigger) -> np.void:
        data = self._files.memory.read(trigger.data, self._hist.itemsize)
        row: np.void = np.frombuffer(bytearray(data), self._hist)[0]
        return row

    def _add(self, trigger: Trigger, row: np.ndarray, condition: str | None) -> None:
        files = self._files
        if condition is not None:
            trigger.condition = condition.strip()
            try:
                tests = parse_filter(trigger.condition, self._fields)
            except FilterError:
                raise TracefsError(errno.EINVAL) from None
            trigger.filter = stored(files, tests)
        files.settle()
        row["command"], row["filter"] = trigger.command, trigger.filter
        row["next"] = self._triggers[0].address if self._triggers else 0
        trigger.address = files.blocks.place(row.tobytes())
        self._triggers.insert(0, trigger)
        files.set(self._file.number, "triggers", trigger.address)
        if trigger.target is not None and trigger.command in _EVENT_COMMANDS:
            trigger.target.file.use(True)
        self._file.use(True)

    def _remove(self, trigger: Trigger) -> None:
        files, at = self._files, self._triggers.index(trigger)
        files.settle()
        after = int(self._row(trigger)["next"])
        if at:
            before = self._triggers[at - 1].address
            files.memory.write_int(before, after, 8)  # `next` is the first field
        else:
            files.set(self._file.number, "triggers", after)
        self._triggers.remove(trigger)
        for block in (trigger.address, trigger.filter):
            if block:
                files.blocks.free(block)
        if trigger.data and not any(each.data == trigger.data for each in self._everywhere()):
            files.blocks.free(trigger.data)
            files.blocks.free(trigger.map)
        if trigger.target is not None and trigger.command in _EVENT_COMMANDS:
            trigger.target.file.use(False)
        self._file.use(False)

    # Histograms

    def _execute_hist(self, match: re.Match[str]) -> None:
        try:
            hist = parse_hist(match["rest"] or "", self._fields)
        except ValueError as error:
            raise TracefsError(errno.EINVAL, f"Invalid argument: {error}") from None
        condition = (match["condition"] or "").strip()
        same = next(
            (each for each in self._triggers if (each.hist, each.condition) == (hist, condition)),
            None,
        )
        if match["remove"]:
            if same is not None:
                self._remove(same)
        elif same is not None:
            self._act(same, hist.action)
        elif hist.action in ("cont", "clear"):
            raise TracefsError(errno.ENOENT)
        else:
            self._add_hist(hist, match["condition"])

    def _act(self, trigger: Trigger, action: str) -> None:
        """Pause or continue a histogram, or empty it. Raises `TracefsError` (EEXIST)."""
        if not action:
            raise TracefsError(errno.EEXIST)
        self._files.settle()
        row = self._hist_row(trigger)
        if action == "clear":
            row["entries"] = row["hits"] = row["drops"] = 0
            assert trigger.hist is not None
            self._files.memory.write(trigger.map, bytes(_map_size(trigger.hist)))
        else:
            row["paused"] = action == "pause"
        self._files.memory.write(trigger.data, row.tobytes())

    def _everywhere(self) -> Iterator[Trigger]:
        """Yield the triggers of all events."""
        for event in self._services.events:
            yield from event.triggers.triggers

    def _add_hist(self, hist: Hist, condition: str | None) -> None:
        """Add a histogram; one with a name counts together with those of that name."""
        files = self._files
        command = np.zeros((), self._layout)
        named = (each for each in self._everywhere() if each.hist and each.hist.name == hist.name)
        shared = next(named, None) if hist.name else None
        if shared is not None:
            if shared.hist != hist:
                raise TracefsError(errno.EINVAL, "Invalid argument: another histogram has the name")
            command["data"] = shared.data
            trigger = Trigger(TriggerCommand.HIST, 0, hist=hist, data=shared.data, map=shared.map)
            self._add(trigger, command, condition)
            return
        row = np.zeros((), self._hist)
        row["nr_keys"], row["nr_vals"] = len(hist.keys), 1 + len(hist.vals)
        row["key_size"], row["max"] = hist.key_size, hist.size
        row["bits"] = hist.size.bit_length()
        row["paused"] = hist.action == "pause"
        at = 0
        for number, each in enumerate(hist.keys):
            row["keys"][number] = _stored_field(each, at)
            at += each.key_size
        row["vals"][0] = _stored_field(HistField("", HistKind.HITCOUNT), 0)
        for number, each in enumerate(hist.vals, 1):
            row["vals"][number] = _stored_field(each, 0)
        counted = files.blocks.place(bytes(_map_size(hist)))
        row["map"] = counted
        data = files.blocks.place(row.tobytes())
        trigger = Trigger(TriggerCommand.HIST, 0, hist=hist, data=data, map=counted)
        command["data"] = data
        try:
            self._add(trigger, command, condition)
        except TracefsError:
            files.blocks.free(data)
            files.blocks.free(counted)
            raise

    def _content(self, trigger: Trigger) -> Content:
        """Return what the guest has counted."""
        hist = trigger.hist
        assert hist is not None
        memory, row = self._files.memory, self._hist_row(trigger)
        order = "<" if memory.byteorder == "little" else ">"
        data = memory.read(trigger.map, _map_size(hist))
        words = np.frombuffer(data, f"{order}u8").reshape(-1, _width(hist))
        rows = []
        for slot in words[words[:, 0] != 0]:
            key = slot[1 : 1 + hist.key_size // 8]
            keys: list[int | str | tuple[int, ...]] = []
            at = 0
            for each in hist.keys:
                part = key[at : at + each.key_size // 8]
                at += each.key_size // 8
                if each.kind == HistKind.STACK:
                    keys.append(tuple(part.tolist()))
                elif each.is_string:
                    raw = part.tobytes().partition(b"\0")[0]
                    keys.append(raw.decode("utf-8", "backslashreplace"))
                else:
                    keys.append(int(part[0]))
            rows.append(Row(tuple(keys), tuple(slot[1 + len(key) :].tolist())))
        return Content(rows, int(row["hits"]), int(row["drops"]), bool(row["paused"]))


def _width(hist: Hist) -> int:
    """Return the words of a slot of the map."""
    return 2 + hist.key_size // 8 + len(hist.vals)


def _map_size(hist: Hist) -> int:
    """Return the bytes of the map: twice as many slots as entries."""
    return 8 * _width(hist) * 2 * hist.size


def _stored_field(each: HistField, at: int) -> tuple[int, ...]:
    size = each.size if isinstance(each.kind, FilterKind) else 8
    place = (int(each.kind), each.offset, size, int(each.signed))
    return (*place, int(each.modifier == "log2"), at, each.key_size, 0, each.buckets)


def _same(trigger: Trigger, command: TriggerCommand, target: Triggered | None) -> bool:
    """Return whether an event may not have both triggers (`register_trigger`)."""
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
        self._triggers.clear_hists()


class HistFile(File):
    """What the histograms of an event have counted."""

    def __init__(self, triggers: EventTriggers) -> None:
        self._triggers = triggers

    def read(self) -> str:
        """Return the histograms, or nothing without any."""
        return "".join(self._triggers.hists())


def files(triggers: EventTriggers) -> Mapping[str, File]:
    """Return the files of an event's triggers by name."""
    return {"hist": HistFile(triggers), "trigger": TriggerFile(triggers)}
