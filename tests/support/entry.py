"""A port's entry code without the tracer; the tracer's symbols are in the next page."""

from __future__ import annotations

from dynftrace.core.arch import EntryCode, Port
from dynftrace.core.ftrace import entry_code as built

CALLED = {
    "prepare_ftrace_return": 0x1F00,
    "prepare_ftrace_return_mips": 0x1F40,
    "ftrace_return_to_handler": 0x1F80,
}
"""The tracer's functions that entry code calls, and their offsets after the code."""


def entry_code(port: Port, at: int | None = None) -> EntryCode:
    """Return the entry code for `at`, by default the port's own address."""
    base = port.facts.map.tracer if at is None else at

    def place(name: str) -> int | None:
        return base + CALLED[name] if name in CALLED else None

    return built.entry_code(port, base, place)
