"""Restoring a checkpoint: the machine and the host's data about it."""

from __future__ import annotations

from dynftrace import arches
from dynftrace.core.session import checkpoint
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell


def looks(session: Session) -> list[object]:
    """Return everything a checkpoint keeps, as a user sees it."""
    boot = session.boot
    files = ("trace", "enabled_functions", "set_ftrace_filter", "available_filter_functions_addrs")
    return [
        *(boot.tracefs.read(name) for name in files),
        [module.name for module in boot.modules.loaded],
        boot.kallsyms.address("usb_ifnum_to_if"),
        [(vcpu.ticks, vcpu.registers.read()) for vcpu in boot.machine.vcpus],
        [region.bytes.tobytes() for region in boot.machine.memory.regions],
        (boot.stepper.steps, boot.stepper.last),
        boot.machine.dmesg.text(),
    ]


def test_a_restored_checkpoint_repeats_the_same_session() -> None:
    session = Session.open(arches.load(arches.DEFAULT))
    shell = Shell(session)
    shell.execute("echo function > current_tracer; run boot")
    before, moment = looks(session), checkpoint.save(session.boot)
    flow = (
        "insmod usbcore; echo schedule 'usb*' > set_ftrace_filter; echo kfree:dump >> "
        "set_ftrace_filter; run syscalls; until vfs_read syscalls; step 3 1"
    )
    assert shell.execute(flow).status == 0
    after = looks(session)
    for _ in range(2):
        checkpoint.restore(session.boot, moment)
        assert looks(session) == before != after
        assert shell.execute(flow).status == 0
        assert looks(session) == after
