"""`ftrace_bug`: what the kernel prints when text is not what ftrace left there.

The lines are those of `ftrace_bug()` in Linux 6.1: what failed and where, the bytes found
and expected, the step, and the state of the record. The explanation of the port comes
first, as the architecture's message does in the kernel.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from ..arch import ModuleStub, Port
from ..errors import FtraceBug, FtraceBugType
from ..kernel.kallsyms import Kallsyms
from .records import Flag

RULE = "------------[ ftrace bug ]------------"


def reported(
    bug: FtraceBug,
    type: FtraceBugType,
    kallsyms: Kallsyms,
    flags: int,
    users: int,
    target: int,
    trampoline: str = "",
) -> FtraceBug:
    """Return the bug with its symbol and the lines for dmesg.

    `flags` and `users` are the record's, `target` is the address that its call should
    reach, `trampoline` the text about that address if it is the trampoline of one ops.
    """
    symbol = kallsyms.format(bug.ip)
    lines = [bug.reason] if bug.reason else []
    lines += [RULE, f"{bug.failure} ", f"[<{bug.ip:08x}>] {symbol}"]
    if bug.errno == errno.EINVAL and bug.found != bug.expected:
        lines.append(f" actual:   {_bytes(bug.found)}")
        if bug.expected:
            lines.append(f" expected: {_bytes(bug.expected)}")
    if bug.address != bug.ip:
        lines.append(f" at:       [<{bug.address:08x}>] {kallsyms.format(bug.address)}")
    lines += [
        type.value,
        f"ftrace record flags: {flags:x}",
        f" ({users}){' R' if flags & Flag.REGS else '  '}{trampoline}",
        f" expected tramp: {target:x}",
    ]
    return FtraceBug(
        bug.ip,
        errno=bug.errno,
        type=type,
        expected=bug.expected,
        found=bug.found,
        address=bug.address,
        symbol=symbol,
        reason=bug.reason,
        report=tuple(lines),
    )


def with_callees(
    found: FtraceBug,
    port: Port,
    name: Callable[[int], str],
    target: Callable[[int], int | None] = lambda address: None,
) -> FtraceBug:
    """Return `found` with a reason that names the wrong and the right target of a call.

    `name` returns a name for the code at an address, `target` where the stub at an address
    leads, None if there is no stub. A call of a wrong stub has the kernel's message.
    """
    calls, shall = (port.call_target(found.ip, text) for text in (found.found, found.expected))
    if found.address != found.ip or calls is None or shall is None or calls == shall:
        return found
    reason = f"{found.reason}, " if found.reason else ""
    leads, wanted = target(calls), target(shall)
    if leads is not None and wanted is not None and leads != wanted:
        reason = f"addr {leads:x} does not match expected {wanted:x}: "
    reason += f"it calls {name(calls)} and not {name(shall)}"
    return FtraceBug(
        found.ip,
        errno=found.errno,
        expected=found.expected,
        found=found.found,
        reason=reason,
    )


def callee_name(address: int, kallsyms: Kallsyms) -> str:
    """Return the name of the function at `address`, or symbol and offset inside a function."""
    symbol = kallsyms.lookup(address)
    at_start = symbol is not None and symbol.address == address
    return symbol.name if symbol is not None and at_start else kallsyms.format(address)


def stub_name(stub: ModuleStub, target: int | None, kallsyms: Kallsyms) -> str:
    """Return the name of a module's stub and of its current `target`."""
    leads = "nowhere" if target is None else f"to {callee_name(target, kallsyms)}"
    return f"{callee_name(stub.address, kallsyms)} (leads {leads})"


def _bytes(raw: bytes) -> str:
    """Format bytes as the kernel prints an instruction: `e8:00:00:00:00`."""
    return raw.hex(":")
