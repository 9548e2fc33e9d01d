"""The core of dynamic ftrace: records, who wants them, and the text that follows.

At start every site is turned from what the compiler left into a nop. From then
on the text follows one rule: a site holds a call of ftrace_caller exactly when
some registered ops wants it, of ftrace_regs_caller when one of these wants the
registers, and the slot inside each of the two calls ftrace_stub with no ops,
the ops' own function with one, and ftrace_ops_list_func with several. Where the port
makes trampolines, with several ops each has its own, and a site that only one of them
wants calls that instead (targets.py, trampolines.py).

The guest may run while text changes, so the slots call the list function during
every change of them: that function looks at the table of ops and is right before,
during and after.

A site that does not hold what ftrace left there is a bug: nothing is written,
the report goes to dmesg, and ftrace stays off until the machine is started
anew, as in the kernel.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..abi import FTRACE_OPS_MAX
from ..arch import Addresses, Edit, ModuleStub, Sites, trampolines_of
from ..elf.image import Image
from ..errors import FtraceBug, MissingSymbolError, NoCallSitesError, TracefsError
from ..kallsyms import Kallsyms
from ..machine.function import function_at
from ..machine.machine import Machine
from . import bug
from .bug import Step, callee_name, stub_name, with_callees
from .entry import CALLER, GRAPH_CALL, GRAPH_CALLER, REGS_CALLER, Entry, load_entry
from .ftraced import FTRACED, Found, Ftraced, SavedFtraced
from .ops import FtraceHash, FtraceOps
from .opslist import OpsList, called_func
from .patch import STOP_MACHINE, Patcher, joined
from .pids import FtracePids, SavedPids
from .records import Flag, Records, SavedRecords
from .sites import call_sites, code_ranges
from .targets import Targets
from .trampolines import OpsTrampoline, OpsTrampolines


@dataclass(frozen=True, slots=True, eq=False)
class SavedFtrace:
    """Ftrace at one moment, for `Ftrace.restore`."""

    records: SavedRecords
    ops: tuple[tuple[FtraceOps, FtraceHash, FtraceHash], ...]
    disabled: bool
    slot: int
    ftraced: SavedFtraced | None
    graph: bool
    trampolines: tuple[OpsTrampoline, ...]
    pids: SavedPids


class Ftrace:
    """Dynamic ftrace of one machine whose kernel has been loaded but has not run yet."""

    def __init__(
        self,
        machine: Machine,
        kernel: Image,
        kallsyms: Kallsyms,
        discovery: str | None = None,
    ) -> None:
        """`discovery` is one of the port's, None for its default."""
        self.port = machine.port
        self.kernel = kernel
        self.kallsyms = kallsyms
        self.patcher = Patcher(machine, machine.port)
        # ip, flags and, where sites may call stubs, the module they are of.
        words = 2 if machine.port.stubs is None else 3
        facts = machine.port.facts
        self.records = Records(facts.sites.size, words * facts.pointer_size)
        self.ops: list[FtraceOps] = []
        """The registered ones, in the order they came."""
        self.disabled = False
        """Set for good by a bug (`ftrace_disabled`)."""
        self.bug: FtraceBug | None = None
        """The bug that shut ftrace off, with its report."""
        self.slot = 0
        """Guest address of the code that the slots `ftrace_call`, `ftrace_regs_call` call now."""
        self.graph = False
        """Whether the slot `ftrace_graph_call` calls ftrace_graph_caller."""
        self.trampolines: OpsTrampolines | None = None
        """Those of single users, on ports that have such."""
        self.ftraced: Ftraced | None = None
        """Finds the sites of a kernel that has no table of them."""
        self.pids = FtracePids(machine, self)
        self._discovery = discovery or facts.discovery[0]
        self._machine = machine
        self._memory = machine.memory
        self._entry: Entry | MissingSymbolError | None = None
        self._list: OpsList | None = None
        self._targets = Targets(self.records, {})
        self._by_mcount: tuple[ModuleStub, ...] = ()

    # Records

    def init(self, source: str | None = None) -> None:
        """Load the entry code and the tracer, and turn every site of the kernel into a nop.

        Those that ftraced finds become nops as the kernel runs. `source` stands in for
        the port's entry.S. A kernel without something the tracer needs is still
        loaded: `entry` raises what is missing. Raises `NoCallSitesError`,
        `MissingSymbolError` for mcount or ftraced, and `FtraceBug`.
        """
        try:
            self._entry = load_entry(self.port, self.kernel, self._memory, self.kallsyms, source)
        except MissingSymbolError as error:
            self._entry = error
        else:
            self.slot = self._entry["ftrace_stub"]
            self._list = OpsList(self.port.facts, self._entry, self._memory)
            self._targets = Targets(self.records, self._entry.callers)
            if trampolines_of(self.port) is not None:
                entry, memory = self._entry, self._memory
                self.trampolines = OpsTrampolines(self.port, entry, memory, self.kallsyms)
        if self._discovery == FTRACED:
            machine, kernel = self._machine, self.kernel
            self.mcount()
            self.ftraced = Ftraced(machine, kernel, self.records, self._found, self._set_mcount)
            return
        ips = call_sites(self.port, self.kernel, self._memory.read)
        if not len(ips):
            raise NoCallSitesError(
                str(self.kernel.path), "no call sites: neither a list of them nor calls of mcount"
            )
        self._dyn_arch_init()
        self._add(ips, None)

    def _dyn_arch_init(self) -> None:
        """Make mcount lead to ftrace_caller, where sites can reach nothing else."""
        if not isinstance(self._entry, Entry):
            return
        caller = self._entry[CALLER]
        edit = self.port.dyn_arch_init(self.mcount(), caller)
        if edit is not None:
            self._apply(edit, Step.INIT, caller, STOP_MACHINE)
            code = edit.replacement[0].tobytes()
            self._by_mcount = (ModuleStub(int(edit.address[0]), code, caller, CALLER),)

    def module_init(
        self,
        name: str,
        image: Image,
        bases: Mapping[int, int],
        stubs: Sequence[ModuleStub] = (),
    ) -> None:
        """Make records of a module that is in memory but has not run; trace what is wanted.

        `stubs` are what its calls go through (`struct dyn_arch_ftrace`). Raises
        `ImageError` for a list of sites that makes no sense, and `FtraceBug`.
        """
        if self.ftraced is not None:
            self.ftraced.module_loaded(name, code_ranges(image, bases))
            return
        ips = call_sites(self.port, image, self._memory.read, bases)
        if len(ips):
            self._add(ips, name, (*self._by_mcount, *stubs))
            if self.ops and not self.disabled:
                self._follow()

    def module_release(self, name: str) -> None:
        """Drop the records of a module that will not run again, from the hashes too."""
        known = len(self.records)
        if self.ftraced is not None:
            self.ftraced.module_gone(name)
        found = len(self.records) > known
        gone = self.records.remove(name)
        for ops in self.ops:
            ops.filter_hash = ops.filter_hash.forget(gone)
            ops.notrace_hash = ops.notrace_hash.forget(gone)
        if found and self.ops and not self.disabled:
            # A CPU was noting a site when tracing began.
            with contextlib.suppress(FtraceBug):
                self._follow()

    def save(self) -> SavedFtrace:
        """The host's side of ftrace; the text is the machine's to keep."""
        ops = tuple((each, each.filter_hash, each.notrace_hash) for each in self.ops)
        ftraced = None if self.ftraced is None else self.ftraced.save()
        trampolines = () if self.trampolines is None else self.trampolines.save()
        return SavedFtrace(
            *(self.records.save(), ops, self.disabled, self.slot, ftraced, self.graph),
            *(trampolines, self.pids.save()),
        )

    def restore(self, saved: SavedFtrace) -> None:
        """Go back, after the machine's memory has gone back to the same moment."""
        self.records.restore(saved.records)
        self.ops = [each for each, _, _ in saved.ops]
        for each, filter_hash, notrace_hash in saved.ops:
            each.filter_hash, each.notrace_hash = filter_hash, notrace_hash
        self.disabled, self.slot, self.graph = saved.disabled, saved.slot, saved.graph
        if self.trampolines is not None:
            self.trampolines.restore(saved.trampolines)
        self.pids.restore(saved.pids)
        if self.ftraced is not None and saved.ftraced is not None:
            self.ftraced.restore(saved.ftraced)

    # Users

    @property
    def entry(self) -> Entry:
        """The entry code; raises `MissingSymbolError` where the kernel lacks what it needs."""
        if isinstance(self._entry, Entry):
            return self._entry
        raise self._entry or MissingSymbolError(str(self.kernel.path), CALLER)

    @property
    def call_target(self) -> int | None:
        """The function that calls arrive at; None while nobody is registered."""
        return self.slot if self.ops else None

    def register(self, ops: FtraceOps) -> None:
        """Have `ops` called from the sites it wants (`register_ftrace_function`).

        Raises `TracefsError` (EBUSY when it is registered or the guest's table
        is full, EINVAL when it wants registers and the port saves none, ENODEV when
        ftrace is off), `MissingSymbolError`, and `FtraceBug`, after which `ops` is
        not registered.
        """
        self.check()
        if ops.save_regs and REGS_CALLER not in self.entry.callers:
            reason = f"{self.port.facts.name} has no {REGS_CALLER} to save registers"
            raise TracefsError(errno.EINVAL, f"{os.strerror(errno.EINVAL)}: {reason}")
        if ops in self.ops or len(self.ops) == FTRACE_OPS_MAX:
            raise TracefsError(errno.EBUSY)
        if self.ftraced is not None and not self.ops:
            self.ftraced.collect()
            self._verify(self.ftraced.mcount_edit(suspended=True), Step.UPDATE, self.mcount())
        self.ops.append(ops)
        try:
            self._follow()
        except FtraceBug:
            self.ops.remove(ops)
            raise
        self._suspend_ftraced()

    def unregister(self, ops: FtraceOps) -> None:
        """Stop calling `ops`. Raises `TracefsError` (EBUSY, ENODEV) and `FtraceBug`."""
        self.check()
        if ops not in self.ops:
            raise TracefsError(errno.EBUSY)
        self.ops.remove(ops)
        self._follow()
        self._suspend_ftraced()

    def set_graph_caller(self, on: bool) -> None:
        """Have ftrace_caller call ftrace_graph_caller, or not (`ftrace_modify_graph_caller`).

        Raises `TracefsError` (ENODEV), `MissingSymbolError` where the port has none, and
        `FtraceBug`.
        """
        self.check()
        if on == self.graph:
            return
        slot, caller = (self.entry.label(name) for name in (GRAPH_CALL, GRAPH_CALLER))
        edit = self.port.enable_graph_caller(slot, caller)
        self._apply(edit if on else edit.reversed(), Step.UPDATE, caller)
        self.graph = on

    def set_hashes(
        self,
        ops: FtraceOps,
        filter_hash: FtraceHash | None = None,
        notrace_hash: FtraceHash | None = None,
    ) -> None:
        """Give `ops` new hashes; the text follows if it is registered.

        Raises `TracefsError` (ENODEV) and `FtraceBug`; the hashes stay changed
        after a bug, as the kernel's do.
        """
        self.check()
        if filter_hash is not None:
            ops.filter_hash = filter_hash
        if notrace_hash is not None:
            ops.notrace_hash = notrace_hash
        if ops in self.ops:
            self._follow()

    def check(self) -> None:
        """Raise `TracefsError` (ENODEV) when ftrace is off, or what the tracer misses."""
        if self.disabled:
            raise TracefsError(errno.ENODEV)
        _ = self.entry

    def users_of(self, row: int) -> list[FtraceOps]:
        """The registered ops that want record `row`."""
        ip = self.records.table["ip"][row : row + 1]
        return [ops for ops in self.ops if ops.matches(ip)[0]]

    def target_of(self, row: int) -> int:
        """What the call of record `row` reaches, or would if it were enabled now.

        Raises `MissingSymbolError` for a kernel without the entry code.
        """
        _ = self.entry
        return self._targets.of(row)

    # Text

    def mcount(self) -> int:
        """What sites call as compiled. Raises `MissingSymbolError`."""
        names = self.port.facts.sites.mcount_symbols
        for name in names:
            address = self.kernel.symbols.address_of(name)
            if address is not None:
                return address
        raise MissingSymbolError(str(self.kernel.path), names[0])

    def _add(self, ips: Addresses, module: str | None, stubs: Sequence[ModuleStub] = ()) -> None:
        """Add records for `ips` and make their sites nops."""
        size = self.port.facts.sites.size
        compiled, _ = self._memory.gather(ips, size)
        rows = self.records.add(ips, self.kallsyms.names_of(ips), compiled, module, stubs)
        if self.disabled:
            return
        mcount = self.mcount()
        edit = self.port.init_nop(self.records.sites(rows), mcount)
        self._apply(edit, Step.INIT, mcount, STOP_MACHINE)  # nothing runs there yet

    def _found(self, found: Sequence[Found]) -> None:
        """Add records for what ftraced has found and make the sites nops, all or none."""
        start, mcount = len(self.records), self.mcount()
        for ips, module in found:
            # The compiler left calls of mcount, whatever is there by now.
            compiled = self.port.modify_call(Sites(ips), mcount, mcount).expected
            self.records.add(ips, self.kallsyms.names_of(ips), compiled, module, found=True)
        rows = slice(start, len(self.records))
        edit = self.port.init_nop(self.records.sites(rows), mcount)
        try:
            self._apply(edit, Step.INIT, mcount, STOP_MACHINE)
        except FtraceBug as refused:
            self.records.refuse(rows, refused.ip)
            raise

    def _set_mcount(self, edit: Edit) -> None:
        """Have mcount call something else."""
        self._apply(edit, Step.UPDATE, self.mcount(), STOP_MACHINE)

    def _suspend_ftraced(self) -> None:
        """Nothing is found while functions are traced."""
        if self.ftraced is not None:
            self.ftraced.suspend(bool(self.ops))

    def _follow(self) -> None:
        """Make text agree with the registered ops. Raises `FtraceBug` with nothing written."""
        assert self._list is not None
        targets = self._targets
        own = self._own_trampolines()
        targets.count(self.ops, [0 if each is None else each.address for each in own])
        changes = targets.changes(self.port)
        func = self._wanted_func()
        between = self._code(self._list.func)
        # All of it before any of it; each is looked at again when its turn comes, because
        # the guest may run in between.
        self._verify(self._slot_edit(self.slot, between), Step.UPDATE, self.slot)
        for each in filter(None, own):
            self._verify(self._own_slot_edit(each), Step.UPDATE, each.func)
        for change in changes:
            self._verify(change.edit, change.step, change.old or change.new)
        self._list.write(self.ops, self.pids.func)
        self._update_trampolines(own)
        if func != self.slot:
            self._set_slot(between)
        if changes:
            self._apply(joined(*(change.edit for change in changes)), None)
        for change in changes:
            targets.done(change)
        if func != self.slot:
            if "function_trace_op" in self.entry.symbols:
                op = self._list.op_of(0, self.ops[0]) if self.ops else self._list.table
                self._memory.write_int(self.entry["function_trace_op"], op)
            self._set_slot(func)

    def _own_trampolines(self) -> list[OpsTrampoline | None]:
        """The trampoline of each registered ops; none while a single one has ftrace_caller."""
        if self.trampolines is None or len(self.ops) < 2:
            return [None] * len(self.ops)
        return self.trampolines.ready(self.ops, self._code)

    def _own_slot_edit(self, trampoline: OpsTrampoline) -> Edit:
        """The slot of a trampoline, which shall call the function of its ops."""
        func = self._code(called_func(trampoline.ops, self.pids.func))
        return self.port.update_ftrace_func(trampoline.slot, trampoline.func, func)

    def _update_trampolines(self, own: Sequence[OpsTrampoline | None]) -> None:
        """Have each call its ops' function as it is now (`ftrace_update_trampoline`)."""
        assert self._list is not None
        for number, each in enumerate(own):
            if each is None or self.trampolines is None:
                continue
            self.trampolines.set_op(each, self._list.op_of(number, each.ops))
            func = self._code(called_func(each.ops, self.pids.func))
            if func != each.func:
                self._apply(self._own_slot_edit(each), Step.UPDATE, each.func)
                self.trampolines.set_func(each, func)

    def _wanted_func(self) -> int:
        """The code the slot shall call for the registered ops."""
        if not self.ops:
            return self.entry["ftrace_stub"]
        if len(self.ops) == 1:
            return self._code(called_func(self.ops[0], self.pids.func))
        return self._code(self.entry["ftrace_ops_list_func"])

    def _code(self, pointer: int) -> int:
        """The code a function pointer of the guest leads to."""
        return function_at(self.port.facts, self._memory, self.kallsyms, pointer).code

    def _set_slot(self, func: int) -> None:
        if func != self.slot:
            self._apply(self._slot_edit(self.slot, func), Step.UPDATE, self.slot)
            self.slot = func

    def _slot_edit(self, old: int, new: int) -> Edit:
        """The slots together: all of them call the same."""
        slots = self.entry.slots
        return joined(*(self.port.update_ftrace_func(slot, old, new) for slot in slots))

    def _verify(self, edit: Edit, step: Step, target: int) -> None:
        """Verify `edit`; a bug is reported and shuts ftrace off."""
        try:
            self.patcher.verify(edit, self._stubs(edit))
        except FtraceBug as found:
            raise self._shut_off(found, step, target) from found

    def _apply(
        self, edit: Edit, step: Step | None, target: int = 0, method: str | None = None
    ) -> None:
        """Write `edit`; a bug is reported and shuts ftrace off. Without `step` see `_shut_off`."""
        try:
            self.patcher.apply(edit, method, self._stubs(edit))
        except FtraceBug as found:
            raise self._shut_off(found, step, target) from found

    def _stubs(self, edit: Edit) -> list[ModuleStub]:
        """The trampolines that the calls of `edit` go through."""
        return self.records.stubs_at(np.concatenate([np.empty(0, np.uint64), *edit.via]))

    def _name(self, address: int) -> str:
        """What lies at `address`, for a report."""
        stubs = self.records.stubs_at(np.array([address], np.uint64))
        if stubs:
            return stub_name(stubs[0], self.patcher.stub_target(stubs[0]), self.kallsyms)
        own = None if self.trampolines is None else self.trampolines.at(address)
        if own is not None and own.address == address:
            return f"the trampoline of {own.ops.name}"
        return callee_name(address, self.kallsyms)

    def _shut_off(self, found: FtraceBug, step: Step | None, target: int) -> FtraceBug:
        """Shut ftrace off for the bug `found` and return the report of it.

        Without `step` that and the `target` are what the record says.
        """
        row = self.records.find(found.ip)
        flags, users = 0, 0
        if row is not None:
            self.records.table["failed"][row] = True
            flags, users = int(self.records.table["flags"][row]), int(self.records.users[row])
        if step is None:
            step = Step.NOP if not users else Step.UPDATE if flags & Flag.ENABLED else Step.CALL
            target = self.entry[CALLER] if row is None else self.target_of(row)
        found = with_callees(found, self.port, self._name)
        own = ""
        if flags & Flag.TRAMP_EN and self.trampolines is not None:
            own = self.trampolines.text(target)
        report = bug.reported(found, step, self.kallsyms, flags, users, target, own)
        self.disabled = True
        if self.ftraced is not None:
            self.ftraced.shut_off()
        self.bug = report
        for line in report.report:
            self._machine.dmesg.write(self._machine.now, line)
        return report
