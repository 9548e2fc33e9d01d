"""`ftrace_bug`: what the kernel prints when text is not what ftrace left there.

The lines are those of `ftrace_bug()` in Linux 6.1: what could not be done and
where, the bytes found and expected, which step it was, and the record's state.
Before them comes what the architecture's own code has to say, as there.
"""

from __future__ import annotations

import errno
from enum import Enum

from ..errors import FtraceBug
from ..kallsyms import Kallsyms
from .records import Flag

RULE = "------------[ ftrace bug ]------------"


class Step(Enum):
    """What ftrace was doing, in the kernel's words."""

    INIT = "Initializing ftrace call sites"
    NOP = "Setting ftrace call site to NOP"
    CALL = "Setting ftrace call site to call ftrace function"
    UPDATE = "Updating ftrace call site to call a different ftrace function"


_FAILED = {
    errno.EFAULT: "ftrace faulted on modifying ",
    errno.EINVAL: "ftrace failed to modify ",
    errno.EPERM: "ftrace faulted on writing ",
}


def reported(
    bug: FtraceBug, step: Step, kallsyms: Kallsyms, flags: int, users: int, target: int
) -> FtraceBug:
    """The same bug with its symbol and the lines for dmesg.

    `flags` and `users` are the record's; `target` is what its call would reach.
    """
    symbol = kallsyms.format(bug.ip)
    lines = [bug.reason] if bug.reason else []
    lines += [RULE, _FAILED[bug.errno], f"[<{bug.ip:08x}>] {symbol}"]
    if bug.errno == errno.EINVAL and bug.found != bug.expected:
        lines.append(f" actual:   {_bytes(bug.found)}")
        if bug.expected:
            lines.append(f" expected: {_bytes(bug.expected)}")
    if bug.address != bug.ip:
        lines.append(f" at:       [<{bug.address:08x}>] {kallsyms.format(bug.address)}")
    lines += [
        step.value,
        f"ftrace record flags: {flags:x}",
        f" ({users}){' R' if flags & Flag.REGS else '  '}",
        f" expected tramp: {target:x}",
    ]
    return FtraceBug(
        bug.ip,
        errno=bug.errno,
        expected=bug.expected,
        found=bug.found,
        address=bug.address,
        symbol=symbol,
        reason=bug.reason,
        report=tuple(lines),
    )


def _bytes(raw: bytes) -> str:
    """Bytes as the kernel prints an instruction: `e8:00:00:00:00`."""
    return raw.hex(":")
