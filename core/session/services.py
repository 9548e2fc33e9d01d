"""The host's side of tracing: answers to a running guest."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from ..abi import Hypercall
from ..errors import FtraceBug
from ..ftrace.ftrace import Ftrace
from ..machine.services import NoServices
from ..machine.vcpu import Vcpu
from ..tracefs import TraceArray


class FtraceServices(NoServices):
    """The answers of ftrace alone, without a trace array."""

    def __init__(self, ftrace: Ftrace) -> None:
        self._ftrace = ftrace

    def breakpoint(self, cpu: int, ip: int) -> bool:
        """Emulate the new text of a site being patched, for a vCPU that hits its breakpoint."""
        return self._ftrace.patcher.emulate(cpu, ip)

    def text_poke(self, cpu: int) -> int | None:
        """Perform the phases of the patch under way that the user lets happen now."""
        return self._ftrace.text.poke(cpu)

    def sync_core(self, cpu: int) -> None:
        """Drop the translated code that `cpu` has of changed text."""
        self._ftrace.patcher.sync_core(cpu)

    def text_poked(self, cpu: int) -> None:
        """End the patch under way."""
        self._ftrace.patcher.poked(cpu)

    def ftrace(self, call: Hypercall, cpu: int) -> int:
        """Disable all call sites, or do the request of the guest's ftraced; return 0 or -errno."""
        ftraced = self._ftrace.ftraced
        if call is Hypercall.FTRACE_UPDATE and self._ftrace.patcher.patch is not None:
            return 0  # sites stay as they are while the user watches a patch
        if ftraced is not None:
            converted = ftraced.asked(call)
            self._ftrace.update_times.spend(cpu, max(converted, 0))
            return converted
        if call is not Hypercall.FTRACE_INIT:
            return -errno.ENODEV
        try:
            self._ftrace.init()
        except FtraceBug as found:
            return -found.errno
        self._ftrace.update_times.boot = self._ftrace.update_times.spend(
            cpu, len(self._ftrace.records)
        )
        return 0


class TracingServices(FtraceServices):
    """The answers of ftrace and the trace array."""

    def __init__(self, ftrace: Ftrace, array: TraceArray) -> None:
        super().__init__(ftrace)
        self._array = array

    def kprobe(self, ip: int) -> bool:
        """Return whether a kprobe's breakpoint is, or was, at `ip`."""
        return self._array.kprobes.kprobes.trapped(ip)

    def trace_control(self, cpu: int, probe: int, ip: int, parent_ip: int) -> int:
        """Execute the command that set_ftrace_filter has set for a function."""
        return self._array.control(cpu, probe, ip, parent_ip)

    def callers(self, vcpu: Vcpu, ip: int, *, back: bool = False) -> Sequence[int]:
        """Return a traced function and its callers, as the return addresses of their calls."""
        if back:
            return self._array.callers.following(vcpu, ip)
        return self._array.callers.addresses(vcpu, ip)

    def update_max(self, cpu: int | None) -> None:
        """Keep the events of `cpu`, or of all CPUs, as those of the longest latency."""
        if cpu is None:
            self._array.snapshot.swap()
        else:
            self._array.snapshot.swap_cpu(cpu)

    def pid_follow(self, pid: int, parent: int) -> None:
        """Update the lists of pids after a fork or an exit."""
        self._array.follow_task(pid, parent)

    def died(self, cpu: int) -> None:
        """Dump the trace to dmesg, if ftrace_dump_on_oops says so."""
        self._array.commands.dump_on_oops(cpu)

    def stack_max(self, vcpu: Vcpu, used: int, ip: int) -> None:
        """Have the stack tracer record the stack of `vcpu`."""
        self._array.stack.check_stack(vcpu, used, ip)
