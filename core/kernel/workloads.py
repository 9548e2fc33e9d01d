"""The workloads of a guest.

The kernel's symbol `workloads` is an array of `struct workload`, a name of 16
bytes and a pointer, terminated by an empty name (arches/guest/include/workload.h).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import MemoryFault, UsageError
from ..machine.memory import Memory
from .kallsyms import Kallsyms

TABLE = "workloads"
NAME_SIZE = 16
MOST = 256
"""Maximum number of entries read: the guest's table may lack its terminator."""


def workload_names(memory: Memory, kallsyms: Kallsyms) -> list[str]:
    """Return the names in the table's order; none for a kernel without a table."""
    address = kallsyms.address(TABLE)
    names: list[str] = []
    if address is None:
        return names
    for row in range(MOST):
        try:
            raw = memory.read(address + row * (NAME_SIZE + memory.pointer_size), NAME_SIZE)
        except MemoryFault:
            break
        raw = raw.split(b"\0")[0]
        # Names go to terminals, and the guest may have any bytes there.
        name = "".join(chr(byte) if 0x20 < byte < 0x7F else f"\\x{byte:02x}" for byte in raw)
        if not name:
            break
        names.append(name)
    return names


def check_workload(name: str, known: Sequence[str]) -> None:
    """Raise `UsageError` unless `name` is one of the workloads that are `known`."""
    if not known:
        raise UsageError(f"unknown workload '{name}': this kernel has no workloads")
    if name not in known:
        raise UsageError(f"unknown workload '{name}' (choose from: {', '.join(known)})")
