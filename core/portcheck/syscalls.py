"""Checks of the events of system calls."""

from __future__ import annotations

from .check import SYSCALLS, check
from .outcome import Absent, expect
from .subject import PortUnderTest
from .user import User

FOLDER = "events/syscalls"


@check(SYSCALLS, "syscalls", "entry and exit of system calls are traced")
def syscalls(subject: PortUnderTest) -> None:
    user = User(subject)
    tree = user.session.boot.tracefs
    if not tree.exists(FOLDER):
        raise Absent(f"{FOLDER} does not exist")
    names = [name for name in tree.listdir(FOLDER) if name.startswith("sys_")]
    expect(
        "sys_enter_read" in names and "sys_exit_read" in names, f"{FOLDER} has no sys_enter_read"
    )
    for way in ("enter", "exit"):
        user(f"echo 1 > {FOLDER}/sys_{way}_read/enable")
    user("run syscalls")
    events = [line.partition(": ")[2] for line in user.events()]
    entered = sum(event.startswith("sys_read(") for event in events)
    left = sum(event.startswith("sys_read -> ") for event in events)
    expect(entered, "the trace has no entry of sys_read")
    expect(left, "the trace has no exit of sys_read")
    user.alive()


CHECKS = (syscalls,)
