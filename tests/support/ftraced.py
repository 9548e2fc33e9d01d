"""The kernel of 2008 and its image, for tests of how its sites are found."""

from __future__ import annotations

import numpy as np

from dynftrace import arches
from dynftrace.core.ftrace.sites import calls_of_mcount
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

ARCH = "x86_64-2008"


def machine(**options: object) -> Session:
    return Session.open(arches.load(ARCH), MachineSpec(**options))  # type: ignore[arg-type]


def sh(session: Session, commands: str) -> str:
    outcome = Shell(session).execute(commands)
    assert (outcome.error, outcome.status) == ("", 0), commands
    return outcome.output


def total(session: Session) -> int:
    return int(session.boot.tracefs.read("dyn_ftrace_total_info"))


def address(session: Session, name: str) -> int:
    found = session.boot.kallsyms.address(name)
    assert found is not None
    return found


def word(session: Session, name: str, size: int = 4) -> int:
    return session.boot.machine.memory.read_int(address(session, name), size)


def mcount_calls(session: Session) -> str:
    """Return the name of the function that mcount's bytes call."""
    at = address(session, "mcount_call")
    target = session.port.call_target(at, session.boot.machine.memory.read(at, 5))
    assert target is not None
    symbol = session.boot.kallsyms.lookup(target)
    assert symbol is not None and symbol.address == target
    return symbol.name


def site_of(session: Session, function: str) -> int:
    """Find in the image where a function of the kernel calls mcount."""
    sites = calls_of_mcount(session.port, session.image, lambda a, n: text_of(session, a, n))
    start = address(session, function)
    return int(sites[np.searchsorted(sites, start)])


def text_of(session: Session, at: int, size: int) -> bytes:
    text = session.image.read(at, size)
    assert text is not None
    return text.tobytes()
