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
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..arch import Addresses, Edit
from ..distinct import distinct
from ..errors import FtraceBugType, MissingSymbolError
from ..kernel.kallsyms import Kallsyms
from ..machine.function import function_at
from ..machine.machine import Machine
from ..memento import Restore, attributes, in_order
from .entry import GRAPH_CALL, GRAPH_CALLER, Entry
from .ops import FtraceOps
from .opslist import OpsList, SiteArea, called_func
from .patch import joined
from .records import Records
from .targets import Change, Targets
from .text import FtraceText
from .trampolines import OpsTrampoline, OpsTrampolines

FUNCTIONS = "ftrace_functions"
"""The tracer's variable with the address of a table of functions; not every port has it."""

_PART = 7
"""That table's part of the area for the sites of hashes."""
_FOUND = np.zeros(2 * 256, np.uint64)
"""Room after that table for pairs that the guest has looked up, if it keeps them (FOUND)."""
UPDATE = FtraceBugType.UPDATE


@dataclass(frozen=True, slots=True)
class Untraceable:
    """Stands in for the tracer of a kernel that lacks a symbol the tracer needs."""

    missing: MissingSymbolError
    slot: ClassVar[int] = 0
    graph: ClassVar[bool] = False
    trampolines: ClassVar[None] = None


