"""The stack tracer: the greatest use of a stack, and the calls that used it.

The guest's `stack_trace_call`, an ftrace_ops of its own, checks at each traced call how
much of the task's stack is in use. If that is more than the maximum so far, it asks the
host, which records the distance of each return address from the top of the stack. The
tracer's own part of the stack does not count. Source: check_stack() in
kernel/trace/trace_stack.c, 6.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from ..abi import THREAD_SIZE
from ..arch import Addresses
from ..errors import MissingSymbolError
from ..kernel.kallsyms import Kallsyms
from ..machine.machine import Machine
from ..machine.symbols import TRACER
from ..machine.vcpu import Vcpu
from ..memento import Restore, attributes, in_order
from .callers import Callers
from .ftrace import Ftrace
from .ops import FtraceHash, FtraceOps

STACK_TRACE_CALL = "stack_trace_call"
MAX_SIZE = "stack_trace_max_size"
TRACER_FRAME = "tracer_frame"


@dataclass(frozen=True, slots=True)
class StackUse:
    """An active function and its part of the stack."""

    address: int
    """Address at which it continues after its current call (`stack_dump_trace`)."""
    depth: int
    """Bytes from the top of the stack to the end of its part (`stack_trace_index`)."""


class StackTracer:
    """The stack tracer of one machine; `ops` selects its sites."""

    def __init__(
        self, machine: Machine, ftrace: Ftrace, kallsyms: Kallsyms, callers: Callers
    ) -> None:
        self.enabled = 0
        """`stack_tracer_enabled`; any number but 0 is on."""
        self.trace: tuple[StackUse, ...] = ()
        """The calls at the maximum, innermost first."""
        function = kallsyms.address(STACK_TRACE_CALL, TRACER)
        self.ops = None if function is None else FtraceOps("trace_ops", function)
        self._machine = machine
        self._memory = machine.memory
        self._ftrace = ftrace
        self._callers = callers

    def save(self) -> Restore:
        """Return a function that restores the host's part; the machine saves the maximum."""
        kept = attributes(self, "enabled", "trace")
        return kept if self.ops is None else in_order(kept, self.ops.save())

    @property
    def max_size(self) -> int:
        """Maximum bytes of a stack ever in use (`stack_trace_max_size`), 0 at first."""
        if self.ops is None:
            return 0
        return self._memory.read_int(self._ftrace.entry[MAX_SIZE], 8)

    def set_max_size(self, size: int) -> None:
        """Record the next stack that uses more than `size` bytes. Raises `MissingSymbolError`."""
        self._memory.write_int(self._ftrace.entry[MAX_SIZE], size, 8)

    def set_enabled(self, value: int) -> None:
        """Switch the stack tracer on, or with 0 off (`stack_trace_sysctl`).

        Raises `TracefsError` (ENODEV, EBUSY), `MissingSymbolError` and `FtraceBug`, after which the
        state is unchanged.
        """
        if bool(value) != bool(self.enabled):
            if self.ops is None:
                self._ftrace.check()  # raises what this kernel lacks
                raise MissingSymbolError("tracer.o", STACK_TRACE_CALL)
            if value:
                self._ftrace.register(self.ops)
            else:
                self._ftrace.unregister(self.ops)
        self.enabled = value

    @property
    def filter_hash(self) -> FtraceHash:
        """The functions at which it checks the stack; empty means all."""
        return FtraceHash() if self.ops is None else self.ops.filter_hash

    def set_filter(self, chosen: FtraceHash) -> None:
        """Check the stack at the functions `chosen`; while it is on, sites change at once."""
        if self.ops is None:
            self._ftrace.check()
            raise MissingSymbolError("tracer.o", STACK_TRACE_CALL)
        self._ftrace.set_hashes(self.ops, filter_hash=chosen)

    def forget(self, ips: Addresses) -> None:
        """Remove call sites that no longer exist from the chosen functions."""
        if self.ops is not None:
            self.ops.filter_hash = self.ops.filter_hash.forget(ips)

    def check_stack(self, vcpu: Vcpu, used: int, ip: int) -> None:
        """Record the stack of `vcpu`: `used` bytes are in use, including the tracer's."""
        top = (vcpu.registers.sp | (THREAD_SIZE - 1)) + 1
        found: list[StackUse] = []
        for call in self._callers.of(vcpu, ip):
            # Return addresses in registers do not count, even if an interrupt has saved them.
            if call.place is not None and (not found or top - call.place < found[-1].depth):
                found.append(StackUse(call.address, top - call.place))
        if not found:
            return
        size = found[0].depth
        frame = self._ftrace.entry[TRACER_FRAME]
        known = self._memory.read_int(frame, 4)
        if not known or used - size < known:
            self._memory.write_int(frame, max(used - size, 0), 4)
        if size <= self.max_size:
            return
        self.set_max_size(size)
        if self._machine.port.facts.abi.saves_link_late and len(found) > 1:
            found = [StackUse(each.address, above.depth) for each, above in pairwise(found)]
        self.trace = tuple(found)
