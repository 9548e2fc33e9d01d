"""The porting guide as code: checks of a port's duties, for any port.

The headings are those of the kernel's guide (Documentation/trace/ftrace-design.rst). The checks
compare encoders with the port's own images and the disassembler, run entry code on a bare
engine, and run commands at a shell, as a user does.

    check.py      checks and how they are run; outcome.py: their outcomes
    subject.py    the port under test: its images, sites and entry code
    bench.py      a bare engine; user.py: a shell
    traced.py     a traced call on a bare engine; damage.py: damaged text
    machine.py records.py patches.py reach.py entrycode.py tracing.py modules.py
    relocs.py graph.py syscalls.py trampolines.py nmi.py
                  the checks
    report.py     the list of outcomes
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..arch import Port
from ..errors import UsageError
from . import (
    entrycode,
    graph,
    machine,
    modules,
    nmi,
    patches,
    reach,
    records,
    relocs,
    syscalls,
    tracing,
    trampolines,
)
from .check import Check
from .outcome import Failed, NotProvided, Outcome, Passed
from .report import objects, ordered, report_lines
from .subject import PortUnderTest

CHECKS = ordered(
    [
        *(*machine.CHECKS, *records.CHECKS, *entrycode.CHECKS, *patches.CHECKS, *reach.CHECKS),
        *(*tracing.CHECKS, *modules.CHECKS, *relocs.CHECKS, *graph.CHECKS, *syscalls.CHECKS),
        *(*trampolines.CHECKS, *nmi.CHECKS),
    ]
)
"""All checks, in the order of the guide; their names are unique."""


def checks_of(words: str) -> tuple[Check, ...]:
    """Return the checks whose heading or name contains `words`, in any case.

    Raises `UsageError` if there are none.
    """
    wanted = words.casefold()
    found = tuple(
        check for check in CHECKS if wanted in f"{check.heading}\n{check.name}".casefold()
    )
    if not found:
        reason = f"no check has {words!r} in its name or heading"
        raise UsageError(f"{reason}: run `port check` without --only to see all")
    return found


def check_port(port: Port, checks: Iterable[Check] = CHECKS) -> Iterator[tuple[Check, Outcome]]:
    """Run `checks` on `port`, one after the other."""
    subject = PortUnderTest(port)
    for check in checks:
        yield check, check.run(subject)


__all__ = [
    "CHECKS",
    "Check",
    "Failed",
    "NotProvided",
    "Outcome",
    "Passed",
    "PortUnderTest",
    "check_port",
    "checks_of",
    "objects",
    "report_lines",
]
