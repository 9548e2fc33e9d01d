"""All call sites of a machine: their places, compiled text and present text."""

from __future__ import annotations

from dataclasses import dataclass

from ..ftrace.ftrace import Ftrace
from ..ftrace.records import Flag
from ..ftrace.state import ENABLED, FAILED, NOP
from ..machine.memory import Memory


@dataclass(frozen=True, slots=True)
class TableRow:
    """One call site."""

    ip: int
    name: str
    module: str | None
    """Name of its module; None for the kernel."""
    compiled: bytes
    now: bytes
    state: str
    """`NOP`, `ENABLED` or `FAILED`."""


def site_rows(ftrace: Ftrace, memory: Memory) -> list[TableRow]:
    """Return every call site, in the order of available_filter_functions."""
    records = ftrace.records
    width = records.compiled.shape[1]
    now, _ = memory.gather(records.table["ip"], width)
    lengths = ftrace.port.lengths(records.sites(slice(None))).tolist()
    enabled = records.flagged(Flag.ENABLED).tolist()
    failed = records.table["failed"].tolist()
    return [
        TableRow(
            ip,
            name,
            module,
            records.compiled[row, : lengths[row]].tobytes(),
            now[row, : lengths[row]].tobytes(),
            FAILED if failed[row] else ENABLED if enabled[row] else NOP,
        )
        for row, (ip, name, module) in enumerate(
            zip(records.table["ip"].tolist(), records.names, records.module_names(), strict=True)
        )
    ]
