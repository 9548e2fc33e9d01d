"""A trampoline for each of several users, on ports that make them.

While one user is registered, ftrace_caller calls its function and no trampoline exists.
With several, each user gets a copy of ftrace_caller (or of ftrace_regs_caller if it wants
registers) that calls only its function. A site that no other user wants calls that copy,
which need not look up its users (FTRACE_OPS_FL_ALLOC_TRAMP).

A CPU or an interrupted task may stay inside a trampoline for any time, so trampolines are
never removed. A user that is registered again gets its old trampoline back. After a user is
unregistered, another user may get its trampoline if function and `FtraceOps.op` are the
same, so that a CPU inside still works correctly. If no room is left, a user shares
ftrace_caller, as in a kernel that is out of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np

from ..abi import FTRACE_OPS_MAX
from ..arch import Edit, Port, trampolines_of
from ..elf.symbols import SymbolTable
from ..kernel.kallsyms import Kallsyms
from ..machine.memory import PAGE_SIZE, Memory
from ..memento import Restore, attributes
from .entry import CALLER, REGS_CALLER, TRAMPOLINE, Entry
from .ops import FtraceOps

MODULE = "__builtin__ftrace"
"""The module that kallsyms shows for trampolines (FTRACE_TRAMPOLINE_MOD)."""

PLACE = 512
"""Bytes reserved for each trampoline."""

PLACES = 32 * FTRACE_OPS_MAX
"""Maximum number of trampolines."""

_EACH = PAGE_SIZE // PLACE
_PIECE = 8


@dataclass(frozen=True, slots=True, eq=False)
class OpsTrampoline:
    """The trampoline of one user."""

    ops: FtraceOps
    caller: str
    """Name of the caller of which it is a copy."""
    address: int
    code: bytes
    """Its code as it was made, including the word `op`."""
    slot: int
    """Guest address of the slot that calls `func`."""
    func: int
    """Address of the code that the slot calls."""
    op: int
    """Guest address of the word that holds the function's third argument."""

    @property
    def end(self) -> int:
        """The first address after it."""
        return self.address + len(self.code)


