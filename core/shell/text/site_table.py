"""The table of call sites as text, JSON or CSV: what `dynftrace sites` prints."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

from ...views.cells import cells, padded
from ...views.site_table import TableRow


def as_text(rows: Sequence[TableRow]) -> str:
    """Return aligned columns with a header."""
    head = ("ADDRESS", "NAME", "MODULE", "COMPILED", "NOW", "STATE")
    body = [
        (f"{r.ip:x}", r.name, r.module or "-", r.compiled.hex(" "), r.now.hex(" "), r.state)
        for r in rows
    ]
    widths = [max(cells(row[column]) for row in [head, *body]) for column in range(len(head))]
    lines = [
        "  ".join(padded(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [head, *body]
    ]
    return "\n".join([*lines, ""])


def as_json(rows: Sequence[TableRow]) -> str:
    """Return a list of objects; addresses and bytes are hex strings, the kernel's module null."""
    return json.dumps([_fields(row) for row in rows], indent=1) + "\n"


def as_csv(rows: Sequence[TableRow]) -> str:
    """Return comma-separated values with a header (RFC 4180)."""
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(
        stream, ("address", "name", "module", "compiled", "now", "state"), lineterminator="\r\n"
    )
    writer.writeheader()
    writer.writerows(_fields(row) for row in rows)
    return stream.getvalue()


def _fields(row: TableRow) -> dict[str, str | None]:
    return {
        "address": f"0x{row.ip:x}",
        "name": row.name,
        "module": row.module,
        "compiled": row.compiled.hex(),
        "now": row.now.hex(),
        "state": row.state,
    }
