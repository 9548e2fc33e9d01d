"""The lines of the stepping screen: where a CPU is, the code around it, its registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.views.cells import cells
from .line import Line, Span, fit, line

if TYPE_CHECKING:
    from ...core.views.stepping import CodeRow, Stepping

HERE: Span = ("▶ ", "accent")
"""Mark of the next instruction."""

LEAST_CODE, MOST_CODE = 6, 12
"""Minimum and maximum number of rows of code if the registers are below it."""

LEAD = 2
"""Rows of code above the pc after it has left the window."""

_MOST_ACCESSES = 2
"""Maximum memory accesses that a line names: only `stmw` makes more than two."""

_WORDS = {"saved": "good", "frame": "accent", "return": "link", "old": "dim", "value": ""}
"""Tones of the words of a stack."""

_NAMES = {"ftrace_call": "slot ftrace_call"}


def head_line(view: Stepping, mode: str) -> Line:
    """Return the CPU, its task and clock, and the number of stepped instructions."""
    word = mode.lower() if mode != "PAUSED" else "" if view.state == "running" else view.state
    return line(
        (f" CPU {view.cpu}  ", "strong"),
        (fit(view.task, 16), "accent"),
        (f" {fit(word, 7)} ", "bad" if view.state == "dead" else "good"),
        ("clock ", "dim"),
        (f"{view.now:>11,} ns ", "strong"),
        (f"{f'+{view.elapsed:,}':>11} ", "dim"),
        (f"{view.steps:>6,} step{'' if view.steps == 1 else 's'}", ""),
    )


def hop_line(view: Stepping) -> Line:
    """Return the hops of a traced call, each in a fixed column; brackets mark the current one.

    The stub is in parentheses, because only calls out of reach go through one.
    """
    from ...core.views.stepping import HOPS  # imported late: it needs numpy

    spans: list[Span] = [(" path: ", "dim")]
    for hop in HOPS:
        if hop == "stub" and not view.stubs:
            continue
        here = hop == view.hop
        name = _NAMES.get(hop, hop)
        aside = f"({name})" if hop == "stub" else f" {name} "
        spans.append((f"[{name}]" if here else aside, "strong" if here else "dim"))
        if hop != HOPS[-1]:
            spans.append(("─▶", "accent" if here else "dim"))
    if view.hop is None:
        spans.append(("  elsewhere", "dim"))
    return line(*spans)


def source_line(view: Stepping) -> Line:
    """Return pc as symbol and offset, and its source line if known."""
    source = "" if view.source is None else f"{view.source[0]}:{view.source[1]}"
    return line(" ", (fit(view.place, 48), "link"), (f" {source}", "dim"))


def operand_rows(view: Stepping, width: int) -> tuple[Line, Line]:
    """Return the registers that the next instruction uses, and the memory it reads or writes."""
    registers: list[Span] = [(" uses ", "dim")]
    for each in view.operands.registers:
        meaning = f" {each.meaning}" if each.meaning else ""
        registers += [(f" {each.name} ", "dim"), (f"{each.value:x}", ""), (meaning, "link")]
    memory: list[Span] = []
    for access in view.operands.memory[:_MOST_ACCESSES]:
        at = access.access
        memory.append((" reads  " if at.after is None else " writes ", "dim"))
        memory += [(f"{at.address:x}", ""), (f" {access.place}".rstrip(), "link"), (" ", "")]
        memory.append((f"{at.before:x}", ""))
        if access.before and at.after is None:
            memory.append((f" {access.before}", "link"))
        if at.after is not None:
            memory += [("→", "accent"), (f"{at.after:x}", "strong"), (f" {access.after}", "link")]
    more = len(view.operands.memory) - _MOST_ACCESSES
    if more > 0:
        memory.append((f" and {more} more", "dim"))
    if not memory:
        memory = [(" no memory", "dim")]
    if len(registers) == 1:
        registers.append((" no register", "dim"))
    return _cut(registers, width), _cut(memory, width)


def _cut(spans: list[Span], width: int) -> Line:
    """Return `spans` in at most `width` cells, with an ellipsis if they are cut."""
    out: list[Span] = []
    left = width
    for text, tone in spans:
        if cells(text) >= left:
            out.append((fit(text, left) if cells(text) > left else text, tone))
            break
        out.append((text, tone))
        left -= cells(text)
    return line(*out)


def stack_rows(view: Stepping, width: int) -> tuple[Line, ...]:
    """Return the words of the stack from sp upwards, then the ret_stack.

    A narrow pane leaves out the addresses, which sp and the distance give.
    """
    stack = view.stack
    rows = [line(("stack ", "strong"), (f" sp {stack.sp:x}, {stack.used:,} bytes in use", "dim"))]
    for row in stack.rows:
        rows.append(
            _cut(
                [
                    (f"sp+{row.offset:<#5x} ", "dim"),
                    (f"{row.value:0{stack.digits}x} ", ""),
                    (row.what, _WORDS[row.word.value]),
                ],
                width,
            )
        )
    if stack.returns:
        rows.append(line(("ret_stack", "strong"), ("  innermost first", "dim")))
    for each in stack.returns:
        rows.append(
            _cut(
                [
                    (f"[{each.number}] ", "dim"),
                    (each.func, "link"),
                    (f" returns to {each.ret}", ""),
                ],
                width,
            )
        )
    return tuple(rows)


def code_rows(view: Stepping) -> tuple[Line, ...]:
    """Return the code, with the mark `▶` on the next instruction."""
    return tuple(_code_row(row, view.digits, 3 * view.row_bytes - 1) for row in view.code)


def _code_row(row: CodeRow, digits: int, width: int) -> Line:
    mark = HERE if row.here else None
    if not row.data:
        return line((f"{row.text}:", "link"), at=row.address, mark=mark)
    tone = "strong" if row.here else ""
    return line(
        "" if row.here else "  ",
        (f"{row.address:0{digits}x}  ", "" if row.here else "dim"),
        (fit(row.data.hex(" "), width) + "  ", tone or "dim"),
        (row.text, tone),
        at=row.address,
        mark=mark,
    )


def window(rows: tuple[CodeRow, ...], before: int | None, height: int) -> int:
    """Return the first of `height` rows to show.

    It is the row at address `before`, as long as the next instruction is then visible.
    """
    if len(rows) <= height:
        return 0
    here = next((number for number, row in enumerate(rows) if row.here), 0)
    for number, row in enumerate(rows):
        if row.address == before and number <= here < number + height:
            return number
    return max(min(here - LEAD, len(rows) - height), 0)


def register_columns(view: Stepping, width: int) -> int:
    """Return the number of columns of registers that fit."""
    return max(width // _cell(view), 1)


def register_rows(view: Stepping, columns: int) -> tuple[Line, ...]:
    """Return the registers; each that the last step changed is reversed and has a `*`.

    They are listed column by column, so each register always has the same place.
    """
    cells = [
        (
            (f"{each.name:>{_names(view)}} ", "dim"),
            (f"{each.value:0{view.digits}x}", "" if each.old is None else "mark"),
            (" " if each.old is None else "*", "accent"),
            (" ", ""),
        )
        for each in view.registers
    ]
    height = -(-len(cells) // columns)
    return tuple(
        line(*(span for cell in cells[row::height] for span in cell)) for row in range(height)
    )


def register_height(view: Stepping, columns: int) -> int:
    """Return the number of rows that all registers take."""
    return -(-len(view.registers) // columns)


def _names(view: Stepping) -> int:
    return max((len(each.name) for each in view.registers), default=0)


def _cell(view: Stepping) -> int:
    return _names(view) + 1 + view.digits + 2