@dataclass(frozen=True, slots=True, eq=False)
class Users:
    """What the text should follow."""

    ops: Sequence[FtraceOps]
    """The registered ops."""
    pid_func: int | None
    """The guest function through which ops that obey pids are called; None without pids."""
    graph: bool
    """Whether the slot ftrace_graph_call should call ftrace_graph_caller."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The changes that the text needs for `users`; every place has been verified."""

    users: Users
    own: Sequence[OpsTrampoline | None]
    """The trampoline of each ops."""
    changes: Sequence[Change]
    func: int
    """Address of the code that the slots should call."""


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
        """Of the records when the table of functions was last compared with them."""
        self._starts: Addresses | None = None
        """What the table of functions has; None before it is written."""
        self._port = machine.port
        self._memory = machine.memory
        self._kallsyms = kallsyms
        self._text = text
        self._list = OpsList(machine.port.facts, entry, machine.memory)

    def save(self) -> Restore:
        """Return a function that restores the host's part; the machine saves the text."""
        own = attributes(self, "slot", "graph", "_generation", "_starts")
        parts = [own, self._list.save(), self._functions.save()]
        if self.trampolines is not None:
            parts.append(self.trampolines.save())
        return in_order(*parts)

    def plan(self, users: Users, undo: ExitStack) -> Plan:
        """Verify every place that must change for `users`, and return the changes.

        No text is written; the records count the new users, which `undo` reverts. The order of the
        checks is that of the writes. Raises `FtraceBug`.
        """
        undo.callback(self.targets.save())
        own = self._own_trampolines(users.ops)
        self.targets.count(users.ops, [0 if each is None else each.address for each in own])
        plan = Plan(users, own, self.targets.changes(self._port), self._wanted_func(users))
        for func in (self._code(self._list.func), plan.func):
            self._text.verify(self._slot_edit(self.slot, func), UPDATE, self.slot)
        for each in filter(None, own):
            if self.trampolines is not None and self.trampolines.at(each.address) is not None:
                self._text.verify(self._own_slot_edit(each, users.pid_func), UPDATE, each.func)
                self._text.verify(self.trampolines.intact(each), UPDATE, each.func)
        for change in plan.changes:
            self._text.verify(change.edit, change.type, change.target)
        if self.graph or users.graph:
            edit = self._graph_edit()
            edit = edit.reversed() if self.graph else edit
            self._text.verify(edit, UPDATE, self.entry[GRAPH_CALLER])
        return plan

    def write(self, plan: Plan, undo: ExitStack) -> None:
        """Write the changes of `plan`; `undo` reverts each of them.

        Each edit is verified again, because the guest may run in between. Raises `FtraceBug`.
        """
        users, between = plan.users, self._code(self._list.func)
        self._write_functions()
        self._list.write(users.ops, users.pid_func, undo)
        self._update_trampolines(plan, undo)
        undo.callback(setattr, self, "slot", self.slot)
        if plan.func != self.slot:
            self._set_slot(between, undo)
        self._text.apply_all(plan.changes, undo)
        for change in plan.changes:
            self.targets.done(change)
        if plan.func != self.slot:
            self._set_op(users.ops, undo)
            self._set_slot(plan.func, undo)
        if users.graph != self.graph:
            self._set_graph_caller(users.graph, undo)

    def _set_graph_caller(self, on: bool, undo: ExitStack) -> None:
        """Make ftrace_caller call ftrace_graph_caller, or not (`ftrace_modify_graph_caller`)."""
        edit = self._graph_edit()
        self._apply(edit if on else edit.reversed(), self.entry[GRAPH_CALLER], undo)
        undo.callback(setattr, self, "graph", self.graph)
        self.graph = on

    def _write_functions(self) -> None:
        """Write the start addresses of the records' functions to the tracer, if it has a table."""
        records = self._records
        if FUNCTIONS not in self.entry.symbols or self._generation == records.generation:
            return
        starts = distinct(self._kallsyms.starts_of(records.table["ip"]))
        # Restoring a checkpoint makes a new generation of the same records.
        if self._starts is None or not np.array_equal(starts, self._starts):
            counted = np.append(np.uint64(len(starts)), starts)
            table, _ = self._functions.write([counted, _FOUND])
            self._memory.write_int(self.entry[FUNCTIONS], table)
            self._starts = starts
        self._generation = records.generation

    def _graph_edit(self) -> Edit:
        """Return the edit that makes ftrace_caller call ftrace_graph_caller."""
        slot, caller = (self.entry[name] for name in (GRAPH_CALL, GRAPH_CALLER))
        return self._port.enable_graph_caller(slot, caller)

    def _apply(self, edit: Edit, target: int, undo: ExitStack) -> None:
        """Apply the edit of slots; `undo` puts the text back."""
        self._text.apply(edit, UPDATE, target)
        undo.callback(self._text.put_back, edit)

    def _own_trampolines(self, ops: Sequence[FtraceOps]) -> list[OpsTrampoline | None]:
        """Return the trampoline of each ops; a single ops has none and uses ftrace_caller."""
        if self.trampolines is None or len(ops) < 2:
            return [None] * len(ops)
        return self.trampolines.ready(ops, self._code)

    def _own_slot_edit(self, trampoline: OpsTrampoline, pid_func: int | None) -> Edit:
        """Return the edit that makes a trampoline's slot call the function of its ops."""
        func = self._code(called_func(trampoline.ops, pid_func))
        return self._port.update_ftrace_func(trampoline.slot, trampoline.func, func)

    def _update_trampolines(self, plan: Plan, undo: ExitStack) -> None:
        """Make each trampoline call its ops' current function (`ftrace_update_trampoline`)."""
        for number, each in enumerate(plan.own):
            if each is None or self.trampolines is None:
                continue
            self.trampolines.install(each, undo)
            self.trampolines.set_op(each, self._list.op_of(number, each.ops), undo)
            func = self._code(called_func(each.ops, plan.users.pid_func))
            if func != each.func:
                self._apply(self._own_slot_edit(each, plan.users.pid_func), each.func, undo)
                self.trampolines.set_func(each, func, undo)

    def _wanted_func(self, users: Users) -> int:
        """Return the address of the code that the slots should call for `users`."""
        if not users.ops:
            return self.entry["ftrace_stub"]
        if len(users.ops) == 1:
            return self._code(called_func(users.ops[0], users.pid_func))
        return self._code(self._list.func)

    def _code(self, pointer: int) -> int:
        """Return the address of the code that a function pointer of the guest leads to."""
        return function_at(self._port.facts, self._memory, self._kallsyms, pointer).code

    def _set_slot(self, func: int, undo: ExitStack) -> None:
        """Make all slots call `func`."""
        if func != self.slot:
            self._apply(self._slot_edit(self.slot, func), self.slot, undo)
            self.slot = func

    def _set_op(self, ops: Sequence[FtraceOps], undo: ExitStack) -> None:
        """Set the third argument of the function that the slots call."""
        if "function_trace_op" not in self.entry.symbols:
            return
        word = self.entry["function_trace_op"]
        op = self._list.op_of(0, ops[0]) if ops else self._list.table
        undo.callback(self._memory.write_int, word, self._memory.read_int(word))
        self._memory.write_int(word, op)

    def _slot_edit(self, old: int, new: int) -> Edit:
        """Return one edit of all slots: they always call the same function."""
        slots = self.entry.slots
        return joined(*(self._port.update_ftrace_func(slot, old, new) for slot in slots))
