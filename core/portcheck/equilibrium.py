"""Kernels whose call sites are found at run time: run them until no more sites are found."""

from __future__ import annotations

from ..session.session import Session


def reach(session: Session) -> None:
    """Run workloads until no more sites are found.

    Does nothing if a table lists the sites. Converts sites at once, instead of waiting for ftraced
    to wake.
    """
    if session.boot.ftrace.ftraced is None:
        return
    tracer = session.boot.array.tracer
    _find_all(session)
    session.boot.tracefs.write("current_tracer", tracer)


def reach_with_modules(session: Session) -> None:
    """Call `reach`, and find the sites that loading usbcore and usbhub runs into."""
    if session.boot.ftrace.ftraced is None:
        return
    reach(session)  # allocates the slots that the modules need
    for name in ("usbcore", "usbhub"):
        session.insmod(name)
    tracer = session.boot.array.tracer
    _find_all(session)
    for name in ("usbhub", "usbcore"):
        session.rmmod(name)
    _find_all(session)
    session.boot.tracefs.write("current_tracer", tracer)


def _find_all(session: Session) -> None:
    """Run workloads, with no tracer, until a round of them finds no more sites."""
    ftraced = session.boot.ftrace.ftraced
    assert ftraced is not None
    session.boot.tracefs.write("current_tracer", "nop")
    before = -1
    while len(session.boot.ftrace.records) != before:
        before = len(session.boot.ftrace.records)
        for workload in ("boot", "syscalls", "usb", "locks"):
            session.run_workload(workload)
        ftraced.collect()
        session.call("ftrace_shutdown_replenish")
