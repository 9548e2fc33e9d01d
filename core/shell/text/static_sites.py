"""Call sites of files as text and JSON: `dynftrace sites FILE`, `site`, `records` and `diff`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from ...ftrace.static_sites import Difference, StaticSite, StaticSites
from ...views.cells import cells, padded


def about(table: StaticSites) -> list[str]:
    """Return lines about the file, and the source of its sites and symbols."""
    image = table.image
    dead = sum(site.dead for site in table.sites)
    unpacked = f" ({', '.join(image.steps)})" if image.steps else ""
    return [
        f"file     {image.path.name}{unpacked}",
        f"arch     {image.facts.name}",
        f"symbols  {len(image.symbols)} from {image.symbols_from or 'nowhere'}",
        f"sites    {len(table.sites)}" + (f", {dead} of them in dead code" if dead else ""),
        f"list     {table.source}",
    ]


def sites_text(table: StaticSites) -> Iterator[str]:
    """Yield a table of all sites."""
    head = ("ADDRESS", "NAME", "OFFSET", "TEXT", "FORM")
    rows = [head, *(_cells(site) for site in table.sites)]
    widths = [max(cells(row[column]) for row in rows) for column in range(len(head))]
    for row in rows:
        parts = (padded(cell, width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(parts).rstrip()


def _cells(site: StaticSite) -> tuple[str, ...]:
    where = site.place or f"{site.ip:x}"
    return where, site.name, f"+{site.offset:#x}", site.text.hex(" "), site.form


def records_text(table: StaticSites) -> Iterator[str]:
    """Yield the source and size of the list, and the forms of its sites by frequency."""
    yield from about(table)
    yield ""
    for what, counted in (
        ("form", Counter(site.form for site in table.sites if not site.dead)),
        ("offset", Counter(f"+{site.offset:#x}" for site in table.sites if not site.dead)),
    ):
        yield f"{'SITES':>7}  {what.upper()}"
        shown = counted.most_common(12)
        for text, count in shown:
            yield f"{count:7}  {text}"
        left = counted.total() - sum(count for _, count in shown)
        if left:
            yield f"{left:7}  others ({len(counted) - len(shown)} kinds)"
        yield ""


def site_text(table: StaticSites, found: Sequence[StaticSite]) -> Iterator[str]:
    """Yield the details of each of the sites `found`."""
    number = {site.ip: row for row, site in enumerate(table.sites)}
    for site in found:
        yield f"{site.name}+{site.offset:#x}  {site.place or f'{site.ip:x}'}"
        yield f"  entry    {site.entry:x}, number {number[site.ip]} of {len(table.sites)}"
        yield f"  text     {site.text.hex(' ')}"
        yield f"  form     {site.form}"


def diff_text(found: Difference) -> Iterator[str]:
    """Yield the added, removed and changed sites, and the number of unchanged ones."""
    for site in found.removed:
        yield f"- {site.name}+{site.offset:#x}  {site.form}"
    for site in found.added:
        yield f"+ {site.name}+{site.offset:#x}  {site.form}"
    for old, new in found.changed:
        yield f"~ {old.name}+{old.offset:#x}  {old.form}  ->  +{new.offset:#x}  {new.form}"
    yield (
        f"{len(found.removed)} removed, {len(found.added)} added, {len(found.changed)} changed, "
        f"{found.unchanged} unchanged"
    )


def as_json(value: object) -> str:
    """Return `value` as JSON text."""
    return json.dumps(value, indent=1) + "\n"


def site_object(site: StaticSite) -> dict[str, object]:
    """Return a site as an object for JSON."""
    return {
        "address": f"0x{site.ip:x}",
        "entry": f"0x{site.entry:x}",
        "name": site.name,
        "offset": site.offset,
        "place": site.place or None,
        "text": site.text.hex(),
        "form": site.form,
        "dead": site.dead,
    }


def about_object(table: StaticSites) -> dict[str, object]:
    """Return the facts of `about` as an object for JSON."""
    image = table.image
    return {
        "file": str(image.path),
        "unpacked": list(image.steps),
        "arch": image.facts.name,
        "symbols": len(image.symbols),
        "symbols_from": image.symbols_from or None,
        "sites": len(table.sites),
        "dead": sum(site.dead for site in table.sites),
        "list": table.source,
    }


def diff_object(found: Difference) -> dict[str, object]:
    """Return a difference as an object for JSON."""
    return {
        "removed": [site_object(site) for site in found.removed],
        "added": [site_object(site) for site in found.added],
        "changed": [[site_object(old), site_object(new)] for old, new in found.changed],
        "unchanged": found.unchanged,
    }
