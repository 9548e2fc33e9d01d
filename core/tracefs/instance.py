"""An instance: a trace array with buffers, function tracer, filter and settings of its own.

Its guest memory comes from a pool: a `struct trace_array` with the descriptors of its buffers,
the buffers, and the list of its pids. Source: trace_array_create(), __remove_instance() and
trace_ok_for_array() in kernel/trace/trace.c, 6.1.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack

from .. import abi
from ..errors import MemoryFault, TracefsError
from ..ftrace.ops import FtraceOps
from ..ftrace.pids import listed
from ..machine.memory import Memory
from ..machine.symbols import TRACER
from ..memento import Restore, attributes, in_order
from ..trace.buffer.contents import Contents
from ..trace.buffer.pool import MemoryPool
from ..trace.buffer.ringbuffer import RingBuffer
from ..trace.buffer.ringmemory import Descriptor
from .array import TraceArray
from .basearray import FORKS, FUNCTION, NOP, TOP_OPTIONS, BaseArray
from .event import TraceEvent
from .latency import OVERWRITE

FUNCTION_TRACE_CALL = "array_function_trace_call"
"""The guest function that the function tracer of an instance registers."""


class _Descriptors:
    """Views of the `struct ring_buffer_cpu` of each CPU in a `struct trace_array`.

    Each is made when it is asked for: its memory may have been mapped again since the last.
    """

    def __init__(self, memory: Memory, address: int, cpus: int) -> None:
        self._memory = memory
        self._address = address
        self._cpus = cpus

    def __len__(self) -> int:
        return self._cpus

    def __getitem__(self, cpu: int, /) -> Descriptor:
        layout = abi.trace_array(self._memory.byteorder)
        array = self._memory.view(self._address, layout.itemsize).view(layout)
        view: Descriptor = array["buffers"][0, cpu : cpu + 1].reshape(())
        return view


class InstancePids:
    """The tasks whose functions an instance traces; each tuple is ascending."""

    def __init__(self, ring: RingBuffer, memory: Memory, pool: MemoryPool, array: int) -> None:
        """`array` is the address of the guest's `struct trace_array`, which points to the list."""
        self.pids: tuple[int, ...] = ()
        self.notrace: tuple[int, ...] = ()
        self._ring = ring
        self._memory = memory
        self._pool = pool
        self._array = array
        self._list = 0

    def set(self, pids: Collection[int], notrace: Collection[int]) -> None:
        """Trace only `pids` (all tasks if empty) except `notrace`, from now on.

        Raises `TracefsError` (ENOMEM).
        """
        chosen, left_out = tuple(sorted({*pids})), tuple(sorted({*notrace}))
        address = 0
        if chosen or left_out:
            order = "<" if self._memory.byteorder == "little" else ">"
            words = listed(chosen, left_out).astype(f"{order}u8").tobytes()
            try:
                address = self._pool.take(len(words), "instance_pids")
            except MemoryFault as error:
                raise TracefsError(errno.ENOMEM) from error
            self._memory.write(address, words)
        self._ring.settle()  # nobody reads the old list any more
        self._memory.write_int(self._array, address, 8)
        self.free()
        self.pids, self.notrace, self._list = chosen, left_out, address

    def free(self) -> None:
        """Give the memory of the list back."""
        if self._list:
            self._pool.give(self._list)
        self._list = 0

    def save(self) -> Restore:
        """Return a function that restores the pids."""
        return attributes(self, "pids", "notrace", "_list")


