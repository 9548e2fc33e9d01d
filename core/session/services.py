"""The host's side of tracing, as a running guest asks for it."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from ..abi import Hypercall
from ..ftrace.ftrace import Ftrace
from ..machine.services import NoServices
from ..machine.vcpu import Vcpu
from ..tracefs import TraceArray


class FtraceServices(NoServices):
    """What ftrace alone answers, without a trace array."""

    def __init__(self, ftrace: Ftrace) -> None:
        self._ftrace = ftrace

    def breakpoint(self, cpu: int, ip: int) -> bool:
        """Have a vCPU that runs into a site being patched do the site's new text."""
        return self._ftrace.patcher.emulate(cpu, ip)

    def ftrace(self, call: Hypercall) -> int:
        """Do what the guest's ftraced asks for; -ENODEV if this kernel has none."""
        ftraced = self._ftrace.ftraced
        return -errno.ENODEV if ftraced is None else ftraced.asked(call)


class TracingServices(FtraceServices):
    """What ftrace and the trace array answer."""

    def __init__(self, ftrace: Ftrace, array: TraceArray) -> None:
        super().__init__(ftrace)
        self._array = array

    def trace_control(self, cpu: int, probe: int, ip: int, parent_ip: int) -> int:
        """Do the command of a function of set_ftrace_filter."""
        return self._array.commands.control(cpu, probe, ip, parent_ip)

    def callers(self, vcpu: Vcpu, ip: int) -> Sequence[int]:
        """Return a traced function and its callers, as the addresses their calls return to."""
        return self._array.callers.addresses(vcpu, ip)

    def stack_max(self, vcpu: Vcpu, used: int, ip: int) -> None:
        """Have the stack tracer look at the stack of `vcpu`."""
        self._array.stack.check_stack(vcpu, used, ip)
