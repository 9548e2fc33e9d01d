"""The porting guide as code: what a port owes, tried on any port.

The headings are those of the kernel's guide (Documentation/trace/ftrace-design.rst).
Encoders are held against the port's own images and the disassembler, entry code is
run on a bare engine, and what a user sees is tried at a shell.

    check.py      what a check is, and what comes of it
    subject.py    the port that is looked at: its images, sites and entry code
    bench.py      a bare engine; user.py: a shell
    machine.py records.py patches.py entrycode.py tracing.py modules.py graph.py
    syscalls.py trampolines.py
                  the checks
    report.py     the list
"""

from __future__ import annotations

from collections.abc import Iterator

from ..arch import Port
from . import entrycode, graph, machine, modules, patches, records, syscalls, tracing, trampolines
from .check import Check
from .outcome import Failed, NotProvided, Outcome, Passed
from .report import objects, ordered, report_lines
from .subject import PortUnderTest

CHECKS = ordered(
    [
        *(*machine.CHECKS, *records.CHECKS, *entrycode.CHECKS, *patches.CHECKS),
        *(*tracing.CHECKS, *modules.CHECKS, *graph.CHECKS, *syscalls.CHECKS),
        *trampolines.CHECKS,
    ]
)
"""All of them, in the order of the guide; names are unique."""


def check_port(port: Port) -> Iterator[tuple[Check, Outcome]]:
    """Try everything on `port`, one check after the other."""
    subject = PortUnderTest(port)
    for check in CHECKS:
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
    "objects",
    "report_lines",
]
