"""/proc: kallsyms, and the switches of ftrace, the stack tracer and the NMI watchdog.

Sources: kernel/kallsyms.c, kernel/sysctl.c, kernel/trace/ftrace.c, kernel/trace/trace_stack.c and
kernel/watchdog.c of Linux 6.1.
"""

from __future__ import annotations

import errno

from ..errors import GuestError, MemoryFault, TracefsError
from ..ftrace.ftrace import Ftrace
from ..ftrace.stacktrace import StackTracer
from ..kernel.kallsyms import Kallsyms
from ..machine.machine import Machine
from .commands import Commands
from .latency import kernel_release
from .number import dointvec
from .tree import Directory, File

_LONGEST = 128
"""Maximum bytes read of a string of the kernel."""


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


class KallsymsFile(File):
    """The symbols of the kernel, the tracer and all modules, by address."""

    def __init__(self, kallsyms: Kallsyms, pointer_size: int) -> None:
        self._kallsyms = kallsyms
        self._pointer_size = pointer_size

    def read(self) -> str:
        """Return one symbol a line."""
        return self._kallsyms.text(self._pointer_size)


class FtraceEnabled(File):
    """The switch of all calls: 0 turns every call site into a nop, any other number back.

    What is registered stays registered.
    """

    mode = 0o644

    def __init__(self, ftrace: Ftrace) -> None:
        self._ftrace = ftrace

    def read(self) -> str:
        """Return 1 or 0; 0 once a bug has shut ftrace off."""
        return f"{self._ftrace.enabled and not self._ftrace.disabled:d}\n"

    def write(self, text: str) -> None:
        """Accept a number; EINVAL for other text, ENODEV once a bug has shut ftrace off."""
        self._ftrace.set_enabled(bool(dointvec(text)))


class FtraceDumpOnOops(File):
    """Whether an oops dumps the trace to dmesg: 1 for all CPUs, 2 for the CPU that oopsed."""

    mode = 0o644

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def read(self) -> str:
        """Return the number."""
        return f"{self._commands.on_oops}\n"

    def write(self, text: str) -> None:
        """Accept a number; EINVAL for other text."""
        self._commands.on_oops = dointvec(text)


class Version(File):
    """The kernel's version, made of its `linux_proc_banner`."""

    def __init__(self, machine: Machine, kallsyms: Kallsyms) -> None:
        self._machine = machine
        self._kallsyms = kallsyms

    def read(self) -> str:
        """Return one line, empty for a kernel without the banner."""
        banner, version = (self._string(name) for name in ("linux_proc_banner", "linux_version"))
        release = kernel_release(self._machine.memory, self._kallsyms)
        for each in ("Linux", release, version):
            banner = banner.replace("%s", each, 1)
        return banner

    def _string(self, name: str) -> str:
        address = self._kallsyms.address(name)
        try:
            raw = b"" if address is None else self._machine.memory.read(address, _LONGEST)
        except MemoryFault:
            raw = b""
        return raw.partition(b"\0")[0].decode("ascii", "backslashreplace")


class NmiWatchdog(File):
    """The switch of the watchdog: while it is 1, each CPU gets an NMI every ten seconds.

    The kernel's handler then reports a CPU that took no tick since the previous NMI.
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


def proc_files(
    stack: StackTracer, machine: Machine, ftrace: Ftrace, commands: Commands
) -> Directory:
    """Return the tree of /proc."""
    kernel = {
        "ftrace_dump_on_oops": FtraceDumpOnOops(commands),
        "ftrace_enabled": FtraceEnabled(ftrace),
        "nmi_watchdog": NmiWatchdog(machine),
        "stack_tracer_enabled": StackTracerEnabled(stack),
    }
    symbols = KallsymsFile(ftrace.kallsyms, ftrace.port.facts.pointer_size)
    return Directory(
        {
            "kallsyms": symbols,
            "sys": Directory({"kernel": Directory(kernel)}),
            "version": Version(machine, ftrace.kallsyms),
        }
    )
