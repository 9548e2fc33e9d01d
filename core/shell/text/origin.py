"""The compiler's list of call sites as plain text: what `records` prints."""

from __future__ import annotations

from ...ftrace.records import Records
from ...views.cells import cells, padded
from ...views.listings import Entry, Listing


def listing_lines(shown: Listing, records: Records) -> list[str]:
    """Return the heading of a list and a line for each entry; hex without leading zeros."""
    body = [
        (
            f"[{entry.number}]",
            f"{entry.stored:x}",
            entry.relocation,
            f"{entry.value:x}",
            _record(entry, records),
        )
        for entry in shown.entries
    ]
    head = ("", "in file", "relocation", "in memory", "record")
    keep = [n for n in range(len(head)) if n != 2 or any(row[2] for row in body)]
    widths = [max(cells(row[n]) for row in [head, *body]) for n in keep]
    lines = _heading(shown)
    for row in [head, *body] if body else []:
        columns = [padded(row[n], width) for n, width in zip(keep, widths, strict=True)]
        lines.append("  ".join([row[0].rjust(widths[0]), *columns[1:]]).rstrip())
    return lines


def entry_lines(shown: Listing, records: Records) -> list[str]:
    """Return the heading of a list and several lines for each of its entries."""
    digits = 2 * shown.word
    lines = _heading(shown)
    for entry in shown.entries:
        lines.append(f"  entry [{entry.number}] at {entry.place:x}")
        lines.append(f"    in file     {entry.stored:0{digits}x}")
        if entry.relocation:
            lines.append(f"    relocation  {entry.relocation}")
        lines.append(f"    in memory   {entry.value:0{digits}x}")
        lines.append(f"    record      {_record(entry, records)}")
    return lines


def _heading(shown: Listing) -> list[str]:
    gathered = [] if shown.section == shown.compiled else [f"gathered in {shown.section}"]
    return [
        f"{shown.file}: {shown.count} entries of {shown.word} bytes at {shown.address:x}",
        f"left by the compiler in {shown.compiled}",
        *gathered,
    ]


def _record(entry: Entry, records: Records) -> str:
    """Return the function of an entry's record, and its ip if that differs from the entry."""
    if entry.row is None:
        return "none"
    ip = int(records.table["ip"][entry.row])
    name = records.names[entry.row]
    return name if ip == entry.value else f"{name} at {ip:x}"
