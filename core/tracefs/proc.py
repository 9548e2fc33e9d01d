"""The files below /proc/sys/kernel: switches of the stack tracer and of the NMI watchdog.

Sources: kernel/sysctl.c, kernel/trace/trace_stack.c and kernel/watchdog.c of Linux 6.1.
"""

from __future__ import annotations

import errno

from ..errors import GuestError, TracefsError
from ..ftrace.stacktrace import StackTracer
from ..machine.machine import Machine
from .number import dointvec
from .tree import Directory, File


class StackTracerEnabled(File):
    """The switch of the stack tracer: 0 is off, any other number is on."""

    mode = 0o644

    def __init__(self, stack: StackTracer) -> None:
        self._stack = stack

    def read(self) -> str:
        """Return the number."""
        return f"{self._stack.enabled}\n"

    def write(self, text: str) -> None:
        """Accept a number; EINVAL for other text."""
        self._stack.set_enabled(dointvec(text))


class NmiWatchdog(File):
    """The switch of the watchdog: while it is 1, each CPU gets an NMI every ten seconds.

    The kernel's handler then reports a CPU that took no tick since the NMI before.
    """

    mode = 0o644

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def read(self) -> str:
        """Return 1 while it is on, else 0."""
        return f"{self._machine.nmi_watchdog:d}\n"

    def write(self, text: str) -> None:
        """Accept 0 or 1; EINVAL for others, EOPNOTSUPP if the kernel handles no NMIs."""
        value = dointvec(text)
        if value not in (0, 1):
            raise TracefsError(errno.EINVAL)
        try:
            self._machine.set_nmi_watchdog(bool(value))
        except GuestError:
            raise TracefsError(errno.EOPNOTSUPP) from None


def proc_files(stack: StackTracer, machine: Machine) -> Directory:
    """Return the tree of /proc."""
    kernel = {
        "nmi_watchdog": NmiWatchdog(machine),
        "stack_tracer_enabled": StackTracerEnabled(stack),
    }
    return Directory({"sys": Directory({"kernel": Directory(kernel)})})
