"""The flow of commands whose output is hashed, and the hashes that it must have.

Everything here is deterministic except what it measures: host, Python, PYTHONHASHSEED, clock.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from dynftrace import arches
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

HASHES = Path(__file__).with_name("traces.txt")
"""The committed hashes: port, number of CPUs, SHA-256 of the output."""

COMMANDS = (
    "insmod usbcore; run usb; sleep 1",
    "echo 'vfs_*' schedule usb_alloc_dev > set_ftrace_filter",
    "echo function > current_tracer; run syscalls; cat trace",
    "echo function_graph > current_tracer; run usb; cat trace",
    "echo nop > current_tracer; until vfs_read syscalls; step 5; regs; dmesg; lsmod",
)
"""Both tracers, a module, workloads, stepping. Files, not screens: those have goldens."""


def digest(arch: str, cpus: int, native_clock: bool | None = None) -> str:
    """Return the SHA-256 of all output of `COMMANDS` and of the time at their end."""
    session = Session.open(arches.load(arch), MachineSpec(cpus=cpus, native_clock=native_clock))
    shell, seen = Shell(session), hashlib.sha256()
    for commands in COMMANDS:
        outcome = shell.execute(commands)
        seen.update(f"{outcome.output}\0{outcome.error}\0{session.now}\0".encode())
    return seen.hexdigest()


def committed() -> dict[tuple[str, int], str]:
    """Return the hashes in `HASHES`, by port and number of CPUs."""
    found = {}
    for line in HASHES.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            arch, cpus, value = line.split()
            found[arch, int(cpus)] = value
    return found
