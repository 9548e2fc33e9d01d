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
from dataclasses import dataclass, replace

from ..abi import FTRACE_OPS_MAX
from ..arch import Port, trampolines_of
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
"""Greatest number of trampolines."""

_EACH = PAGE_SIZE // PLACE


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
        `op` are as they were when the trampoline was last used.
        """
        return [
            self._own(ops) or self._left(ops, registered, code_of) or self._make(ops, code_of)
            for ops in registered
        ]

    def of(self, registered: Sequence[FtraceOps]) -> list[OpsTrampoline]:
        """Return the trampolines of the registered ops, in their order."""
        if len(registered) < 2:
            return []
        return [each for each in map(self._own, registered) if each is not None]

    def set_func(self, trampoline: OpsTrampoline, func: int) -> None:
        """Store that its slot calls `func` now."""
        self._replace(trampoline, replace(trampoline, func=func))

    def set_op(self, trampoline: OpsTrampoline, op: int) -> None:
        """Pass `op` to its function from now on."""
        self._memory.write_int(trampoline.op, op)

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
        self, ops: FtraceOps, registered: Sequence[FtraceOps], code_of: Callable[[int], int]
    ) -> OpsTrampoline | None:
        """Return the trampoline of an unregistered user that also suits `ops`."""
        for each in self._all:
            same = each.func == code_of(ops.func) and each.ops.op == ops.op
            if same and each.ops not in registered and _fits(each, ops):
                return self._replace(each, replace(each, ops=ops))
        return None

    def _make(self, ops: FtraceOps, code_of: Callable[[int], int]) -> OpsTrampoline | None:
        number = len(self._all)
        if number == PLACES:
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
        if number % _EACH == 0:
            name = f"{TRAMPOLINE}s{number // _EACH}"
            self._memory.map(address, PAGE_SIZE, name, writable=False)
        self._memory.write(address, made.code)
        slot, op = address + made.slot, address + made.op
        self._all.append(OpsTrampoline(ops, caller, address, made.code, slot, func, op))
        self._name(self._all[-1])
        return self._all[-1]

    def _replace(self, old: OpsTrampoline, new: OpsTrampoline) -> OpsTrampoline:
        self._all[self._all.index(old)] = new
        return new

    def _name(self, trampoline: OpsTrampoline) -> None:
        labels = {TRAMPOLINE: trampoline.address}
        self._kallsyms.add(SymbolTable.of_labels(labels, trampoline.end), MODULE)


def _caller(ops: FtraceOps) -> str:
    return REGS_CALLER if ops.save_regs else CALLER


def _fits(trampoline: OpsTrampoline, ops: FtraceOps) -> bool:
    return trampoline.caller == _caller(ops)
