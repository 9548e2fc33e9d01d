"""A change of users is one transaction: refused, it leaves text, users and files as they were."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dynftrace.core.errors import FtraceBug
from dynftrace.core.ftrace.entry import GRAPH_CALL, REGION
from dynftrace.core.session.session import Session

from ...support.booted import boot

Sh = Callable[[str], str]

FILES = (
    "current_tracer",
    "function_profile_enabled",
    "trace",
    "trace_options",
    "set_ftrace_pid",
    "set_event",
    "/proc/sys/kernel/stack_tracer_enabled",
)

NOP, GRAPH = "echo nop > current_tracer", "echo function_graph > current_tracer"
PROFILE = "echo 1 > function_profile_enabled"
STACK = "echo 1 > /proc/sys/kernel/stack_tracer_enabled"
FUNCTION = "echo 'f:fire schedule' > dynamic_events; echo function > current_tracer; run boot"
TRAMPOLINE_SLOT = "the slot of a trampoline"


def state(session: Session) -> dict[str, object]:
    """Return the text of the machine, what ftrace knows of it, and the files that show it."""
    boot = session.boot
    image = boot.image.section(".text")
    assert image is not None
    text = boot.machine.memory.read(image.address, image.size)
    entry = boot.ftrace.entry
    files = {name: "".join(boot.tracefs.read(name)) for name in FILES}
    files["trace"] = "".join(x for x in files["trace"].splitlines() if x[:1] != "#")
    return {
        **files,
        "text": text,
        "entry": boot.machine.memory.read(entry.address, len(entry.code)),
        "code": [each.name for each in boot.machine.memory.regions if each.executable],
        "flags": boot.ftrace.records.table["flags"].tolist(),
        "ops": [(each, each.func, each.filter_hash, each.notrace_hash) for each in boot.ftrace.ops],
        "slots": (boot.ftrace.slot, boot.ftrace.graph, boot.ftrace.patcher.method),
    }


@pytest.mark.parametrize(
    ("setup", "refusals"),
    [
        ("", [(GRAPH_CALL, GRAPH), (GRAPH_CALL, PROFILE), ("schedule", STACK)]),
        (
            FUNCTION,
            [
                *((GRAPH_CALL, GRAPH), ("schedule", GRAPH), ("schedule", NOP)),
                ("schedule", "echo kfree > set_ftrace_filter"),
                ("schedule", "echo kfree:traceoff > set_ftrace_filter"),
                ("ftrace_call", "echo 1 > options/func_stack_trace"),
                ("schedule", "echo 0 > options/function-trace"),
                ("ftrace_call", "echo 1 > set_ftrace_pid"),
                *(("ftrace_regs_call", STACK), ("schedule", "echo 1 > events/fprobes/enable")),
            ],
        ),
        (
            f"{FUNCTION}; echo 1 > events/fprobes/enable; {STACK}",
            [
                ("schedule", "echo 0 > events/fprobes/enable"),
                ("kfree", f"{STACK}".replace("1", "0")),
                *((GRAPH_CALL, GRAPH), (TRAMPOLINE_SLOT, "echo 1 > set_ftrace_pid")),
            ],
        ),
        (GRAPH, [(GRAPH_CALL, NOP), ("kfree", "echo kfree > set_ftrace_notrace")]),
        (PROFILE, [("schedule", PROFILE.replace("1", "0"))]),
    ],
)
def test_a_refused_command_changes_nothing(
    session: Session, sh: Sh, setup: str, refusals: list[tuple[str, str]]
) -> None:
    sh(setup)
    ftrace = session.boot.ftrace
    for place, command in refusals:
        ftrace.settle()  # the CPUs run only where the text is whole
        address = session.address_of(place) if place != TRAMPOLINE_SLOT else _slot(session)
        kept = session.poke(address, b"\x0f\x1f\x00")
        before = state(session)
        text, path = command.removeprefix("echo ").split(" > ")
        with pytest.raises(FtraceBug):
            session.boot.tracefs.write(path, text + "\n")
        assert ftrace.disabled and state(session) == before, command
        session.poke(address, kept)
        ftrace.text.disabled = False  # revived, to save a boot
    sh(f"{NOP}; echo 0 > function_profile_enabled; run boot")


def _slot(session: Session) -> int:
    """Return the address of the slot of the function tracer's trampoline."""
    ftrace = session.boot.ftrace
    assert ftrace.trampolines is not None
    own = ftrace.trampolines.of(ftrace.ops)
    return next(each.slot for each in own if each.ops is session.boot.array.ops)


def test_in_2008_the_call_in_mcount_is_verified_before_sites_change() -> None:
    guest = boot("x86_64-2008")
    assert guest.ftrace.ftraced is not None
    ops = guest.counter()
    guest.ftrace.register(ops)
    guest.machine.memory.write(guest.ftrace.ftraced.slot, b"\x90")
    text, entry = guest.text(), guest.machine.memory.region(REGION).bytes.copy()
    with pytest.raises(FtraceBug):
        guest.ftrace.unregister(ops)
    assert guest.text() == text and (guest.machine.memory.region(REGION).bytes == entry).all()
    assert guest.ftrace.ops == [ops] and guest.ftrace.ftraced.suspended