class Instance(BaseArray):
    """A trace array below instances/."""

    def __init__(self, top: TraceArray, pool: MemoryPool, name: str) -> None:
        """Make it with the options of `top`. Raises `TracefsError` (ENOMEM), with nothing made."""
        memory, cpus = top.machine.memory, top.cpus
        self.name = name
        self._top = top
        self._pool = pool
        try:
            address = pool.take(abi.trace_array(memory.byteorder).itemsize, "instance")
        except MemoryFault as error:
            raise TracefsError(errno.ENOMEM) from error
        try:
            ring = RingBuffer(
                memory,
                _Descriptors(memory, address, cpus),
                top.ring.layout,
                pool,
                now=self.now,
                settle=top.ring.settle,
                name="instance_buffer",
            )
        except TracefsError:
            pool.give(address)
            raise
        try:
            ring.expand()
        except TracefsError:
            ring.release()
            pool.give(address)
            raise
        function = top.kallsyms.address(FUNCTION_TRACE_CALL, TRACER)
        ops = None if function is None else FtraceOps(f"{name}_ops", function, op=address)
        super().__init__(top.machine, top.kallsyms, top.ftrace, ring, ops, address=address)
        self.pids = InstancePids(ring, memory, pool, address)
        self.options = {
            name: on and name not in FORKS
            for name, on in top.options.items()
            if name not in TOP_OPTIONS
        }
        ring.set_overwrite(self.options[OVERWRITE])

    def save(self) -> Restore:
        """Return a function that restores its tracer, settings and buffers."""
        return in_order(super().save(), self.ring.save(), self.pids.save())

    def free(self) -> None:
        """Stop its tracer and give its memory back.

        Raises `TracefsError` (EBUSY if call sites still call it: a bug has shut ftrace off, or
        a change of them is being watched) and `FtraceBug`.
        """
        if self.ftrace.disabled and self._registered:
            raise TracefsError(errno.EBUSY)
        self.set_tracer(NOP)
        if self.ftrace.patcher.patch is not None:
            raise TracefsError(errno.EBUSY)
        self.ring.settle()
        self.pids.free()
        self.ring.release()
        self._pool.give(self._address)

    @property
    def events(self) -> Sequence[TraceEvent]:
        """Its events: none, since the guest writes events to the top array alone."""
        return ()

    def tracers(self) -> tuple[str, ...]:
        """Return the names of the tracers that instances can have."""
        return (FUNCTION, NOP) if self.ops is not None else (NOP,)

    def set_tracer(self, name: str) -> None:
        """Switch to the tracer `name` and empty the buffer; no effect if it is on already.

        Raises `TracefsError` (EINVAL: no such tracer) and `FtraceBug`, after which the tracer and
        the buffer are the old ones.
        """
        if name not in self.tracers():
            raise TracefsError(errno.EINVAL)
        if name == self.tracer:
            return
        if self.ftrace.disabled:
            # As for the top array: sites stay as they are, and only `function` calls on.
            self.tracer = name
            self.ring.set_function_off(name != FUNCTION)
            self.ring.reset()
            self._top.follow_others()
            return
        with self.ftrace.change() as undo:
            if self.tracer == NOP:
                kept = self.ring.exchange([Contents() for _ in self.ring.cpus])
                undo.callback(self.ring.exchange, kept)
                self.ring.reset()
            undo.callback(setattr, self, "tracer", self.tracer)
            self.tracer = name
            self._follow(undo)
        if name == NOP:
            self.ring.reset()
        self._top.follow_others()

    def _follow(self, undo: ExitStack) -> None:
        """Register or unregister the ops, by tracer and options."""
        self._register(self.tracer == FUNCTION and self.options["function-trace"], undo)

    @property
    def all_options(self) -> Mapping[str, bool]:
        """All options, including those of every tracer, and whether they are on."""
        return {**self.options, **self.function_options}

    @property
    def tracer_options(self) -> Mapping[str, bool]:
        """The options of the current tracer."""
        return self.function_options if self.tracer == FUNCTION else {}

    def set_option(self, name: str, value: bool) -> None:
        """Change an option. Raises `TracefsError` (EINVAL: no such option) and `FtraceBug`."""
        if name in self.function_options:
            self._set_function_option(name, value)
            return
        if name not in self.options:
            raise TracefsError(errno.EINVAL)
        with self.ftrace.change() as undo:
            undo.callback(self.options.__setitem__, name, self.options[name])
            self.options[name] = value
            if name == "function-trace":
                self._follow(undo)
        if name == OVERWRITE:
            self.ring.set_overwrite(value)
        self._top.follow_others()
