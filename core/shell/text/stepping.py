"""The operands of an instruction, and the words of the stack, as plain text."""

from __future__ import annotations

from collections.abc import Iterable

from ...views.operands import MemoryOperand, Operand, Operands
from ...views.stack import Stack

WIDTH = 80
"""Columns of a line of cells."""


def cell_lines(cells: Iterable[str], lead: str = "   ") -> list[str]:
    """Return `cells` in lines of at most `WIDTH` columns, each begun by `lead`."""
    lines, line = [], lead
    for cell in cells:
        if len(line) + 2 + len(cell) > WIDTH and line.strip():
            lines.append(line)
            line = lead
        line += f"  {cell}" if line.strip() else f" {cell}"
    return [*lines, line] if line.strip() else lines


def operand_lines(view: Operands) -> list[str]:
    """Return the registers that an instruction uses, then its memory."""
    registers = [register_text(each) for each in view.registers]
    return [*cell_lines(registers), *(f"    {memory_text(each)}" for each in view.memory)]


def register_text(operand: Operand) -> str:
    """Return a register, its value, and the meaning of the value."""
    value = f"{operand.name} {operand.value:x}"
    return f"{value} ({operand.meaning})" if operand.meaning else value


def memory_text(operand: MemoryOperand) -> str:
    """Return the memory that is read or written, with its value before and after."""
    access = operand.access
    place = f"{access.address:x}"
    if operand.place:
        place += f" ({operand.place})"
    before = f"{access.before:x}" + (f" ({operand.before})" if operand.before else "")
    if access.after is None:
        return f"reads  {place}: {before}"
    after = f"{access.after:x}" + (f" ({operand.after})" if operand.after else "")
    return f"writes {place}: {before} -> {after}"


def memory_cell(operand: MemoryOperand) -> str:
    """Return memory that was written, in the short form of a changed register."""
    access = operand.access
    return f"[{operand.place or f'{access.address:x}'}] {access.before:x}->{access.after or 0:x}"


def stack_lines(view: Stack) -> list[str]:
    """Return the words of a stack, each with its address, offset from sp and meaning."""
    lines = [f"cpu{view.cpu}  sp {view.sp:x}  {view.used:,} bytes in use, up to {view.top:x}"]
    for row in view.rows:
        value = f"{row.value:0{view.digits}x}"
        lines.append(f"  {row.address:x}  sp+{row.offset:<#6x} {value}  {row.what}".rstrip())
    left = (view.top - view.rows[-1].address) // (view.digits // 2) - 1 if view.rows else 0
    if left > 0:
        lines.append(f"  {left:,} more words")
    if view.returns:
        lines.append("ret_stack, innermost first")
        lines += [f"  [{each.number}] {each.func} returns to {each.ret}" for each in view.returns]
    return lines
