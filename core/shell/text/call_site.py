"""Call sites, paths and stubs as plain text: what `site` and `tramp` print.

Lines fit 80 columns for the instructions in kernels, and use no colour. A `*` marks bytes
that changed since they were compiled or loaded, a `!` bytes that ftrace does not expect.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from ...ftrace.state import ENABLED
from ...views.call_site import CallSite, Code, SiteRow, Unrecorded
from ...views.cells import cells, padded
from ...views.path import SITE, Hop
from ...views.stubs import StubView
from ...views.toned import Toned

_WIDTH = 80
"""Columns of a terminal; longer sentences are wrapped."""

_UNRECORDED = {
    Unrecorded.EARLY: "no record: ftrace_init has not run",
    Unrecorded.OFF: "no record: ftrace is off",
    Unrecorded.SUSPENDED: "no record: ftraced finds nothing while functions are traced",
    Unrecorded.NOT_NOTED: "no record: not called since mcount began to note callers, "
    "or no slot was free",
    Unrecorded.STOPPED: "ftraced has noted it, but ftraced_enabled is 0: it makes no nops",
    Unrecorded.NOTED: "ftraced has noted it, and makes it a nop when it wakes",
}
_MARKS = {" ": "", "*": "accent", "!": "bad"}
"""Tones of the marks before an instruction."""

_BOX_WIDTH = 75
"""Columns of a path's instruction: those of a box of the console in such a terminal."""


def site_lines(site: CallSite) -> list[str]:
    """Return the lines of a call site."""
    module = f" [{site.module}]" if site.module else ""
    users = f"{site.users} user" + ("" if site.users == 1 else "s")
    names = f" ({', '.join(site.ops)})" if site.ops else ""
    head = f"{site.name}{module}  ip {site.ip:x}  {site.state}"
    lines = _filled(f"{head}  {users}{names}", head, users + names)
    if site.source is not None:
        lines.append(f"{site.source[0]}:{site.source[1]}")
    if site.via is not None:
        call = f"{'' if site.state == ENABLED else 'when enabled, '}calls {site.caller}"
        way = f"through {site.via[0]} at {site.via[1]:x}"
        lines += _filled(f"{call} {way}", call, way)
    if not site.readable:
        lines.append("its memory is not mapped")
    elif not site.writable:
        lines.append("its page is protected: its text cannot be written")
    width = max((len(code.data) for row in site.rows for code in _codes(row)), default=0)
    digits = max((len(f"{row.address:x}") for row in site.rows), default=0)
    for row in site.rows:
        lines += _row_lines(row, digits, 3 * width - 1, "loaded" if site.relocated else "compiled")
    if why := standing(site):
        lines.append(why)
    if site.relocated:
        lines.append(f"in file: not relocated ({', '.join(site.relocations) or 'by insmod'})")
    if site.readable and any(row.changed and not row.wrong for row in site.rows):
        since = f" changed since it was {'loaded' if site.relocated else 'compiled'}"
        lines.append(Toned(("*", "accent"), since))
    if site.readable and any(row.wrong for row in site.rows):
        wrong = "! not what ftrace expects"
        if site.under_way:
            wrong = "! not yet what ftrace expects: a patch is under way"
        whole = f"{wrong}: {site.reason}" if site.reason else wrong
        first, *more = _filled(whole, f"{wrong}:", site.reason)
        lines += [Toned(("!", "bad"), first[1:]), *more]
    return lines


def standing(site: CallSite) -> str:
    """Return why the site has no record, or why most of its words never change; else ""."""
    if site.unrecorded is not None:
        return _UNRECORDED[site.unrecorded]
    if not site.changed_words:
        return ""
    count = site.changed_words
    if count > 1:
        return f"its first {count} words change: a task may be between them"
    return "only its first word changes: a task may be at any of the others"


def _codes(row: SiteRow) -> tuple[Code, ...]:
    stored = () if row.in_file is None else (row.in_file,)
    return *stored, row.compiled, row.expected, row.now


