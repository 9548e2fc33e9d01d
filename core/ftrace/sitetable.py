"""The table of call sites, as text, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass

from ..machine.memory import Memory
from .ftrace import Ftrace
from .records import Flag

NOP, ENABLED, FAILED = "nop", "enabled", "failed"


@dataclass(frozen=True, slots=True)
class SiteRow:
    """A call site: where, what the compiler left there, what is there now."""

    ip: int
    name: str
    module: str | None
    compiled: bytes
    now: bytes
    state: str
    """nop, enabled, or failed after ftrace refused to change it."""


def site_rows(ftrace: Ftrace, memory: Memory) -> list[SiteRow]:
    """Return every call site, in the order of available_filter_functions."""
    records = ftrace.records
    width = records.compiled.shape[1]
    now, _ = memory.gather(records.table["ip"], width)
    lengths = ftrace.port.lengths(records.sites(slice(None))).tolist()
    enabled = records.flagged(Flag.ENABLED).tolist()
    failed = records.table["failed"].tolist()
    return [
        SiteRow(
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


def as_text(rows: list[SiteRow]) -> str:
    """Columns with a header."""
    head = ("ADDRESS", "NAME", "MODULE", "COMPILED", "NOW", "STATE")
    cells = [
        (f"{r.ip:x}", r.name, r.module or "-", r.compiled.hex(" "), r.now.hex(" "), r.state)
        for r in rows
    ]
    widths = [max(len(row[column]) for row in [head, *cells]) for column in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [head, *cells]
    ]
    return "\n".join([*lines, ""])


def as_json(rows: list[SiteRow]) -> str:
    """A list of objects; addresses and bytes as strings of hex digits, module null for none."""
    return json.dumps([_fields(row) for row in rows], indent=1) + "\n"


def as_csv(rows: list[SiteRow]) -> str:
    """Comma-separated values, RFC 4180, with a header."""
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(
        stream, ("address", "name", "module", "compiled", "now", "state"), lineterminator="\r\n"
    )
    writer.writeheader()
    writer.writerows(_fields(row) for row in rows)
    return stream.getvalue()


def _fields(row: SiteRow) -> dict[str, str | None]:
    return {
        "address": f"0x{row.ip:x}",
        "name": row.name,
        "module": row.module,
        "compiled": row.compiled.hex(),
        "now": row.now.hex(),
        "state": row.state,
    }
