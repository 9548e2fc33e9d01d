"""Event probes: events derived from other events.

An event probe is a trigger of the event that it is attached to. Source:
kernel/trace/trace_eprobe.c, 6.1.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence

from ..errors import CommandError, TracefsError
from ..events.fields import Field
from ..events.filter import FilterError, parse_filter
from ..events.probe import ProbeDefinition, parse_eprobe, refused
from ..ftrace.kprobes import Kprobes
from .event import COMMON
from .events.triggers import Triggered
from .probes import Probe, ProbeEvent, Probes


class EventProbes(Probes):
    """All event probes of a machine."""

    subsystem = "event_probe"

    def __init__(self, kprobes: Kprobes, *arguments: object) -> None:
        """`kprobes` know the guest's memory; the other arguments are those of `Probes`."""
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._kprobes = kprobes

    def parse(self, words: Sequence[str]) -> ProbeDefinition | None:
        """Parse a line; None if it is of another kind. Raises `CommandError`."""
        found = parse_eprobe(words, self._fields, self.pointer_size)
        if found is not None and found.condition:
            attached = self._attached(*found.place.split("."))
            assert attached is not None
            try:
                parse_filter(found.condition, attached.fields)
            except FilterError:
                raise TracefsError(errno.EINVAL) from None
        return found

    def _attached(self, group: str, name: str) -> Triggered | None:
        for each in self.services.events:
            if (each.group, each.name) == (group, name) and self.files.has(each.file.number):
                return each
        return None

    def _fields(self, group: str, name: str) -> Mapping[str, Field] | None:
        found = self._attached(group, name)
        if found is None:
            return None
        return {each.plain_name: each for each in (*COMMON, *found.fields)}

    def register(self, words: Sequence[str], probe: Probe) -> None:
        """Write the probe to the guest. Raises `CommandError`."""
        try:
            probe.store(0)
        except CommandError:
            raise
        except TracefsError:
            raise refused(words, 1, 0, "Failed to register probe event", errno.ENOENT) from None

    def unregister(self, probe: Probe) -> None:
        """Take it out of the guest."""
        self.files.settle()
        probe.free()

    def switch(self, event: ProbeEvent, on: bool) -> None:
        """Attach the probe to its event, or detach it. Raises `TracefsError` (ENOENT)."""
        for probe in event.members:
            attached = self._attached(*probe.definition.place.split("."))
            if attached is None:
                if on:
                    raise TracefsError(errno.ENOENT)
                continue
            if on:
                self._kprobes.follow_memory()
                attached.triggers.attach_probe(probe.guest, probe.definition.condition)
            else:
                attached.triggers.detach_probe(probe.guest)
