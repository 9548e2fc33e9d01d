"""Kernels whose call sites are found as they run: have them run into what there is."""

from __future__ import annotations

from ..session import Session

SECOND_NS = 1_100_000_000
"""So long that ftraced has been awake once."""


def reach(session: Session) -> None:
    """Run workloads until nothing more is found; does nothing where a table lists the sites.

    The seconds between are left out: what ftraced does in them is done at once.
    """
    ftraced = session.boot.ftrace.ftraced
    if ftraced is None:
        return
    tracer = session.boot.array.tracer
    session.boot.tracefs.write("current_tracer", "nop")
    before = -1
    while len(session.boot.ftrace.records) != before:
        before = len(session.boot.ftrace.records)
        for workload in ("boot", "syscalls", "usb", "locks"):
            session.run_workload(workload)
        ftraced.collect()
        session.call("ftrace_shutdown_replenish")
    session.run(SECOND_NS)
    session.boot.tracefs.write("current_tracer", tracer)


def reach_with_modules(session: Session) -> None:
    """The same with usbcore and usbhub loaded for the time, so that what loads them is found."""
    if session.boot.ftrace.ftraced is None:
        return
    reach(session)  # so that there are slots for what follows
    for name in ("usbcore", "usbhub"):
        session.insmod(name)
    reach(session)
    for name in ("usbhub", "usbcore"):
        session.rmmod(name)
    reach(session)
