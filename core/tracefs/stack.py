"""The stack tracer's files: stack_max_size, stack_trace, stack_trace_filter, and its switch.

The switch is /proc/sys/kernel/stack_tracer_enabled, as on a real machine. Source:
kernel/trace/trace_stack.c, 6.1.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping

from ..errors import TracefsError
from .array import TraceArray
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
    """Most bytes of a stack that were in use."""

    mode = 0o644

    def __init__(self, array: TraceArray) -> None:
        self._array = array
        self._bits = 8 * array.machine.port.facts.pointer_size

    def read(self) -> str:
        """The number, signed."""
        size = self._array.stack.max_size
        return f"{size - (size >> (self._bits - 1) << self._bits)}\n"

    def write(self, text: str) -> None:
        """Look for stacks that are used more than this; 0 begins anew."""
        self._array.stack.set_max_size(kstrtoul(text, self._bits))


class StackTrace(File):
    """The calls by which most of a stack was in use."""

    def __init__(self, array: TraceArray) -> None:
        self._array = array

    def read(self) -> str:
        """A table: how far from the top each call is, what is its own of that, and who it is."""
        stack = self._array.stack
        uses = stack.trace
        lines = [
            f"        Depth    Size   Location    ({len(uses)} entries)\n",
            "        -----    ----   --------\n",
        ]
        if not stack.enabled and not stack.max_size:
            lines.append(DISABLED)
        outer = [*(each.depth for each in uses[1:]), 0]
        for number, (use, above) in enumerate(zip(uses, outer, strict=bool(uses))):
            name = self._array.kallsyms.format(use.address)
            lines.append(f"{number:3d}) {use.depth:8d}   {use.depth - above:5d}   {name}\n")
        return "".join(lines)


class StackTracerEnabled(File):
    """Whether the stack tracer is on: 0, or any other number."""

    mode = 0o644

    def __init__(self, array: TraceArray) -> None:
        self._array = array

    def read(self) -> str:
        """The number."""
        return f"{self._array.stack.enabled}\n"

    def write(self, text: str) -> None:
        """Take a number, decimal or hexadecimal; EINVAL for anything else (`proc_dointvec`)."""
        word = text.strip()
        if not _INT.fullmatch(word):
            raise TracefsError(errno.EINVAL)
        value = int(word, 16 if "x" in word.lower() else 10)
        if not -(1 << 31) < value < 1 << 31:
            raise TracefsError(errno.EINVAL)
        self._array.stack.set_enabled(value)


def files(array: TraceArray) -> Mapping[str, Node]:
    """This file's files by name."""
    return {"stack_max_size": StackMaxSize(array), "stack_trace": StackTrace(array)}


def filter_files(array: TraceArray, functions: FunctionTable) -> Mapping[str, FilterFile]:
    """Those of them that are filters."""
    choice = Choice(lambda: array.stack.filter_hash, array.stack.set_filter, ALL)
    return {"stack_trace_filter": FilterFile(array, functions, choice)}


def proc_files(array: TraceArray) -> Directory:
    """What there is of /proc."""
    kernel = Directory({SWITCH: StackTracerEnabled(array)})
    return Directory({"sys": Directory({"kernel": kernel})})
