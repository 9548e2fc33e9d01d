"""The lists of call sites as plain text: what `records` prints."""

from __future__ import annotations

from ...ftrace.records import Records
from ...ftrace.sites import PATTERN
from ...views.cells import cells, padded
from ...views.listings import Entry, Listing
from ...views.recording import Call, FirstChange, Recording

_MADE = {
    True: "left by the compiler in ",
    False: "made from the compiler's assembly, by sed, in ",
    None: "in ",
}


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
        ip = entry.value if entry.row is None else int(records.table["ip"][entry.row])
        if ip != entry.value:
            by = f"ftrace_call_adjust: {ip - entry.value:+#x}"
            lines.append(f"    rec.ip      {ip:0{digits}x}  {by}")
        name = "none" if entry.row is None else records.names[entry.row]
        lines.append(f"    record      {name}")
        mod = 0 if entry.row is None else int(records.table["mod"][entry.row])
        if mod:
            module = f"struct module of {records.module_of(entry.row or 0)}"
            lines.append(f"    arch.mod    {mod:0{digits}x}  {module}")
            for word, address in records.tramps(entry.row or 0):
                lines.append(f"    its stub    {address:0{digits}x}  read from {word:x}")
    return lines


def _heading(shown: Listing) -> list[str]:
    gathered = [] if shown.section == shown.compiled else [f"gathered in {shown.section}"]
    return [
        f"{shown.file}: {shown.count} entries of {shown.word} bytes at {shown.address:x}",
        _MADE[shown.by_compiler] + shown.compiled,
        *gathered,
        # Lists found by symbols or sections are the usual case, not worth a line.
        *([f"found by {shown.source}"] if shown.source.startswith(PATTERN) else []),
    ]


def _record(entry: Entry, records: Records) -> str:
    """Return the function of an entry's record, and its ip if that differs from the entry."""
    if entry.row is None:
        return "none"
    ip = int(records.table["ip"][entry.row])
    name = records.names[entry.row]
    return name if ip == entry.value else f"{name} at {ip:x}"


def recording_lines(found: Recording, shown: Listing | None, change: FirstChange) -> list[str]:
    """Return how recordmcount finds a file's sites, and the text that ftrace first compared."""
    lines = _heading(shown) if shown is not None else [f"{found.file}: no list of call sites"]
    count = len(found.calls)
    calls = f"{count} call{'' if count == 1 else 's'} of {found.mcount}"
    if not count:
        lines.append(
            f"recordmcount finds no call of {found.mcount}: only the compiler knows its nops"
        )
    elif found.linked:
        lines.append(f"objdump -d shows {calls}; {found.listed} have a record")
    else:
        lines.append(f"objdump -dr shows {calls}; {found.listed} have a record")
    if not change.sites:
        return lines
    if change.compared:
        by = f", {change.by_stub} through a stub" if change.by_stub else ""
        compared = f"{change.compared} of {change.sites} sites"
        lines.append(f"the first make_nop compares {compared} with a call of MCOUNT_ADDR{by}")
    else:
        lines.append("ftrace_init_nop compares sites with nops, not with a call of MCOUNT_ADDR")
    return lines


def call_lines(call: Call | None) -> list[str]:
    """Return the steps by which recordmcount makes the entry of a site."""
    if call is None:
        return ["    objdump -hdr  no relocation of a call: the file is linked, or has nops"]
    place = f"{call.section}+{call.offset:#x}"
    return [
        f"    objdump -hdr  {place}: {call.relocation}",
        f"    in function   {call.function}",
        f"    its word      {call.first}{call.distance:+#x}, the first function of {call.section}",
    ]
