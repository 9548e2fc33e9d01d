"""Checks of NMIs: functions that they call can be traced, also while text changes.

The kernel's guide says: if you can't trace NMI functions, then skip this option. With the
option, ftrace_nmi_enter() completed the text that was being written. Later kernels write a
breakpoint first, or write a site in one piece.
"""

from __future__ import annotations

from ..machine.interrupt import NMI_ENTRY
from ..session.session import MachineSpec
from .check import NMI_ENTER, check
from .outcome import Absent, expect
from .subject import PortUnderTest
from .user import User

HANDLER = "nmi_handle"
"""The first function of the kernel's handler that is traced."""

WHOLE = ("breakpoint", "nmi_enter")
"""Patch methods with which an NMI never executes half a site."""


@check(NMI_ENTER, "nmi", "NMIs are traced, also in the middle of a change")
def nmi(subject: PortUnderTest) -> None:
    facts = subject.port.facts
    method = next((each for each in WHOLE if each in facts.patch_methods), facts.patch_methods[0])
    user = User(subject, MachineSpec(patch=method, cpus=1))
    boot = user.session.boot
    if boot.kallsyms.address(NMI_ENTRY) is None:
        raise Absent(f"the kernel has no {NMI_ENTRY}")
    handler = user.prefix + HANDLER
    if handler not in boot.ftrace.records.names:
        raise Absent(f"{handler} has no call site: NMI functions are not traced")
    user(f"echo {handler} > set_ftrace_filter; nmi 0 change; echo function > current_tracer")
    user.alive()
    user("echo > trace")
    before = boot.machine.vcpus[0].interrupts.nmis
    user("nmi 0 every 50000; run syscalls; nmi 0 off")
    user.alive()
    nmis = boot.machine.vcpus[0].interrupts.nmis - before
    traced = len(user.events())
    expect(nmis > 0, "no NMI was delivered")
    expect(traced == nmis, f"{nmis} NMIs were delivered, and {traced} were traced")


CHECKS = (nmi,)
