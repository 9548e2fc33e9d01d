"""Where a function of the i386 kernel finds its arguments, as its code shows.

The kernel is compiled with `-mregparm=3`: the first three arguments are in eax, edx and ecx. A
function with `...` has all of them on the stack, and so has one that is `asmlinkage`. Such code
never reads one of these registers before it has written it. It takes the address of an argument
(`va_start`), or reads a word that would not be an argument if three were in registers.

Sources: the GCC manual, "x86 Function Attributes", `regparm`; arch/x86/include/asm/linkage.h.
"""

from __future__ import annotations

from dataclasses import dataclass

from capstone import CS_ARCH_X86, CS_MODE_32, Cs, CsInsn
from capstone.x86 import X86_OP_IMM, X86_OP_MEM, X86_OP_REG

WORD = 4
IN_REGISTERS = 3

MOST = 400
"""Maximum number of instructions to examine."""

_PARTS = {
    part: whole
    for whole, letter in (("eax", "a"), ("edx", "d"), ("ecx", "c"))
    for part in (whole, f"{letter}x", f"{letter}l", f"{letter}h")
}


@dataclass(frozen=True, slots=True)
class _Path:
    """A way through the function, before one instruction."""

    address: int
    top: int | None
    """Bytes from esp up to the first word above the return address; None if unknown."""
    frame: int | None
    """Bytes from ebp up to that word; None if ebp is not the frame pointer."""
    written: frozenset[str]
    """Argument registers that were written."""
    pushed: bool = False
    """Whether a constant was pushed last: the argument of a call of a function with `...`."""


def all_on_stack(start: int, code: bytes, count: int) -> bool:
    """Return whether the function with `code` at `start` has all `count` arguments on the stack."""
    decoder = Cs(CS_ARCH_X86, CS_MODE_32)
    decoder.detail = True
    waiting, seen, read = [_Path(start, WORD, None, frozenset())], set[int](), -1
    variadic = False
    while waiting and len(seen) < MOST:
        path = waiting.pop()
        if path.address in seen or not 0 <= path.address - start < len(code):
            continue
        seen.add(path.address)
        insn = next(decoder.disasm(code[path.address - start :], path.address, 1), None)
        if insn is None:
            continue
        following = path.address + insn.size
        if insn.mnemonic == "call" and path.address == start:  # the call site
            waiting.append(_Path(following, path.top, path.frame, path.written))
            continue
        reads, writes = _registers(insn)
        passed_on = insn.mnemonic == "call" and not path.pushed and "eax" not in path.written
        if reads - path.written or passed_on:
            return False
        for slot in _slots(insn, path):
            if insn.mnemonic == "lea":
                variadic = True
            read = max(read, slot)
        written = path.written | (set(_PARTS.values()) if insn.mnemonic == "call" else writes)
        if insn.mnemonic.startswith("j"):
            target = insn.operands[0]
            if target.type == X86_OP_IMM:
                waiting.append(_Path(target.imm, path.top, path.frame, frozenset(written)))
        if insn.mnemonic not in ("jmp", "ret", "ud2"):
            pushed = insn.mnemonic == "push" and insn.operands[0].type == X86_OP_IMM
            waiting.append(_Path(following, *_stack(insn, path), frozenset(written), pushed))
    return variadic or read >= max(count - IN_REGISTERS, 0)


def _registers(insn: CsInsn) -> tuple[set[str], set[str]]:
    """Return the argument registers that `insn` reads, and those that it writes."""
    found = [
        {_PARTS[insn.reg_name(each)] for each in some if insn.reg_name(each) in _PARTS}
        for some in insn.regs_access()
    ]
    operands = insn.operands
    if insn.mnemonic in ("xor", "sub") and operands[0].type == operands[1].type == X86_OP_REG:
        constant = operands[0].reg == operands[1].reg
    else:  # or eax,-1
        ones = insn.mnemonic == "or" and operands[1].type == X86_OP_IMM
        constant = ones and operands[0].type == X86_OP_REG and operands[1].imm % 2**32 == 2**32 - 1
    return set() if constant else found[0], found[1]


def _slots(insn: CsInsn, path: _Path) -> list[int]:
    """Return the words above the return address that the operands of `insn` are in."""
    bases = {"esp": path.top, "ebp": path.frame}
    found = []
    for operand in insn.operands:
        if operand.type == X86_OP_MEM and operand.mem.base and not operand.mem.index:
            above = bases.get(insn.reg_name(operand.mem.base))
            if above is not None and operand.mem.disp >= above:
                found.append((operand.mem.disp - above) // WORD)
    return found


def _stack(insn: CsInsn, path: _Path) -> tuple[int | None, int | None]:
    """Return `top` and `frame` of `path` after `insn`."""
    top, frame = path.top, path.frame
    operands = insn.operands
    name = insn.reg_name(operands[0].reg) if operands and operands[0].type == X86_OP_REG else ""
    other = operands[1] if len(operands) > 1 else None
    if insn.mnemonic in ("push", "pop") and top is not None:
        top += WORD if insn.mnemonic == "push" else -WORD
        return top, None if insn.mnemonic == "pop" and name == "ebp" else frame
    if insn.mnemonic == "leave":
        return (None if frame is None else frame - WORD), None
    if name == "esp":
        change = {"sub": 1, "add": -1}.get(insn.mnemonic)
        if top is None or change is None or other is None or other.type != X86_OP_IMM:
            return None, frame
        return top + change * other.imm, frame
    if name == "ebp" and insn.mnemonic != "cmp":
        moved = insn.mnemonic == "mov" and other is not None and other.type == X86_OP_REG
        source = "" if other is None or not moved else insn.reg_name(other.reg)
        return top, top if source == "esp" else None
    return top, frame
