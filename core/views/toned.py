"""A line of text whose parts have tones, so that no front end has to guess what it shows.

Who makes a line knows which part is an address and which is a field. A tone is the name of a
style: `dim`, `strong`, `accent`, `good`, `bad`, `link`, or `""` for ordinary text. Three more name
signs that a terminal has better ones for: see `RULE`, `SCALE` and `POINTER`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

Span = tuple[str, str]
"""A text, and the name of its tone."""

RULE = "rule"
"""The bar between two fields of an instruction."""
SCALE = "scale"
"""The range of a call's targets, drawn as a line."""
POINTER = "pointer"
"""An arrow up to a place on a scale."""


class Toned(str):
    """A line of text that knows the tones of its parts; everywhere else it is just its text."""

    __slots__ = ("spans",)

    spans: tuple[Span, ...]

    def __new__(cls, *spans: Span | str) -> Toned:
        """Return the line of `spans`; a bare text has the ordinary tone."""
        toned = tuple((span, "") if isinstance(span, str) else span for span in spans)
        line = super().__new__(cls, "".join(text for text, _ in toned))
        line.spans = toned
        return line

    def trimmed(self) -> Toned:
        """Return the line without blanks at its end."""
        spans = list(self.spans)
        while spans:
            text, tone = spans.pop()
            if rest := text.rstrip():
                return Toned(*spans, (rest, tone))
        return Toned()


def split_lines(text: str, toned: Mapping[int, Toned]) -> Iterator[str]:
    """Yield the lines of `text`; `toned` has those with tones, by the place where each begins."""
    at = 0
    for line in text.splitlines(keepends=True):
        yield toned.get(at) or line.splitlines()[0]
        at += len(line)
