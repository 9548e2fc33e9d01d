"""The output of a command in the tones of the theme, for a box.

The shell's text has no colours. Here frames are drawn with lines, and the important parts
stand out: the fields and bits of an instruction, the target of a call, marks of changed and of
damaged text. The text to copy is the shell's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from re import Match

from .line import Line, Span, line

_FRAME = r" *\|(?:[^|]*\|)+ *"
_FIELD = r"([A-Za-z][\w/]*  +)([01]+|[0-9a-f]{2}(?: [0-9a-f]{2})*)((?:  .*)?)"
_REGISTER = re.compile(r"( *\b[a-z][a-z0-9]* +)([0-9a-f]{8,16}\b)")
_SIGNS = {"!": "bad", "*": "accent", "✓": "good", "✗": "bad"}


FIELD_TONES = ("accent", "link", "good", "strong")
"""Tones of the fields of an instruction, in turn; bars separate them even without colour."""


def output_lines(texts: Iterable[str]) -> list[Line]:
    """Return the lines of a command's output, in tones.

    The fields of an instruction have the same tone in its drawing and in the list below it.
    """
    lines: list[Line] = []
    tones: dict[str, str] = {}
    for text in texts:
        drawn = output_line(text)
        if re.fullmatch(_FRAME, text):
            fields = text.strip().strip("|").split("|")
            if text.strip("| 01"):
                tones = {
                    name.strip(): FIELD_TONES[number % len(FIELD_TONES)]
                    for number, name in enumerate(fields)
                }
            drawn = _in_turn(text)
        elif (match := re.fullmatch(_FIELD, text)) and match[1].strip() in tones:
            tone = tones[match[1].strip()]
            drawn = line((match[1], tone), (match[2], tone), (match[3], ""))
        lines.append(drawn)
    return lines


def _in_turn(text: str) -> Line:
    """Return a row of an instruction drawn to scale, its fields in turn in the tones of fields."""
    spans: list[Span] = []
    number = -1
    for part in re.split(r"(\|)", text):
        if part == "|":
            number += 1
            spans.append(("│", "dim"))
        else:
            spans.append((part, FIELD_TONES[number % len(FIELD_TONES)] if number >= 0 else ""))
    return line(*spans)


def output_line(text: str) -> Line:
    """Return `text`, a line of a command's output, in tones."""
    for pattern, spans in _KINDS:
        match = re.fullmatch(pattern, text)
        if match is not None:
            return line(*spans(match))
    return line(text)


def _scale(match: Match[str]) -> list[Span]:
    """Return the reach of a call, as a bar."""
    before, marks = match.groups()
    left, ip, right = marks.partition("+")
    bar = [("━" * len(left), "good"), ("┿" if ip else "", "strong"), ("━" * len(right), "good")]
    return [(f"{before}┣", "good"), *bar, ("┫", "good")]


def _beyond(match: Match[str]) -> list[Span]:
    """Return a place out of reach."""
    return [(match[0], "bad")]


def _pointer(match: Match[str]) -> list[Span]:
    """Return an arrow up, to the scale, and the name of the place."""
    before, after = match.groups()
    return [(before, ""), ("▲", "accent"), (after or "", "")]


def _frame(match: Match[str]) -> list[Span]:
    """Return a row of an instruction drawn to scale: the names of its fields, or their bits."""
    bits = not match[0].strip("| 01")
    return [
        ("│", "dim") if part == "|" else (part, "strong" if bits else "accent")
        for part in re.split(r"(\|)", match[0])
    ]


def _field(match: Match[str]) -> list[Span]:
    """Return a field of an instruction: name, value, meaning."""
    name, value, meaning = match.groups()
    return [(name, "accent"), (value, "strong"), (meaning, "")]


def _code(match: Match[str]) -> list[Span]:
    """Return an instruction: address, bytes, text."""
    address, data, text = match.groups()
    return [(address, "dim"), (data, ""), (text, "strong")]


def _target(match: Match[str]) -> list[Span]:
    """Return the rule of a target, and its result."""
    rule, result = match.groups()
    return [(rule, "dim"), (result, "strong")]


def _sign(match: Match[str]) -> list[Span]:
    """Return a line with a sign of changed, damaged or verified text."""
    before, sign, after = match.groups()
    return [(before, ""), (sign, _SIGNS[sign]), (after, "")]


def _registers(match: Match[str]) -> list[Span]:
    """Return registers; those that are zero are faint."""
    spans: list[Span] = []
    for name, value in _REGISTER.findall(match[0]):
        spans += [(name, "accent"), (value, "" if value.strip("0") else "dim")]
    return spans


_KINDS: tuple[tuple[str, Callable[[Match[str]], list[Span]]], ...] = (
    (r"( *)\|([-+]+)\| *", _scale),
    (r"( *(?:.* )?)\^( .*)?", _pointer),
    (r" *< .*: out of reach| *.*: out of reach >", _beyond),
    (_FRAME, _frame),
    (r"(target = .* = )([0-9a-f]+)", _target),
    (r"( *[0-9a-f]{8,16} )((?: [0-9a-f]{2})+)(  .*)", _code),
    (_FIELD, _field),
    (r"( *)([!*✓✗])( .*)", _sign),
    (r"(?: +[a-z][a-z0-9]* +[0-9a-f]{8,16})+", _registers),
)
"""Patterns of whole lines, and functions that return the spans of a match; the first wins."""
