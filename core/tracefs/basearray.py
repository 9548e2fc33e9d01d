"""The base of every trace array: buffers, the function tracer and its filter, options, a clock."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from types import MappingProxyType

from ..abi import TraceIter
from ..arch import Addresses
from ..errors import TracefsError
from ..ftrace.ftrace import Ftrace
from ..ftrace.guestarray import GuestArray
from ..ftrace.latency import MaxTrace
from ..ftrace.ops import FtraceHash, FtraceOps
from ..kernel.kallsyms import Kallsyms
from ..machine.machine import Machine
from ..machine.symbols import TRACER
from ..memento import Restore, attributes, in_order
from ..trace.buffer.events import EventTable
from ..trace.buffer.ringbuffer import RingBuffer
from ..trace.text.defaultformat import default_text
from ..trace.text.latencyformat import latency_text
from ..trace.text.textcontext import LatencyFormat, TextContext, TextOptions
from ..trace.text.tracetext import TraceText
from .clocks import CLOCKS, LOCAL, TraceClocks
from .cmdlines import SavedTasks
from .errorlog import ErrorLog
from .latency import FORMAT, OVERWRITE, kernel_release
from .snapshot import Snapshot
from .traces import BLOCK, PAUSE_ON_TRACE

NOP = "nop"
FUNCTION = "function"

MARK_SIZE = 1024
"""Maximum bytes of text in one event (TRACE_BUF_SIZE)."""

RAW_MIN, RAW_MAX = 4, 3 * 1024
"""Least and most bytes of a write to trace_marker_raw; the kernel keeps `MARK_SIZE` of them."""

MARKER_COMM = "sh"
"""Name of the task that writes to trace_marker for the shell and the console."""

BUFFER_PERCENT = 50
"""Percentage of a full buffer at which poll first finds a CPU's pipe readable."""

_MARK_OFFSET = 1 << 20  # above the stacks of host calls
_MARK_PAGES = 4

OPTIONS: Mapping[str, bool] = MappingProxyType(
    {
        "print-parent": True,
        "sym-offset": False,
        "sym-addr": False,
        "verbose": False,
        "raw": False,
        "hex": False,
        BLOCK: False,
        "trace_printk": True,
        "annotate": True,
        "printk-msg-only": False,
        "context-info": True,
        FORMAT: False,
        "record-cmd": True,
        "record-tgid": False,
        OVERWRITE: True,
        "disable_on_free": False,
        "irq-info": True,
        "markers": True,
        "event-fork": False,
        PAUSE_ON_TRACE: False,
        "hash-ptr": True,
        "function-trace": True,
        "function-fork": False,
        "stacktrace": False,
    }
)
"""The supported options, in the kernel's order and with its defaults."""

NOP_OPTIONS: Mapping[str, bool] = MappingProxyType(
    {"test_nop_accept": False, "test_nop_refuse": False}
)
"""The options of `nop`, the example tracer: it refuses to change one of them."""

GUEST_OPTIONS: Mapping[str, TraceIter] = MappingProxyType(
    {"trace_printk": TraceIter.PRINTK, "stacktrace": TraceIter.STACKTRACE}
)
"""The options that the guest obeys."""

TOP_OPTIONS = ("trace_printk", "printk-msg-only", "record-cmd")
"""The options that only the top array has."""

FORKS = ("function-fork", "event-fork")
"""Whether lists of pids follow forks: off in a new instance."""

FUNC_STACK_TRACE = "func_stack_trace"
FUNCTION_OPTIONS: Mapping[str, bool] = MappingProxyType({FUNC_STACK_TRACE: False})
"""The options of the function tracer."""

_TEXT = ("print-parent", "sym-offset", "sym-addr", "verbose", "raw", "hex")
_TEXT_OPTIONS = (*_TEXT, "annotate", "record-tgid", "context-info", "irq-info", "hash-ptr")
_PTR_KEY = b"no entropy at boot"
"""Linux fills its key with random bytes; here a run must show the same text each time."""

_NOP_SAYS = "nop_{name} flag set to {value:d}: we {verb}. Now cat trace_options to see the result"


