"""Checks of a port, and how they are run.

A check is a function of a port under test. It returns if the port does its duty. It raises
`Failure`, with the bytes that prove it, if the port does not, and `Absent` if the port does not
have the feature at all. A verb that is missing or raises `NotImplementedError` counts as absent
too, because a port is written piece by piece.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..arch import Port, Stubs
from ..errors import DynftraceError, FtraceBug, MissingSymbolError
from .outcome import Absent, Failed, Failure, NotProvided, Outcome, Passed
from .subject import PortUnderTest

MACHINE = "the machine"
MCOUNT_RECORD = "HAVE_FTRACE_MCOUNT_RECORD"
FUNCTION_TRACER = "HAVE_FUNCTION_TRACER"
MCOUNT_TEST = "HAVE_FUNCTION_TRACE_MCOUNT_TEST"
DYNAMIC = "HAVE_DYNAMIC_FTRACE"
REGISTERS = "HAVE_DYNAMIC_FTRACE_WITH_REGS"
TRAMPOLINES = "FTRACE_OPS_FL_ALLOC_TRAMP"
MODULES = "modules"
GRAPH = "HAVE_FUNCTION_GRAPH_TRACER"
GRAPH_FP = "HAVE_FUNCTION_GRAPH_FP_TEST"
DYNAMIC_GRAPH = "HAVE_DYNAMIC_FTRACE + HAVE_FUNCTION_GRAPH_TRACER"
NMI_ENTER = "HAVE_FTRACE_NMI_ENTER"
SYSCALLS = "HAVE_SYSCALL_TRACEPOINTS"

HEADINGS = (
    *(MACHINE, MCOUNT_RECORD, FUNCTION_TRACER, MCOUNT_TEST, DYNAMIC, REGISTERS),
    *(TRAMPOLINES, MODULES, GRAPH, GRAPH_FP, DYNAMIC_GRAPH, NMI_ENTER, SYSCALLS),
)
"""The headings of Documentation/trace/ftrace-design.rst in its order, with additional ones."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check of one duty of a port."""

    name: str
    """Short and stable name, such as `make_nop`."""
    heading: str
    """Heading in the guide, one of `HEADINGS`."""
    title: str
    """Statement that is true if the check passes, in one line."""
    function: Callable[[PortUnderTest], None]

    def run(self, port: PortUnderTest) -> Outcome:
        """Run the check and return its outcome. Never raises, whatever the port does wrong."""
        try:
            self.function(port)
        except Failure as failure:
            return failure.outcome
        except Absent as absent:
            return NotProvided(str(absent))
        except FtraceBug as bug:
            return Failed(bug.reason or str(bug), bug.address, bug.expected, bug.found)
        except MissingSymbolError as error:
            return NotProvided(f"symbol {error.symbol} is not defined")
        except DynftraceError as error:
            return Failed(str(error))
        except Exception as error:
            missing = missing_verb(error, port.port)
            return Failed(_sentence(error)) if missing is None else NotProvided(missing)
        return Passed()


def check(
    heading: str, name: str, title: str
) -> Callable[[Callable[[PortUnderTest], None]], Check]:
    """Return a decorator that turns a function into a check."""
    return lambda function: Check(name, heading, title, function)


def missing_verb(error: Exception, port: Port) -> str | None:
    """Return the missing verb of the contract that caused `error`, or None."""
    if isinstance(error, NotImplementedError):
        frames = traceback.extract_tb(error.__traceback__)
        return f"{frames[-1].name} is not implemented"
    if not isinstance(error, AttributeError) or not isinstance(error.name, str):
        return None
    ours = type(error.obj) is type(port) and hasattr(Port, error.name)
    if ours or (hasattr(Stubs, error.name) and not error.name.startswith("_")):
        return f"the port has no {error.name}"
    return None


def _sentence(error: Exception) -> str:
    """Return a sentence about an unexpected exception, with its place in the port's files."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}:{last.lineno}"
    return f"{type(error).__name__} in {last.name} ({place}): {error}"
