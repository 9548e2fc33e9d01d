"""Lines of text with tones: what a pane shows before any terminal is involved.

A `Line` is a row of spans, each a text and the name of a tone. Widgets map a
tone to a style of the theme (`rows--TONE` in console.tcss); tests read a line
with `plain`. Tones: `""` ordinary text, `dim`, `strong`, `accent`, `good`,
`bad`, `mark` (changed bytes: reversed), `link` (a symbol one can go to).
"""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[str, str]
Line = tuple[Span, ...]

TONES = ("dim", "strong", "accent", "good", "bad", "mark", "link", "found")


def plain(line: Iterable[Span]) -> str:
    """The text of `line` without its tones."""
    return "".join(text for text, _ in line)


def line(*spans: Span | str) -> Line:
    """Build a line; a bare string is a span in the ordinary tone."""
    return tuple((span, "") if isinstance(span, str) else span for span in spans)


def fit(text: str, width: int) -> str:
    """`text` in exactly `width` cells: padded, or cut with an ellipsis."""
    if len(text) > width:
        return text[: max(width - 1, 0)] + "…" if width > 0 else ""
    return text.ljust(width)


def highlight(spans: Line, needle: str, tone: str = "found") -> Line:
    """`spans` with each occurrence of `needle` (any case) given `tone`."""
    if not needle:
        return spans
    out: list[Span] = []
    wanted = needle.casefold()
    for text, kept in spans:
        folded = text.casefold()
        start = 0
        while (at := folded.find(wanted, start)) >= 0:
            if at > start:
                out.append((text[start:at], kept))
            out.append((text[at : at + len(needle)], tone))
            start = at + len(needle)
        if start < len(text):
            out.append((text[start:], kept))
    return tuple(out)
