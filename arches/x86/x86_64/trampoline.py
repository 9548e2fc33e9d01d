"""Trampolines: copies of ftrace_caller, each calling the function of one user.

A copy runs anywhere within reach, once four instructions relative to rip are changed. Each is
found by its opcode and the address to which it refers:

    83 3d rel32 00    cmp dword ptr [rip + function_trace_stop], 0
    48 8b 15 rel32    mov rdx, [rip + function_trace_op]      the user's pointer instead
    e8 rel32          call tracer, at the slot                the user's function instead
    e9 rel32          jmp ftrace_graph_call

ftrace_caller falls through to ftrace_graph_call, so a copy of it has a jump to that slot: the
graph tracer has a single slot, and the code after it is shared. All other branches stay within
the copy, whose last instruction is a `ret`. After it, at a multiple of 8, comes the pointer.

    start               ftrace_caller, or ftrace_regs_caller
    start + slot        call tracer
    end                 pointer to the ftrace_ops

Source: create_trampoline() in arch/x86/kernel/ftrace.c of Linux 6.1, which finds these places
by labels. In earlier versions a trampoline ended in a jump to the shared ftrace_epilogue, which
contained the graph tracer's slot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....core.arch import EntryCode, TrampolineCode
from .. import insn

CALLERS = {"ftrace_caller": "ftrace_call", "ftrace_regs_caller": "ftrace_regs_call"}
"""Labels of the callers that can be copied, and of the slot in each."""

GRAPH_CALL = "ftrace_graph_call"

OP_REF = bytes.fromhex("48 8b 15")
"""`mov rdx, [rip + rel32]`; the kernel's op_ref."""

STOP_TEST = bytes.fromhex("83 3d")
"""`cmp dword ptr [rip + rel32], imm8`."""

RET = 0xC3

_DISP = 4
_POINTER = 8


@dataclass(frozen=True, slots=True)
class Copies:
    """Makes trampolines; see `core.arch.Trampolines`."""

    def make(
        self, entry: EntryCode, base: int, caller: str, address: int, func: int, op: int
    ) -> TrampolineCode | None:
        """Return a copy of `caller`; None if its code is not of the form described above."""
        at = {name: base + offset for name, offset in entry.symbols.items()}
        needed = {caller, CALLERS.get(caller, ""), GRAPH_CALL}
        needed |= {"function_trace_stop", "function_trace_op"}
        if not needed <= at.keys():
            return None
        start, slot, graph = at[caller], at[CALLERS[caller]], at[GRAPH_CALL]
        end = _end(at, start, base + len(entry.code))
        code = entry.code[start - base : end - base]
        stop_at = _reference(code, start, STOP_TEST, 1, at["function_trace_stop"])
        op_at = _reference(code, start, OP_REF, 0, at["function_trace_op"])
        if start <= graph < end:
            jmp_at: int | None = graph - start
        else:
            jmp_at = _reference(code, start, bytes((insn.JMP,)), 0, graph)
        if stop_at is None or op_at is None or jmp_at is None or code[-1] != RET:
            return None
        pointer = -(-len(code) // _POINTER) * _POINTER
        fields = (
            (stop_at + len(STOP_TEST), 1, at["function_trace_stop"]),
            (op_at + len(OP_REF), 0, address + pointer),
        )
        text = bytearray(code)
        for field, rest, target in fields:
            distance = target - (address + field + _DISP + rest)
            if not -(1 << 31) <= distance < 1 << 31:
                return None
            text[field : field + _DISP] = distance.to_bytes(_DISP, "little", signed=True)
        for offset, opcode, target in (
            (slot - start, insn.CALL, func),
            (jmp_at, insn.JMP, graph),
        ):
            place, reached = (np.array([each], np.uint64) for each in (address + offset, target))
            branch, reachable = insn.rel32(opcode, place, reached)
            if not reachable[0]:
                return None
            text[offset : offset + insn.REL32_SIZE] = branch[0].tobytes()
        text += bytes(pointer - len(text)) + op.to_bytes(_POINTER, "little")
        return TrampolineCode(bytes(text), slot - start, pointer)


def _end(labels: dict[str, int], start: int, end: int) -> int:
    """Return the end of the code at `start`: the next label that is not part of it."""
    inner = {*CALLERS.values(), GRAPH_CALL, "ftrace_stub"}
    return min([end, *(at for name, at in labels.items() if at > start and name not in inner)])


def _reference(code: bytes, start: int, opcode: bytes, rest: int, target: int) -> int | None:
    """Return the offset in `code`, at `start`, of the `opcode rel32` that refers to `target`.

    `rest` is the number of bytes of the instruction after its displacement. None if no
    instruction of `code`, or more than one, refers to `target`.
    """
    found = []
    at = code.find(opcode)
    while at >= 0:
        end = at + len(opcode) + _DISP
        distance = int.from_bytes(code[end - _DISP : end], "little", signed=True)
        if end <= len(code) and start + end + rest + distance == target:
            found.append(at)
        at = code.find(opcode, at + 1)
    return found[0] if len(found) == 1 else None
