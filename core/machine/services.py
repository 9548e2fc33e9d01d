"""Questions of a running guest to the host's side of tracing.

The machine knows nothing about ftrace and passes these questions on. The code that makes a
machine gives it the `Services` that answer them.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Protocol

from ..abi import Hypercall, TextPoke
from .vcpu import Vcpu


class Services(Protocol):
    """Answers to a guest, given between two blocks of the vCPU that asks.

    Results are the kernel's: 0, or a negative errno.
    """

    def breakpoint(self, cpu: int, ip: int) -> bool:
        """Handle the breakpoint at `ip`. Return False if the host did not set it."""
        ...

    def kprobe(self, ip: int) -> bool:
        """Return whether the guest handles the breakpoint at `ip`."""
        ...

    def ftrace(self, call: Hypercall, cpu: int) -> int:
        """Do `FTRACE_INIT` or `FTRACE_UPDATE` for `cpu`, with every vCPU stopped."""
        ...

    def text_poke(self, cpu: int) -> int | None:
        """Write text after `cpu` has prepared the CPUs; return what `cpu` does next (`TextPoke`).

        None leaves it waiting in the call (`TEXT_POKE`).
        """
        ...

    def sync_core(self, cpu: int) -> None:
        """Have `cpu` execute the present text from now on (`SYNC_CORE`)."""
        ...

    def text_poked(self, cpu: int) -> None:
        """Note that `cpu` reports the end of a change of text (`FTRACE_UPDATED`)."""
        ...

    def trace_control(self, cpu: int, probe: int, ip: int, parent_ip: int) -> int:
        """Execute the command of the `struct func_probe` at `probe` (`TRACE_CONTROL`)."""
        ...

    def callers(self, vcpu: Vcpu, ip: int, *, back: bool = False) -> Sequence[int]:
        """Return the call chain of the site at `ip`, or of any site if it is 0 (`TRACE_STACK`).

        With `back`, `ip` is a return address on the stack, and the chain begins there.
        """
        ...

    def stack_max(self, vcpu: Vcpu, used: int, ip: int) -> None:
        """Note that `used` bytes of a stack are in use, a new maximum (`STACK_MAX`)."""
        ...

    def update_max(self, cpu: int | None) -> None:
        """Swap the ring buffer of `cpu`, or of all, with the spare one (`UPDATE_MAX_TR`)."""
        ...

    def pid_follow(self, pid: int, parent: int) -> None:
        """Note that `parent` has forked the task `pid`; with `parent` 0, that `pid` has ended."""
        ...

    def died(self, cpu: int) -> None:
        """Note that `cpu` has oopsed or panicked; its report is in dmesg."""
        ...


class NoServices:
    """The answers of a machine without tracing."""

    def breakpoint(self, cpu: int, ip: int) -> bool:
        """Return False."""
        return False

    def kprobe(self, ip: int) -> bool:
        """Return False."""
        return False

    def ftrace(self, call: Hypercall, cpu: int) -> int:
        """Return -ENODEV."""
        return -errno.ENODEV

    def text_poke(self, cpu: int) -> int | None:
        """Write nothing."""
        return TextPoke.DONE

    def sync_core(self, cpu: int) -> None:
        """Do nothing."""

    def text_poked(self, cpu: int) -> None:
        """Do nothing."""

    def trace_control(self, cpu: int, probe: int, ip: int, parent_ip: int) -> int:
        """Return -ENODEV."""
        return -errno.ENODEV

    def callers(self, vcpu: Vcpu, ip: int, *, back: bool = False) -> Sequence[int]:
        """Return no callers."""
        return ()

    def stack_max(self, vcpu: Vcpu, used: int, ip: int) -> None:
        """Do nothing."""

    def update_max(self, cpu: int | None) -> None:
        """Do nothing."""

    def pid_follow(self, pid: int, parent: int) -> None:
        """Do nothing."""

    def died(self, cpu: int) -> None:
        """Do nothing."""


class LateServices:
    """Services that are made after their machine, because they need it themselves.

    Until `connect` is called, the answers are those of `NoServices`.
    """

    def __init__(self) -> None:
        self._services: Services = NoServices()

    def connect(self, services: Services) -> None:
        """Have `services` answer from now on."""
        self._services = services

    def breakpoint(self, cpu: int, ip: int) -> bool:
        """Pass it on."""
        return self._services.breakpoint(cpu, ip)

    def kprobe(self, ip: int) -> bool:
        """Pass it on."""
        return self._services.kprobe(ip)

    def ftrace(self, call: Hypercall, cpu: int) -> int:
        """Pass it on."""
        return self._services.ftrace(call, cpu)

    def text_poke(self, cpu: int) -> int | None:
        """Pass it on."""
        return self._services.text_poke(cpu)

    def sync_core(self, cpu: int) -> None:
        """Pass it on."""
        self._services.sync_core(cpu)

    def text_poked(self, cpu: int) -> None:
        """Pass it on."""
        self._services.text_poked(cpu)

    def trace_control(self, cpu: int, probe: int, ip: int, parent_ip: int) -> int:
        """Pass it on."""
        return self._services.trace_control(cpu, probe, ip, parent_ip)

    def callers(self, vcpu: Vcpu, ip: int, *, back: bool = False) -> Sequence[int]:
        """Pass it on."""
        return self._services.callers(vcpu, ip, back=back)

    def update_max(self, cpu: int | None) -> None:
        """Pass it on."""
        self._services.update_max(cpu)

    def stack_max(self, vcpu: Vcpu, used: int, ip: int) -> None:
        """Pass it on."""
        self._services.stack_max(vcpu, used, ip)

    def pid_follow(self, pid: int, parent: int) -> None:
        """Pass it on."""
        self._services.pid_follow(pid, parent)

    def died(self, cpu: int) -> None:
        """Pass it on."""
        self._services.died(cpu)