class BaseArray:
    """The part of a trace array that instances have too; the function tracer may be missing."""

    prefix = ""
    """Prefix of the names of its function tracer's guest functions."""

    def __init__(
        self,
        machine: Machine,
        kallsyms: Kallsyms,
        ftrace: Ftrace,
        ring: RingBuffer,
        ops: FtraceOps | None,
        guest: GuestArray | None,
    ) -> None:
        """`guest` is None for a kernel that cannot be traced."""
        self.machine = machine
        self.kallsyms = kallsyms
        self.ftrace = ftrace
        self.ring = ring
        self.ops = ops
        self.tracer = NOP
        self.tracing_on = True
        self.clock = LOCAL
        self.tracing_cpumask = (1 << len(machine.vcpus)) - 1
        self.buffer_percent = BUFFER_PERCENT
        self.options = dict(OPTIONS)
        self.function_options = dict(FUNCTION_OPTIONS)
        self.nop_options = dict(NOP_OPTIONS)
        self._pauses = 0
        self.error_log = ErrorLog(lambda: max(vcpu.ticks for vcpu in machine.vcpus))
        self.snapshot = Snapshot(ring, self)
        self.tasks = SavedTasks(machine, kallsyms)
        self.guest = guest
        """Its `struct trace_array` in the guest."""
        if guest is not None:
            guest.set("tracing_is_on", 1)
            guest.set_flag(TraceIter.PRINTK, True)
        self._clocks = TraceClocks(machine, kallsyms)
        self._registered = False

    def save(self) -> Restore:
        """Return a function that restores tracer and settings, after `ftrace`."""
        kept = ("tracer", "tracing_on", "clock", "tracing_cpumask", "_registered", "buffer_percent")
        parts = [attributes(self, *kept, "options", "function_options", "nop_options")]
        if self.ops is not None:
            parts.append(self.ops.save())
        return in_order(*parts, self.error_log.save(), self.snapshot.save())

    @property
    def cpus(self) -> int:
        """Number of CPUs."""
        return len(self.machine.vcpus)

    # Recording

    def set_tracing_on(self, on: bool) -> None:
        """Start or stop writing events."""
        self.tracing_on = on
        if self.guest is not None:
            self.guest.set("tracing_is_on", on)
        self._update_recording()

    def set_cpumask(self, mask: int) -> None:
        """Write events only on the CPUs of `mask`."""
        self.tracing_cpumask = mask & ((1 << self.cpus) - 1)
        self._update_recording()

    def pause(self, on: bool) -> None:
        """Pause or resume writing events; nested pauses count, and `tracing_on` stays as it is."""
        self._pauses += 1 if on else -1
        self._update_recording()

    def _update_recording(self) -> None:
        for cpu in range(self.cpus):
            on = self.tracing_on and bool(self.tracing_cpumask >> cpu & 1) and not self._pauses
            self.ring.set_recording(on, cpu)

    @property
    def clocks(self) -> tuple[str, ...]:
        """The clocks that time stamps can use."""
        return self._clocks.names

    @property
    def clock_in_ns(self) -> bool:
        """Whether time stamps are in ns; `counter` and `uptime` give plain numbers."""
        return CLOCKS[self.clock].in_ns

    @property
    def clock_of_cpu(self) -> bool:
        """Whether a time stamp is the time of the CPU that wrote the event."""
        return CLOCKS[self.clock].of_cpu

    def now(self, cpu: int) -> int:
        """Return the time of the trace clock on `cpu`."""
        return self._clocks.now(self.clock, cpu)

    def set_clock(self, name: str) -> None:
        """Use another clock for time stamps and empty the buffers.

        Raises `TracefsError` (EINVAL) if no clock has that name.
        """
        if name not in self.clocks:
            raise TracefsError(errno.EINVAL)
        self.clock = name
        self.ring.set_clock(self._clocks.choose(name))
        self._reset_all()

    def _reset_all(self) -> None:
        """Drop all events, including those of the snapshot."""
        self.ring.reset()
        self.snapshot.clear()

    def mark(self, text: str) -> None:
        """Make the guest write `text` as events, one line for each `MARK_SIZE` bytes.

        Raises `TracefsError` (EBADF: recording is off, ENODEV: the kernel does not support
        it) and `GuestError`.
        """
        data = text.encode("utf-8", "surrogateescape")
        for start in range(0, len(data), MARK_SIZE):
            self._write_mark("tracing_mark_write", data[start : start + MARK_SIZE])

    def mark_raw(self, data: bytes) -> None:
        """Make the guest write `data`, whose first 4 bytes are a number, as one event.

        Raises `TracefsError` (EINVAL: too short or too long) and as `mark`.
        """
        if not RAW_MIN <= len(data) <= RAW_MAX:
            raise TracefsError(errno.EINVAL)
        self._write_mark("tracing_mark_raw_write", data[:MARK_SIZE])

    def _write_mark(self, name: str, data: bytes) -> None:
        """Have the guest function `name` write `data`."""
        function = self.kallsyms.address(name, TRACER)
        if function is None or self.guest is None:
            raise TracefsError(errno.ENODEV)
        memory = self.machine.memory
        place = self.machine.port.facts.map.host_stack + _MARK_OFFSET
        if memory.region_at(place) is None:
            memory.map(place, MARK_SIZE * _MARK_PAGES, "trace_marker", executable=False)
        memory.write(place, data)
        arguments = (place, len(data), self.guest.address)
        result = self.machine.requests.call_as_client(function, arguments, MARKER_COMM)
        if result >> (8 * memory.pointer_size - 1):
            raise TracefsError(errno.EBADF)

    # The function tracer

    @property
    def function_trace_call(self) -> str:
        """The guest function that the function tracer registers, by its options."""
        stack = "stack_" if self.function_options[FUNC_STACK_TRACE] else ""
        return f"{self.prefix}function_{stack}trace_call"

    def _set_nop_option(self, name: str, value: bool) -> None:
        """Change an option of `nop`, or refuse, and say so in the kernel's log (`nop_set_flag`)."""
        refused = name != "test_nop_accept"
        short, verb = name.removeprefix("test_nop_"), "refuse" if refused else "accept"
        now = max(vcpu.ticks for vcpu in self.machine.vcpus)
        said = _NOP_SAYS.format(name=f"test_{short}", value=value, verb=verb)
        self.machine.dmesg.write(now, said)
        if refused:
            raise TracefsError(errno.EINVAL)
        self.nop_options[name] = value

    def _set_function_option(self, name: str, value: bool) -> None:
        """Change the function that the tracer registers; if it is on, register it again."""
        with self.ftrace.change() as undo:
            undo.callback(self.function_options.__setitem__, name, self.function_options[name])
            self.function_options[name] = value
            if self.ops is None or not self._registered:
                return
            self.ftrace.unregister(self.ops)
            self._choose_function(self.ops, undo)
            self.ftrace.register(self.ops)

    def _choose_function(self, ops: FtraceOps, undo: ExitStack) -> None:
        """Set the guest function that call sites call for the current tracer."""
        function = self._function()
        if function is not None:
            undo.callback(setattr, ops, "func", ops.func)
            ops.func = function

    def _function(self) -> int | None:
        """Return the guest function for the current tracer; None if the guest lacks it."""
        return self.kallsyms.address(self.function_trace_call, TRACER)

    def _register(self, wanted: bool, undo: ExitStack) -> None:
        """Register or unregister the ops."""
        if self.ops is None or wanted == self._registered:
            return
        if wanted:
            self._choose_function(self.ops, undo)
            self.ftrace.register(self.ops)
        else:
            self.ftrace.unregister(self.ops)
        undo.callback(setattr, self, "_registered", self._registered)
        self._registered = wanted

    def _update_registration(self, undo: ExitStack) -> None:
        """Register or unregister the ops, according to tracer and options."""
        self._register(self.tracer == FUNCTION and self.options["function-trace"], undo)

    def set_option(self, name: str, value: bool) -> None:
        """Change an option. Raises `TracefsError` (EINVAL: no such option) and `FtraceBug`."""
        if name in self.function_options:
            self._set_function_option(name, value)
            return
        if name in self.nop_options:
            self._set_nop_option(name, value)
            return
        if name not in self.options:
            raise TracefsError(errno.EINVAL)
        with self.ftrace.change() as undo:
            undo.callback(self.options.__setitem__, name, self.options[name])
            self.options[name] = value
            if name == "function-trace":
                self._update_registration(undo)
        if name == OVERWRITE:
            self.ring.set_overwrite(value)
        elif name in GUEST_OPTIONS and self.guest is not None:
            self.guest.set_flag(GUEST_OPTIONS[name], value)

    def hash(self, notrace: bool) -> FtraceHash:
        """Return the functions to trace, or with `notrace` those not to trace."""
        if self.ops is None:
            return FtraceHash()
        return self.ops.notrace_hash if notrace else self.ops.filter_hash

    def set_hash(self, notrace: bool, chosen: FtraceHash) -> None:
        """Choose functions; while the tracer is on, sites change at once. Raises `FtraceBug`."""
        if self.ops is None:
            self.ftrace.check()  # raises what this kernel lacks
            raise TracefsError(errno.ENODEV)
        with self.ftrace.change():
            if notrace:
                self.ftrace.set_hashes(self.ops, notrace_hash=chosen)
            else:
                self.ftrace.set_hashes(self.ops, filter_hash=chosen)

    def forget(self, ips: Addresses) -> None:
        """Remove call sites that no longer exist from all hashes, registered or not."""
        if self.ops is not None:
            self.ops.filter_hash = self.ops.filter_hash.forget(ips)
            self.ops.notrace_hash = self.ops.notrace_hash.forget(ips)

    # Text

    @property
    def _message_only(self) -> bool:
        """Whether rows of trace_printk and trace_marker show only the message."""
        return self.options.get("trace_printk", False) and self.options.get(
            "printk-msg-only", False
        )

    def cmdlines(self) -> Mapping[int, str]:
        """Return the names of tasks by pid, as the guest saved them."""
        return self.tasks.names()

    def text(self, cpu: int | None = None) -> TraceText:
        """Return the events of all buffers, or of `cpu`, as text; the header counts all CPUs."""
        table = self.ring.events(cpu)
        present = len(table) if cpu is None else len(self.ring.events())
        return self.as_text(table, self.context(present, self.ring.lost(present)))

    def consume(self, cpu: int | None = None) -> Iterator[str]:
        """Take the events out of all buffers, or out of that of `cpu`; yield pieces of text."""
        taken = self.ring.consume(cpu)
        yield from self.as_text(taken.table, self.context()).body(taken.lost)

    def clear(self, cpu: int | None = None) -> None:
        """Drop the events that `text` returns."""
        self.ring.reset(cpu)

    def as_text(self, table: EventTable, context: TextContext) -> TraceText:
        """Return the events as the current tracer prints them."""
        if context.latency is not None:
            return latency_text(table, context)
        return default_text(table, context)

    def context(
        self, in_buffer: int = 0, overrun: int = 0, section: MaxTrace | None = None
    ) -> TextContext:
        """Return what the rows of events need besides the events.

        `section` is the one whose events are shown, if they belong to one.
        """
        latency = None
        if self.options[FORMAT]:
            section = section or MaxTrace(time_start=self.ring.time_start)
            latency = LatencyFormat(kernel_release(self.machine.memory, self.kallsyms), section)
        options = {name.replace("-", "_"): self.options[name] for name in _TEXT_OPTIONS}
        options["printk_msg_only"] = self._message_only
        return TextContext(
            symbols=self.kallsyms,
            options=TextOptions(**options),
            tracer=self.tracer,
            cpus=self.cpus,
            pointer_size=self.machine.port.facts.pointer_size,
            cmdlines=self.cmdlines(),
            tgids=self.tasks.tgids() if self.options["record-tgid"] else None,
            clock_in_ns=self.clock_in_ns,
            in_buffer=in_buffer,
            written=in_buffer + overrun,
            ftrace_dead=bool(self.ftrace.disabled),
            ptr_key=_PTR_KEY,
            text_prefix=self.machine.port.facts.abi.text_prefix,
            overran=overrun > 0,
            latency=latency,
        )
