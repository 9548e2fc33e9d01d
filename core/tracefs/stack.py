"""The stack tracer's files: stack_max_size, stack_trace, stack_trace_filter, and its switch.

The switch is /proc/sys/kernel/stack_tracer_enabled, as on a real machine. Source:
kernel/trace/trace_stack.c, 6.1.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping

from ..errors import TracefsError
from ..ftrace.ftrace import Ftrace
from ..ftrace.stacktrace import StackTracer
from ..kernel.kallsyms import Kallsyms
from .filters import ALL, Choice, FilterFile
from .functions import FunctionTable
from .number import kstrtoul
from .tree import Directory, File, Node

SWITCH = "stack_tracer_enabled"

DISABLED = """\
#
#  Stack tracer disabled
#
# To enable the stack tracer, either add 'stacktrace' to the
# kernel command line
# or 'echo 1 > /proc/sys/kernel/stack_tracer_enabled'
#
"""

_INT = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|[0-9]+)", re.ASCII)


class StackMaxSize(File):
    """Most bytes of a stack that were ever in use."""

    mode = 0o644

    def __init__(self, stack: StackTracer, bits: int) -> None:
        """`bits` is the width of the kernel's long."""
        self._stack = stack
        self._bits = bits

    def read(self) -> str:
        """Return the number, signed."""
        size = self._stack.max_size
        return f"{size - (size >> (self._bits - 1) << self._bits)}\n"

    def write(self, text: str) -> None:
        """Record the next stack that uses more than this; 0 resets the maximum."""
        self._stack.set_max_size(kstrtoul(text, self._bits))


class StackTrace(File):
    """The calls that were on the stack when most of it was in use."""

    def __init__(self, stack: StackTracer, kallsyms: Kallsyms) -> None:
        self._stack = stack
        self._kallsyms = kallsyms

    def read(self) -> str:
        """Return a table of calls: distance from the top, own bytes, and function."""
        stack = self._stack
        uses = stack.trace
        lines = [
            f"        Depth    Size   Location    ({len(uses)} entries)\n",
            "        -----    ----   --------\n",
        ]
        if not stack.enabled and not stack.max_size:
            lines.append(DISABLED)
        outer = [*(each.depth for each in uses[1:]), 0]
        for number, (use, above) in enumerate(zip(uses, outer, strict=bool(uses))):
            name = self._kallsyms.format(use.address)
            lines.append(f"{number:3d}) {use.depth:8d}   {use.depth - above:5d}   {name}\n")
        return "".join(lines)


class StackTracerEnabled(File):
    """The switch of the stack tracer: 0 is off, any other number is on."""

    mode = 0o644

    def __init__(self, stack: StackTracer) -> None:
        self._stack = stack

    def read(self) -> str:
        """Return the number."""
        return f"{self._stack.enabled}\n"

    def write(self, text: str) -> None:
        """Accept a decimal or hexadecimal number; else EINVAL (`proc_dointvec`)."""
        word = text.strip()
        if not _INT.fullmatch(word):
            raise TracefsError(errno.EINVAL)
        value = int(word, 16 if "x" in word.lower() else 10)
        if not -(1 << 31) < value < 1 << 31:
            raise TracefsError(errno.EINVAL)
        self._stack.set_enabled(value)


def files(stack: StackTracer, kallsyms: Kallsyms, bits: int) -> Mapping[str, Node]:
    """Return the files of this module by name; `bits` is the width of the kernel's long."""
    return {
        "stack_max_size": StackMaxSize(stack, bits),
        "stack_trace": StackTrace(stack, kallsyms),
    }


def filter_files(
    stack: StackTracer, ftrace: Ftrace, functions: FunctionTable
) -> Mapping[str, FilterFile]:
    """Return the filter files of this module by name."""
    choice = Choice(lambda: stack.filter_hash, stack.set_filter, ALL)
    return {"stack_trace_filter": FilterFile(ftrace, functions, choice)}


def proc_files(stack: StackTracer) -> Directory:
    """Return the tree of /proc."""
    kernel = Directory({SWITCH: StackTracerEnabled(stack)})
    return Directory({"sys": Directory({"kernel": kernel})})