def _row_lines(row: SiteRow, digits: int, width: int, origin: str) -> list[str]:
    """Return one line if all forms of the text are the same, else a line for each form."""
    mark = "!" if row.wrong else "*" if row.changed else " "
    if not row.wrong and not row.changed and row.in_file is None:
        label = "the same" if row.is_site else ""
        return _code_lines(" ", f"{row.address:{digits}x}", label, row.now, width)
    codes = _codes(row)
    labels = ("in file", origin, "expected", "now")[-len(codes) :]
    lines: list[str] = []
    for label, code in zip(labels, codes, strict=True):
        if (label == "expected" and not row.is_site) or not code.data:
            continue
        place = "" if lines else f"{row.address:x}"
        sign = mark if label == "now" else " "
        lines += _code_lines(sign, place.rjust(digits), label, code, width)
    return lines


def _code_lines(mark: str, place: str, label: str, code: Code, width: int) -> list[str]:
    before = Toned((f"  {place}  ", "dim"), (mark, _MARKS[mark]), f" {label:<8}  ")
    return _broken(before, code.data.hex(" "), width, code.asm, _WIDTH)


def _broken(before: Toned, data: str, width: int, asm: str, columns: int = _BOX_WIDTH) -> list[str]:
    """Return an instruction after its bytes, or below them if the line would be too wide."""
    whole = Toned(*before.spans, f"{data:<{width}}  ", (asm, "strong")).trimmed()
    if len(whole) <= columns:
        return [whole]
    below = " " * max(min(len(before), _WIDTH - len(asm)), 0)
    return [Toned(*before.spans, data), Toned(below, (asm, "strong"))]


def path_lines(hops: Sequence[Hop], *, code: bool = True) -> list[str]:
    """Return the lines of a path: one for each hop and, with `code`, its instructions."""
    names = [f"{hop.label} {hop.name}" if hop.label == SITE else hop.name for hop in hops]
    width = max((cells(name) for name in names), default=0)
    digits = max((len(f"{hop.address:x}") for hop in hops), default=0)
    lines = []
    for number, (hop, name) in enumerate(zip(hops, names, strict=True)):
        arrow = "  " if number == 0 else "->"
        place = f"{padded(name, width)}  {hop.address:{digits}x}"
        head = f"{arrow} {place}  {_sign(hop)}"
        lines += _filled(f"{head}  {hop.note}".rstrip(), head, hop.note)
        if code:
            places = [f"{insn.address:{digits}x}" for insn, _ in hop.insns]
            lines += _hop_code(hop, places, _bytes_width(hops))
    return lines


def stub_lines(stubs: Sequence[StubView]) -> list[str]:
    """Return a module's stubs: where each leads, how many sites need it, and all its words.

    Words have offsets, as in `STUB+0x8`.
    """
    width = _bytes_width([stub.hop for stub in stubs])
    lines = []
    for stub in stubs:
        hop = stub.hop
        head = f"{hop.address:x}  {hop.name}  {_sign(hop)}"
        lines += _filled(f"{head}  {hop.note}", head, hop.note)
        for count, when in ((stub.compiled, "as compiled"), (stub.enabled, "when enabled")):
            if count:
                lines.append(f"     {count} call site{'' if count == 1 else 's'} {when}")
        offsets = [f"+{insn.address - hop.address:#x}" for insn, _ in hop.insns]
        digits = max((len(offset) for offset in offsets), default=0)
        lines += _hop_code(hop, [f"{offset:<{digits}}" for offset in offsets], width)
    return lines


def _sign(hop: Hop) -> str:
    return "ok" if hop.verified else "! "


def _bytes_width(hops: Sequence[Hop]) -> int:
    return max((3 * len(insn.data) - 1 for hop in hops for insn, _ in hop.insns), default=0)


def _hop_code(hop: Hop, places: Sequence[str], width: int) -> list[str]:
    """Return the instructions of a hop; `!` marks those that ftrace did not leave there."""
    lines: list[str] = []
    for place, (insn, text) in zip(places, hop.insns, strict=True):
        mark = "!" if hop.wrong(insn) else " "
        before = Toned("  ", (mark, _MARKS[mark]), (f" {place}  ", "dim"))
        lines += _broken(before, insn.data.hex(" "), width, text)
    return lines


def _filled(whole: str, head: str, rest: str) -> list[str]:
    """Return `whole` if it fits one line, else `head` and below it `rest`, wrapped."""
    if len(whole) <= _WIDTH:
        return [whole]
    return [head.rstrip(), *wrap(rest, _WIDTH, initial_indent="     ", subsequent_indent="     ")]
