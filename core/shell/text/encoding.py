"""An instruction's bit fields drawn to scale, and the range of its targets.

Every bit has the same width, which shows why one call reaches 2 GB and another 32 MB. Each
field with its meaning, the rule for the target, and the range of targets as a line with the
addresses of interest follow below.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...encoding import BitField, Encoding
from ...views.encoding import EncodingView, Goal, OutOfReach, away

_CELL = 2
"""Columns of a bit."""

_LINE = 61
"""Columns of the line of targets; odd, so that its middle is a column."""


def encoding_lines(view: EncodingView) -> list[str]:
    """Return the lines of an instruction's bit fields."""
    insn, encoding = view.insn, view.encoding
    text = f"{view.text}  (when enabled)" if view.if_enabled else view.text
    lines = [f"{insn.address:x}  {insn.data.hex(' ')}  {text}"]
    if encoding is None:
        return [*lines, "the bit fields of this instruction are not described"]
    lines += [encoding.form, "", *_drawing(encoding), ""]
    width = max(len(field.name) for field in encoding.fields)
    named = [field for field in encoding.fields if field.name]
    values = [field.bits if encoding.unit == 1 else _hex(field) for field in named]
    most = max(map(len, values))
    for field, shown in zip(named, values, strict=True):
        lines.append(f"{field.name:<{width}}  {shown:<{most}}  {field.meaning}".rstrip())
    if encoding.rule:
        known = encoding.rule.startswith("target =") and insn.target is not None
        lines += ["", encoding.rule]
        if known:
            lines[-1] += f" = {insn.target:x}"
    if encoding.reach is not None:
        lines += ["", *_scale(insn.address, encoding.reach, view.goals)]
    return lines


def _hex(field: BitField) -> str:
    return field.value.to_bytes(len(field.bits) // 8, "big").hex(" ")


def _drawing(encoding: Encoding) -> Iterator[str]:
    """Yield the ruler, the names and the bits; each field is between bars."""
    cell = _CELL if encoding.unit == 1 else 9
    count = encoding.size // encoding.unit
    numbers, names, bits = " " * (count * cell + 3), "", ""
    at = 0
    for field in encoding.fields:
        units = len(field.bits) // encoding.unit
        room = units * cell - 1
        number = str(at if encoding.from_left else count - 1 - at)
        start = 1 + at * cell
        if not numbers[max(start - 1, 0) : start + len(number)].strip():
            numbers = numbers[:start] + number + numbers[start + len(number) :]
        names += f"|{field.name[:room]:<{room}}"
        if encoding.unit == 1:
            bits += f"|{' '.join(field.bits)}"
        else:
            parts = [field.bits[bit : bit + 8] for bit in range(0, len(field.bits), 8)]
            bits += f"|{' '.join(parts)}"
        at += units
    yield numbers.rstrip()
    yield f"{names}|"
    yield f"{bits}|"


def _scale(ip: int, reach: tuple[int, int], goals: Sequence[Goal]) -> Iterator[str]:
    """Yield the range of targets as a line with ip and `goals` on it."""
    first, last = reach
    middle = _column(ip, reach)
    left, right = away(first - ip), away(last - ip)
    line = f"{left:<{middle}}ip" if len(left) < middle else f"{left} ip"
    yield f"{line:<{_LINE - len(right)}}{right}" if len(line) + len(right) < _LINE else line
    yield (
        "|" + "-" * (middle - 1) + "+" + "-" * (_LINE - 2 - middle) + "|"
        if (0 < middle < _LINE - 1)
        else "|" + "-" * (_LINE - 2) + "|"
    )
    for goal in sorted(goals, key=lambda each: (each.address, each.name)):
        distance = away(goal.address - ip)
        if goal.address < first:
            yield f"< {goal.name}, {distance}: out of reach"
        elif goal.address > last:
            yield f"{f'{goal.name}, {distance}: out of reach >':>{_LINE}}"
        else:
            column = _column(goal.address, reach)
            label = f"{goal.name}, {distance}"
            fits = column + 2 + len(label) <= _LINE
            yield " " * column + f"^ {label}" if fits else f"{f'{label} ^':>{column + 1}}"


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
