"""Machines of earlier boots are freed, whatever the collector's own rules are."""

from __future__ import annotations

import gc
import weakref

from dynftrace import arches
from dynftrace.core.session.session import DEAD_MACHINES, MachineSpec, Session


def test_old_machines_are_freed_after_a_few_reboots() -> None:
    session = Session.open(arches.load(arches.DEFAULT), MachineSpec(cpus=1, boot=False))
    machines = weakref.WeakSet([session.boot.machine])
    gc.disable()
    try:
        for _ in range(3 * DEAD_MACHINES):
            session.reboot()
            machines.add(session.boot.machine)
    finally:
        gc.enable()
    assert len(machines) <= DEAD_MACHINES
