"""What a check is, and what comes of it.

A check is a function of a port under test. It returns where the port does what it
owes; it raises `Failure` with the bytes that prove that it does not, or `Absent`
where the port does not have the thing at all. A verb that is not there, or raises
`NotImplementedError`, is absent too: a port is written piece by piece.
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
SYSCALLS = "HAVE_SYSCALL_TRACEPOINTS"

HEADINGS = (
    *(MACHINE, MCOUNT_RECORD, FUNCTION_TRACER, MCOUNT_TEST, DYNAMIC, REGISTERS),
    *(TRAMPOLINES, MODULES, GRAPH, GRAPH_FP, DYNAMIC_GRAPH, SYSCALLS),
)
"""Those of Documentation/trace/ftrace-design.rst in its order, and what lies around them."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing a port owes."""

    name: str
    """Short and stable, such as `make_nop`."""
    heading: str
    """Of the guide; one of `HEADINGS`."""
    title: str
    """What holds where it passes, in one line."""
    function: Callable[[PortUnderTest], None]

    def run(self, port: PortUnderTest) -> Outcome:
        """Try it. Whatever a port does wrong, this returns."""
        try:
            self.function(port)
        except Failure as failure:
            return failure.outcome
        except Absent as absent:
            return NotProvided(str(absent))
        except FtraceBug as bug:
            return Failed(bug.reason or str(bug), bug.address, bug.expected, bug.found)
        except MissingSymbolError as error:
            return NotProvided(f"there is no {error.symbol}")
        except DynftraceError as error:
            return Failed(str(error))
        except Exception as error:
            missing = _missing_verb(error, port.port)
            return Failed(_sentence(error)) if missing is None else NotProvided(missing)
        return Passed()


def check(
    heading: str, name: str, title: str
) -> Callable[[Callable[[PortUnderTest], None]], Check]:
    """Make a check of a function."""
    return lambda function: Check(name, heading, title, function)


def _missing_verb(error: Exception, port: Port) -> str | None:
    """What of the contract is not there yet, if that is what `error` says."""
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
    """An exception nobody foresaw: what, and where in the port's files."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}:{last.lineno}"
    return f"{type(error).__name__} in {last.name} ({place}): {error}"
