"""instances/: a directory made here is a trace array of its own, with these files.

Instances take their memory from a bounded pool. An instance with open files cannot be removed.
Source: instance_mkdir(), instance_rmdir() and init_tracer_tracefs() in kernel/trace/trace.c, 6.1;
an instance has no latency tracers here.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from ..errors import TracefsError
from ..facts import Facts
from ..ftrace.opslist import INSTANCE_PARTS, area_part
from ..memento import Restore, attributes, in_order
from ..trace.buffer.pool import MemoryPool
from .array import TraceArray
from .buffers import files as buffer_files
from .errorlog import files as error_files
from .events.files import array_files as event_files
from .events.pids import files as event_pid_files
from .filters import FilterFile, function_files
from .functions import FunctionTable
from .instance import Instance
from .options import files as option_files
from .pids import files as pid_files
from .snapshot import files as snapshot_files
from .tracers import files as tracer_files
from .traces import files as trace_files
from .tree import Directory, Node, Owner

MOST_BYTES = 64 << 20
"""Maximum memory of all instances, in bytes."""


class InstanceDirectory(Directory, Owner):
    """The files of one instance."""

    def __init__(self, instance: Instance, functions: FunctionTable) -> None:
        self.instance = instance
        self.filters = function_files(instance, instance.ftrace, functions, instance.commands)
        bits = 8 * instance.machine.port.facts.pointer_size
        super().__init__(
            {
                **tracer_files(instance),
                **self.filters,
                **pid_files(instance.pids, bits),
                **event_pid_files(instance.event_pids, bits),
                **trace_files(instance),
                **snapshot_files(instance.ring, instance.snapshot),
                **buffer_files(instance),
                **option_files(instance),
                **error_files(instance.error_log),
                **event_files(instance),
            }
        )
        self.own(self)

    def save(self) -> Restore:
        """Return a function that restores the instance and the words that wait for a module."""
        waiting = (attributes(file, "waiting") for file in self.filters.values())
        return in_order(self.instance.save(), *waiting)


class Instances(Directory):
    """instances/: mkdir makes one, rmdir removes it."""

    def __init__(self, top: TraceArray, functions: FunctionTable) -> None:
        super().__init__({})
        self._top = top
        self._functions = functions
        self._pool = MemoryPool(top.machine.memory, area(top.machine.port.facts))
        self._made: dict[str, InstanceDirectory] = {}

    @property
    def entries(self) -> Mapping[str, Node]:
        """The instances by name, sorted."""
        return MappingProxyType({name: self._made[name] for name in sorted(self._made)})

    def __iter__(self) -> Iterator[InstanceDirectory]:
        return iter(self._made.values())

    @property
    def filters(self) -> Iterator[FilterFile]:
        """The files of all instances that may have words that wait for a module."""
        return (file for each in self for file in each.filters.values())

    def mkdir(self, name: str) -> None:
        """Make an instance. Raises `TracefsError` (ENOMEM)."""
        instance = Instance(self._top, self._pool, name)
        self._keep({**self._made, name: InstanceDirectory(instance, self._functions)})

    def rmdir(self, name: str) -> None:
        """Remove an instance. Raises `TracefsError` (EBUSY while a file of it is open)."""
        directory = self._made.get(name)
        if directory is None:
            raise TracefsError(errno.ENOENT)
        if directory.opened:
            raise TracefsError(errno.EBUSY)
        directory.instance.stop()
        self._keep({each: made for each, made in self._made.items() if each != name})
        directory.instance.free()

    def _keep(self, made: dict[str, InstanceDirectory]) -> None:
        """Make `made` the instances, and link them in the guest."""
        self._made = made
        self._top.others = others = tuple(each.instance for each in made.values())
        following = 0
        for each in (*reversed(others), self._top):
            if each.guest is not None:
                each.guest.set("next", following)
                following = each.guest.address
        self._top.follow_others()

    def save(self) -> Restore:
        """Return a function that restores which instances exist and their state."""
        return in_order(
            attributes(self, "_made"), self._pool.save(), *(each.save() for each in self)
        )


def area(facts: Facts) -> range:
    """Return the addresses that instances can take memory from."""
    start = area_part(facts, INSTANCE_PARTS.start).start
    stop = area_part(facts, INSTANCE_PARTS.stop - 1).stop
    return range(start, min(stop, start + MOST_BYTES))
