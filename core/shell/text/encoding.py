"""An instruction's bit fields drawn to scale, and the range of its targets.

Every bit has the same width, which shows why one call reaches 2 GB and another 32 MB. Each
field with its meaning, the rule for the target, and the range of targets as a line with the
addresses of interest follow below.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...encoding import BitField, Encoding
from ...views.encoding import EncodingView, Goal, OutOfReach, away
from ...views.toned import POINTER, RULE, SCALE, Span, Toned

_CELL = 2
"""Columns of a bit."""

_LINE = 61
"""Columns of the line of targets; odd, so that its middle is a column."""


_FIELD_TONES = ("accent", "link", "good", "strong")
"""Tones of the fields, in turn; bars separate them even without colour."""


def encoding_lines(view: EncodingView) -> list[str]:
    """Return the lines of an instruction's bit fields.

    A field has the same tone in the drawing and in the list below it.
    """
    insn, encoding = view.insn, view.encoding
    text = f"{view.text}  (when enabled)" if view.if_enabled else view.text
    lines: list[str] = [code_line(f"{insn.address:x}  ", insn.data.hex(" "), text)]
    if encoding is None:
        return [*lines, "the bit fields of this instruction are not described"]
    lines += [encoding.form, "", *_drawing(encoding), ""]
    width = max(len(field.name) for field in encoding.fields)
    fields = zip(encoding.fields, _tones(encoding), strict=True)
    named = [(field, tone, _value(encoding, field)) for field, tone in fields if field.name]
    most = max(len(value) for _, _, value in named)
    for field, tone, value in named:
        meaning = f"{'':{most - len(value)}}  {field.meaning}".rstrip()
        lines.append(Toned((f"{field.name:<{width}}  ", tone), (value, tone), meaning))
    if encoding.rule:
        known = encoding.rule.startswith("target =") and insn.target is not None
        lines += ["", encoding.rule]
        if known:
            lines[-1] = Toned((f"{encoding.rule} = ", "dim"), (f"{insn.target:x}", "strong"))
    if encoding.reach is not None:
        lines += ["", *_scale(insn.address, encoding.reach, view.goals)]
    return lines


def code_line(place: str, data: str, text: str) -> Toned:
    """Return the line of an instruction: where it is, its bytes, and its text."""
    return Toned((place, "dim"), data, (f"  {text}", "strong"))


def _tones(encoding: Encoding) -> list[str]:
    return [_FIELD_TONES[at % len(_FIELD_TONES)] for at in range(len(encoding.fields))]


def _value(encoding: Encoding, field: BitField) -> str:
    if encoding.unit == 1:
        return field.bits
    return field.value.to_bytes(len(field.bits) // 8, "big").hex(" ")


def _drawing(encoding: Encoding) -> Iterator[str]:
    """Yield the ruler, the names and the bits; each field is between bars."""
    cell = _CELL if encoding.unit == 1 else 9
    count = encoding.size // encoding.unit
    numbers = " " * (count * cell + 3)
    names: list[Span] = []
    bits: list[Span] = []
    bar = ("|", RULE)
    at = 0
    for field, tone in zip(encoding.fields, _tones(encoding), strict=True):
        units = len(field.bits) // encoding.unit
        room = units * cell - 1
        number = str(at if encoding.from_left else count - 1 - at)
        start = 1 + at * cell
        if not numbers[max(start - 1, 0) : start + len(number)].strip():
            numbers = numbers[:start] + number + numbers[start + len(number) :]
        names += [bar, (f"{field.name[:room]:<{room}}", tone)]
        part = 1 if encoding.unit == 1 else 8
        parts = [field.bits[bit : bit + part] for bit in range(0, len(field.bits), part)]
        bits += [bar, (" ".join(parts), tone)]
        at += units
    yield numbers.rstrip()
    yield Toned(*names, bar)
    yield Toned(*bits, bar)


def _scale(ip: int, reach: tuple[int, int], goals: Sequence[Goal]) -> Iterator[str]:
    """Yield the range of targets as a line with ip and `goals` on it."""
    first, last = reach
    middle = _column(ip, reach)
    left, right = away(first - ip), away(last - ip)
    line = f"{left:<{middle}}ip" if len(left) < middle else f"{left} ip"
    yield f"{line:<{_LINE - len(right)}}{right}" if len(line) + len(right) < _LINE else line
    inside = 0 < middle < _LINE - 1
    range_ = "-" * (middle - 1) + "+" + "-" * (_LINE - 2 - middle) if inside else "-" * (_LINE - 2)
    yield Toned((f"|{range_}|", SCALE))
    for goal in sorted(goals, key=lambda each: (each.address, each.name)):
        distance = away(goal.address - ip)
        if goal.address < first:
            yield Toned((f"< {goal.name}, {distance}: out of reach", "bad"))
        elif goal.address > last:
            yield Toned((f"{f'{goal.name}, {distance}: out of reach >':>{_LINE}}", "bad"))
        else:
            column = _column(goal.address, reach)
            label = f"{goal.name}, {distance}"
            fits = column + 2 + len(label) <= _LINE
            before = " " * column if fits else f"{f'{label} ':>{column}}"
            yield Toned(before, ("^", POINTER), f" {label}" if fits else "")


def _column(address: int, reach: tuple[int, int]) -> int:
    first, last = reach
    return round((min(max(address, first), last) - first) * (_LINE - 1) / (last - first))


def out_of_reach_lines(view: OutOfReach | None) -> tuple[str, ...]:
    """Return lines that say why a call uses a stub; no lines for None."""
    if view is None:
        return ()
    left, right = map(away, view.reach)
    far = " (2^60 bytes)" if abs(view.distance) >> 60 == 1 else ""  # EB is an uncommon unit
    return (
        f"{view.caller} is out of reach, {away(view.distance)}{far} from the site:",
        f"its call reaches {left} to {right}",
    )
