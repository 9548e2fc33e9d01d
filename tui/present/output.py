"""The output of a command in the tones of the theme, for a box.

Each command states the tones of its lines. Here they become lines of the console, which draws
the frames of instructions and the ranges of calls with signs that the shell's plain text lacks.
The text to copy is the shell's.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...core.views.toned import POINTER, RULE, SCALE, Span, Toned, split_lines
from .line import Line, line
from .view import Done


def output_lines(done: Done) -> list[Line]:
    """Return the lines of a command's output, in tones."""
    return [
        line(*drawn(text)) if isinstance(text, Toned) else line(text)
        for text in split_lines(done.output, done.toned)
    ]


def drawn(text: Toned) -> Iterator[Span]:
    """Yield the spans of a line, with the console's signs and only its own tones."""
    for part, tone in text.spans:
        if tone == RULE:
            yield part.replace("|", "│"), "dim"
        elif tone == POINTER:
            yield part.replace("^", "▲"), "accent"
        elif tone == SCALE:
            left, ip, right = part[1:-1].partition("+")
            yield f"┣{'━' * len(left)}", "good"
            yield "┿" if ip else "", "strong"
            yield f"{'━' * len(right)}┫", "good"
        elif part:
            yield part, tone
