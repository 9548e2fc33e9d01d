"""What enabled sites call: ftrace_caller, its slots, and the trampolines of single users.

The text follows one rule. A site holds a call of ftrace_caller exactly if a registered
ops wants it, and a call of ftrace_regs_caller if one of these ops wants the registers.
The slots inside both callers call ftrace_stub with no ops, the ops' own function with
one, and ftrace_ops_list_func with several. On ports that make trampolines, each of
several ops has its own, and a site that only one ops wants calls that (targets.py,
trampolines.py).

The guest may run while text changes. During every change the slots call
ftrace_ops_list_func, which consults the table of ops and so is right at any moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..arch import Edit
from ..errors import MissingSymbolError
from ..kernel.kallsyms import Kallsyms
from ..machine.function import function_at
from ..machine.machine import Machine
from ..memento import Restore, attributes, in_order
from .bug import Step
from .entry import GRAPH_CALL, GRAPH_CALLER, Entry
from .ops import FtraceOps
from .opslist import OpsList, SiteArea, called_func
from .patch import joined
from .records import Records
from .targets import Targets
from .text import FtraceText
from .trampolines import OpsTrampoline, OpsTrampolines

FUNCTIONS = "ftrace_functions"
"""The tracer's variable with the address of a table of functions; not every port has it."""

_PART = 7
"""That table's part of the area for the sites of hashes."""


@dataclass(frozen=True, slots=True)
class Untraceable:
    """Stands in for the tracer of a kernel that lacks a symbol the tracer needs."""

    missing: MissingSymbolError
    slot: ClassVar[int] = 0
    graph: ClassVar[bool] = False
    trampolines: ClassVar[None] = None


class Tracer:
    """The loaded entry code and tracer of one machine."""

    def __init__(
        self,
        machine: Machine,
        kallsyms: Kallsyms,
        records: Records,
        entry: Entry,
        text: FtraceText,
        trampolines: OpsTrampolines | None,
    ) -> None:
        self.entry = entry
        self.targets = Targets(records, entry.callers)
        self.trampolines = trampolines
        """Trampolines of single users; None if the port makes none."""
        self.slot = entry["ftrace_stub"]
        """Guest address of the code that ftrace_call and ftrace_regs_call call now."""
        self.graph = False
        """Whether the slot ftrace_graph_call calls ftrace_graph_caller."""
        self._records = records
        self._functions = SiteArea(machine.port.facts, machine.memory, "ftrace_functions", _PART)
        self._generation = -1
        """Of the records in the table of functions."""
        self._port = machine.port
        self._memory = machine.memory
        self._kallsyms = kallsyms
        self._text = text
        self._list = OpsList(machine.port.facts, entry, machine.memory)

    def save(self) -> Restore:
        """Return a function that restores the host's part; the machine saves the text."""
        parts = [attributes(self, "slot", "graph"), self._list.save()]
        if self.trampolines is not None:
            parts.append(self.trampolines.save())
        return in_order(*parts)

    def follow(self, ops: Sequence[FtraceOps], pid_func: int | None) -> None:
        """Make the text call the registered `ops`.

        `pid_func` is the guest function through which ops that obey pids are called; None
        if no pids are set. Raises `FtraceBug` with nothing written.
        """
        own = self._own_trampolines(ops)
        self.targets.count(ops, [0 if each is None else each.address for each in own])
        changes = self.targets.changes(self._port)
        func = self._wanted_func(ops, pid_func)
        between = self._code(self._list.func)
        # Verify everything before writing anything. The patcher verifies each edit again
        # when it writes, because the guest may run in between.
        self._text.verify(self._slot_edit(self.slot, between), Step.UPDATE, self.slot)
        for each in filter(None, own):
            self._text.verify(self._own_slot_edit(each, pid_func), Step.UPDATE, each.func)
        for change in changes:
            self._text.verify(change.edit, change.step, change.target)
        self._write_functions()
        self._list.write(ops, pid_func)
        self._update_trampolines(own, pid_func)
        if func != self.slot:
            self._set_slot(between)
        self._text.apply_all(changes)
        for change in changes:
            self.targets.done(change)
        if func != self.slot:
            if "function_trace_op" in self.entry.symbols:
                op = self._list.op_of(0, ops[0]) if ops else self._list.table
                self._memory.write_int(self.entry["function_trace_op"], op)
            self._set_slot(func)

    def set_graph_caller(self, on: bool) -> None:
        """Make ftrace_caller call ftrace_graph_caller, or not (`ftrace_modify_graph_caller`).

        Raises `MissingSymbolError` if the port has no ftrace_graph_caller, and `FtraceBug`.
        """
        if on == self.graph:
            return
        slot, caller = (self.entry.label(name) for name in (GRAPH_CALL, GRAPH_CALLER))
        edit = self._port.enable_graph_caller(slot, caller)
        self._text.apply(edit if on else edit.reversed(), Step.UPDATE, caller)
        self.graph = on

    def _write_functions(self) -> None:
        """Tell the tracer where the functions of the records start, if it asks for them."""
        records = self._records
        if FUNCTIONS not in self.entry.symbols or self._generation == records.generation:
            return
        starts = np.unique(self._kallsyms.starts_of(records.table["ip"]))
        (table,) = self._functions.write([np.append(np.uint64(len(starts)), starts)])
        self._memory.write_int(self.entry[FUNCTIONS], table)
        self._generation = records.generation

    def _own_trampolines(self, ops: Sequence[FtraceOps]) -> list[OpsTrampoline | None]:
        """Return the trampoline of each ops; a single ops has none and uses ftrace_caller."""
        if self.trampolines is None or len(ops) < 2:
            return [None] * len(ops)
        return self.trampolines.ready(ops, self._code)

    def _own_slot_edit(self, trampoline: OpsTrampoline, pid_func: int | None) -> Edit:
        """Return the edit that makes a trampoline's slot call the function of its ops."""
        func = self._code(called_func(trampoline.ops, pid_func))
        return self._port.update_ftrace_func(trampoline.slot, trampoline.func, func)

    def _update_trampolines(
        self, own: Sequence[OpsTrampoline | None], pid_func: int | None
    ) -> None:
        """Make each trampoline call its ops' current function (`ftrace_update_trampoline`)."""
        for number, each in enumerate(own):
            if each is None or self.trampolines is None:
                continue
            self.trampolines.set_op(each, self._list.op_of(number, each.ops))
            func = self._code(called_func(each.ops, pid_func))
            if func != each.func:
                self._text.apply(self._own_slot_edit(each, pid_func), Step.UPDATE, each.func)
                self.trampolines.set_func(each, func)

    def _wanted_func(self, ops: Sequence[FtraceOps], pid_func: int | None) -> int:
        """Return the address of the code that the slots should call for `ops`."""
        if not ops:
            return self.entry["ftrace_stub"]
        if len(ops) == 1:
            return self._code(called_func(ops[0], pid_func))
        return self._code(self.entry["ftrace_ops_list_func"])

    def _code(self, pointer: int) -> int:
        """Return the address of the code that a function pointer of the guest leads to."""
        return function_at(self._port.facts, self._memory, self._kallsyms, pointer).code

    def _set_slot(self, func: int) -> None:
        """Make all slots call `func`."""
        if func != self.slot:
            self._text.apply(self._slot_edit(self.slot, func), Step.UPDATE, self.slot)
            self.slot = func

    def _slot_edit(self, old: int, new: int) -> Edit:
        """Return one edit of all slots: they always call the same function."""
        slots = self.entry.slots
        return joined(*(self._port.update_ftrace_func(slot, old, new) for slot in slots))
