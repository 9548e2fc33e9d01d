"""The time spent on turning call sites into nops, as `dyn_ftrace_total_info` shows it.

Linux measures it in `ftrace_update_code()`: at boot, and for each module. No stop_machine() is
needed there, because no CPU executes these sites yet. The host writes them; the CPU on which the
guest waits spends `PLACE_NS` for each site.
"""

from __future__ import annotations

from ..machine.machine import Machine
from ..machine.vcpu import State
from ..memento import Restore, attributes
from .patch import PLACE_NS


class UpdateTimes:
    """The update times of one machine, in virtual ns."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.boot = 0
        """Of the kernel's sites (`ftrace_update_time`)."""
        self.modules = 0
        """Of the sites of all modules so far (`ftrace_total_mod_time`)."""

    def spend(self, cpu: int, places: int) -> int:
        """Have `cpu` spend the time for `places`; return it. A CPU that is off spends none."""
        vcpu = self._machine.vcpus[cpu]
        if vcpu.state in (State.OFF, State.DEAD):
            return 0
        before = vcpu.ticks
        return self._machine.take_time(cpu, places * PLACE_NS) - before

    def save(self) -> Restore:
        """Return a function that restores the times."""
        return attributes(self, "boot", "modules")
