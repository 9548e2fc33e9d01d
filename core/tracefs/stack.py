"""The stack tracer's files: stack_max_size, stack_trace and stack_trace_filter.

Its switch is /proc/sys/kernel/stack_tracer_enabled (proc.py), as on a real machine. Source:
kernel/trace/trace_stack.c, 6.1.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ftrace.ftrace import Ftrace
from ..ftrace.stacktrace import StackTracer
from ..kernel.kallsyms import Kallsyms
from .filters import ALL, Choice, FilterFile
from .functions import FunctionTable
from .number import kstrtoul
from .tree import File, Node

DISABLED = """\
#
#  Stack tracer disabled
#
# To enable the stack tracer, either add 'stacktrace' to the
# kernel command line
# or 'echo 1 > /proc/sys/kernel/stack_tracer_enabled'
#
"""


class StackMaxSize(File):
    """Maximum bytes of a stack that were ever in use."""

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
    """The calls on the stack at its maximum use."""

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
