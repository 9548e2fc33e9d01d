"""A port's entry code without the tracer: what it calls of that lies in the next page."""

from __future__ import annotations

from dynftrace.core.arch import EntryCode, Port
from dynftrace.core.asm.assemble import assemble

CALLED = {
    "prepare_ftrace_return": 0x1F00,
    "prepare_ftrace_return_mips": 0x1F40,
    "ftrace_return_to_handler": 0x1F80,
}
"""Functions of the tracer that entry code calls by name, and their places behind it."""


def entry_code(port: Port, at: int | None = None) -> EntryCode:
    """entry.S assembled for `at`, by default where the port has it."""
    base = port.facts.map.tracer if at is None else at

    def place(name: str) -> int | None:
        return base + CALLED[name] if name in CALLED else None

    return assemble(port.facts, port.entry_source(), base, place)