class OpsTrampolines:
    """The trampolines of one machine."""

    def __init__(self, port: Port, entry: Entry, memory: Memory, kallsyms: Kallsyms) -> None:
        self._port = port
        self._entry = entry
        self._memory = memory
        self._kallsyms = kallsyms
        self._first = entry.end + PAGE_SIZE
        self._all: list[OpsTrampoline] = []

    def ready(
        self, registered: Sequence[FtraceOps], code_of: Callable[[int], int]
    ) -> list[OpsTrampoline | None]:
        """Return each registered ops' trampoline, made if necessary; None if no room is left.

        `code_of` returns the code that a function pointer leads to. The slot and the word
        `op` are as they were when the trampoline was last used. Nothing is written:
        `install` does that.
        """
        found: list[OpsTrampoline | None] = []
        for ops in registered:
            taken = [each.address for each in found if each is not None]
            found.append(
                self._own(ops)
                or self._left(ops, registered, taken, code_of)
                or self._make(ops, taken, code_of)
            )
        return found

    def install(self, trampoline: OpsTrampoline, undo: ExitStack) -> None:
        """Give a trampoline of `ready` to its user, and write it to memory if it is new.

        `undo` takes it away from this user; a new trampoline stays, because a CPU may be inside.
        """
        number = self._number(trampoline.address)
        if number < len(self._all):
            self._put(trampoline, undo)
            return
        if number % _EACH == 0:
            page = f"{TRAMPOLINE}s{number // _EACH}"
            self._memory.map(trampoline.address, PAGE_SIZE, page, writable=False)
        self._memory.write(trampoline.address, trampoline.code)
        self._all.append(trampoline)
        self._name(trampoline)

    def of(self, registered: Sequence[FtraceOps]) -> list[OpsTrampoline]:
        """Return the trampolines of the registered ops, in their order."""
        if len(registered) < 2:
            return []
        return [each for each in map(self._own, registered) if each is not None]

    def set_func(self, trampoline: OpsTrampoline, func: int, undo: ExitStack) -> None:
        """Store that its slot calls `func` now; `undo` reverts that."""
        self._put(replace(trampoline, func=func), undo)

    def set_op(self, trampoline: OpsTrampoline, op: int, undo: ExitStack) -> None:
        """Pass `op` to its function from now on; `undo` reverts that."""
        before = self._memory.read_int(trampoline.op)
        self._memory.write_int(trampoline.op, op)
        undo.callback(self._memory.write_int, trampoline.op, before)

    def at(self, address: int) -> OpsTrampoline | None:
        """Return the trampoline that contains `address`."""
        number, offset = divmod(address - self._first, PLACE)
        if not 0 <= number < len(self._all) or offset >= len(self._all[number].code):
            return None
        return self._all[number]

    def calls(self, address: int) -> int | None:
        """Return what the slot of the trampoline at `address` calls, read from memory."""
        own = self.at(address)
        if own is None:
            return None
        edit = self._port.update_ftrace_func(own.slot, own.func, own.func)
        return self._port.call_target(own.slot, self._memory.read(own.slot, edit.expected.shape[1]))

    def intact(self, trampoline: OpsTrampoline) -> Edit:
        """Return an edit that expects the trampoline's code and writes the same.

        Each of its places is a piece of `_PIECE` bytes. The word `op` may have any value.
        """
        code = bytearray(trampoline.code)
        slot = self._port.update_ftrace_func(trampoline.slot, trampoline.func, trampoline.func)
        for address, text in (
            (trampoline.slot, slot.expected.tobytes()),
            (trampoline.op, self._memory.read(trampoline.op, self._memory.pointer_size)),
        ):
            start = address - trampoline.address
            code[start : start + len(text)] = text
        count = -(-len(code) // _PIECE)
        pieces = np.frombuffer(bytes(code).ljust(count * _PIECE, b"\0"), np.uint8)
        shaped = pieces.reshape(count, _PIECE)
        starts = np.arange(count) * _PIECE
        return Edit(
            np.uint64(trampoline.address) + starts.astype(np.uint64),
            shaped,
            shaped,
            np.ones(count, np.bool_),
            lengths=np.minimum(_PIECE, len(code) - starts),
        )

    def text(self, address: int) -> str:
        """Return the kernel's text about the trampoline at `address` and its ops' function."""
        own = self.at(address)
        if own is None:
            return "\ttramp: ERROR!"
        name = self._kallsyms.format
        return f"\ttramp: {name(own.address)} ({name(own.func)})"

    @property
    def made(self) -> tuple[OpsTrampoline, ...]:
        """All trampolines made so far, also those of users that are no longer registered."""
        return tuple(self._all)

    def save(self) -> Restore:
        """Return a function that restores the trampolines; kallsyms saves their names."""
        return attributes(self, "_all")

    def _own(self, ops: FtraceOps) -> OpsTrampoline | None:
        """Return the trampoline that `ops` already has."""
        return next((each for each in self._all if each.ops is ops and _fits(each, ops)), None)

    def _left(
        self,
        ops: FtraceOps,
        registered: Sequence[FtraceOps],
        taken: Sequence[int],
        code_of: Callable[[int], int],
    ) -> OpsTrampoline | None:
        """Return the trampoline of an unregistered user that also suits `ops`.

        Trampolines at the addresses `taken` are excluded.
        """
        for each in self._all:
            same = each.func == code_of(ops.func) and each.ops.op == ops.op
            free = each.ops not in registered and each.address not in taken
            if same and free and _fits(each, ops):
                return replace(each, ops=ops)
        return None

    def _make(
        self, ops: FtraceOps, taken: Sequence[int], code_of: Callable[[int], int]
    ) -> OpsTrampoline | None:
        """Return a new trampoline for `ops`, after those in memory and those at `taken`."""
        new = [each for each in taken if self._number(each) >= len(self._all)]
        number = len(self._all) + len(new)
        if number >= PLACES:
            return None
        address = self._first + number * PLACE
        caller, func = _caller(ops), code_of(ops.func)
        entry = self._entry
        maker = trampolines_of(self._port)
        if maker is None:
            return None
        made = maker.make(entry.assembled, entry.address, caller, address, func, ops.op or 0)
        if made is None or len(made.code) > PLACE:
            return None
        slot, op = address + made.slot, address + made.op
        return OpsTrampoline(ops, caller, address, made.code, slot, func, op)

    def _number(self, address: int) -> int:
        return (address - self._first) // PLACE

    def _put(self, trampoline: OpsTrampoline, undo: ExitStack) -> None:
        """Store the trampoline in place of the one at its address; `undo` reverts that."""
        number = self._number(trampoline.address)
        undo.callback(self._all.__setitem__, number, self._all[number])
        self._all[number] = trampoline

    def _name(self, trampoline: OpsTrampoline) -> None:
        labels = {TRAMPOLINE: trampoline.address}
        self._kallsyms.add(SymbolTable.of_labels(labels, trampoline.end), MODULE)


def _caller(ops: FtraceOps) -> str:
    return REGS_CALLER if ops.save_regs else CALLER


def _fits(trampoline: OpsTrampoline, ops: FtraceOps) -> bool:
    return trampoline.caller == _caller(ops)
