"""Dynamic ftrace of one machine: its records, its users, and the text that follows them.

When a kernel or a module is loaded, every call site is turned from the call that the
compiler left into a nop. From then on the sites follow the registered ops (tracer.py).

Users change in transactions (`Ftrace.change`). If a place does not hold what ftrace left
there, nothing is written and the users stay as they were. The report goes to dmesg, and
ftrace stays off until the machine is restarted (text.py), as in the kernel.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from ..abi import FTRACE_OPS_MAX
from ..arch import Addresses, Edit, ModuleStub, Port, Sites, trampolines_of
from ..elf.image import Image
from ..errors import (
    FtraceBug,
    FtraceBugType,
    MissingSymbolError,
    NoCallSitesError,
    TracefsError,
    UsageError,
)
from ..kernel.kallsyms import Kallsyms
from ..machine.machine import Machine
from ..memento import Restore, attributes, in_order
from .entry import CALLER, GRAPH_CALL, GRAPH_CALLER, REGS_CALLER, Entry, load_entry
from .ftraced import BATCH, BATCH_SYMBOL, FTRACED, Found, Ftraced
from .ops import FtraceHash, FtraceOps
from .patch import STOP_MACHINE, UNDER_WAY, Patcher
from .pids import FtracePids
from .records import INVALID_FUNCTION, Records
from .settle import settle
from .sites import call_sites, calls_of_mcount, code_ranges, dead_sites, own_bases
from .state import RecordState, record_state
from .text import FtraceText
from .tracer import Tracer, Untraceable, Users
from .trampolines import OpsTrampolines
from .undo import Undo
from .updatetimes import UpdateTimes

INIT, FTRACED_INIT = "ftrace_init", "ftraced_init"
"""The guest's functions that start ftrace: without ftraced, and with it."""


class Ftrace:
    """Dynamic ftrace of one machine; made by `load`."""

    def __init__(
        self,
        machine: Machine,
        kernel: Image,
        kallsyms: Kallsyms,
        entry: Entry | Untraceable,
        mcount: int | None,
        *,
        listed: bool,
    ) -> None:
        """`mcount` is the address of mcount, None in a kernel without it.

        `listed` says that a table lists the call sites; else ftraced finds them. Raises
        `MissingSymbolError` for a kernel without what ftraced needs.
        """
        port = machine.port
        self.port = port
        self.kernel = kernel
        self.kallsyms = kallsyms
        self.mcount = mcount or 0
        """Address of the function that sites call as compiled; 0 if all were compiled as nops."""
        # struct dyn_ftrace: ip, flags and, if sites may call stubs, their module.
        words = 2 if port.stubs is None else 3
        self.records = Records(
            port.facts.sites.size, words * port.facts.pointer_size, machine.memory.read_int
        )
        self.update_times = UpdateTimes(machine)
        """How long it took to turn sites into nops."""
        self.ops: list[FtraceOps] = []
        """The registered ops, in the order of their registration."""
        self.enabled = True
        """Whether call sites call the registered ops (ftrace_enabled)."""
        self._machine = machine
        self._memory = machine.memory
        self._by_mcount: tuple[ModuleStub, ...] = ()
        self.init_edit: Edit | None = None
        """What `ftrace_dyn_arch_init` wrote; None if nothing."""
        trampolines = None
        if isinstance(entry, Entry) and trampolines_of(port) is not None:
            trampolines = OpsTrampolines(port, entry, machine.memory, kallsyms)
        self.text = FtraceText(machine, kallsyms, self.records, trampolines, self._ended)
        self._tracer: Tracer | Untraceable = (
            entry
            if isinstance(entry, Untraceable)
            else Tracer(machine, kallsyms, self.records, entry, self.text, trampolines)
        )
        self.early: Addresses | None = None
        """Sites of a kernel that has not reached `ftrace_init` yet; else None."""
        self._graph = False
        self._undo: Undo | None = None
        """Takes back the steps of the current change."""
        self._stale = False
        """Whether the last step of the current change concerns the text."""
        self._watched = False
        """Whether the current change is watched."""
        self._by_user = True
        self.pids = FtracePids(machine, self)
        self.ftraced: Ftraced | None = (
            None if listed else Ftraced(machine, kernel, self.records, self._found, self._mcount_to)
        )
        """Finds the call sites of a kernel that has no table of them; else None."""

    @classmethod
    def load(
        cls,
        machine: Machine,
        kernel: Image,
        kallsyms: Kallsyms,
        discovery: str | None = None,
        source: str | None = None,
        at_boot: bool = False,
    ) -> Self:
        """Load the entry code and the tracer, and turn every site of `kernel` into a nop.

        The kernel is in memory but has not run yet. `discovery` says how its sites are
        found (None: the port's default); sites found by ftraced become nops as the kernel
        runs. `source` replaces the port's entry.S. With `at_boot`, a kernel that has
        `ftrace_init` runs with its sites as compiled until it gets there (`init`). A kernel
        without a symbol that the tracer needs is loaded all the same; then `entry` raises
        `MissingSymbolError`.

        Raises `NoCallSitesError`, `MissingSymbolError` for mcount or ftraced, and `FtraceBug`.
        """
        port = machine.port
        if not len(kernel.symbols):
            raise NoCallSitesError(
                str(kernel.path),
                "it has no symbols, which tracing needs: use the kernel from before `strip`",
            )
        mcount = _mcount(port, kernel)
        entry: Entry | Untraceable
        try:
            entry = load_entry(port, kernel, machine.memory, kallsyms, source)
        except MissingSymbolError as error:
            entry = Untraceable(error)
        discovery = discovery or port.facts.discovery[0]
        if discovery in (FTRACED, BATCH):
            if mcount is None:
                raise MissingSymbolError(str(kernel.path), port.facts.sites.mcount_symbols[0])
            if discovery == BATCH:
                batch = kernel.symbols.address_of(BATCH_SYMBOL)
                if batch is None:
                    raise MissingSymbolError(str(kernel.path), BATCH_SYMBOL)
                machine.memory.write_int(batch, 1, 4)
            return cls(machine, kernel, kallsyms, entry, mcount, listed=False)
        ips = call_sites(port, kernel, machine.memory.read)
        if not len(ips):
            ips = calls_of_mcount(port, kernel, machine.memory.read)
        if not len(ips):
            raise NoCallSitesError(str(kernel.path), _no_sites(port, kernel, mcount))
        if mcount is None:
            _check_nops(machine, kernel, ips)
        ftrace = cls(machine, kernel, kallsyms, entry, mcount, listed=True)
        ftrace.early = ips
        if not at_boot or kernel.symbols.address_of(INIT) is None:
            ftrace.init()
        return ftrace

    def init(self) -> None:
        """Make records of the kernel's sites and turn all of them into nops (`ftrace_init`).

        Does nothing the second time. Raises `FtraceBug`.
        """
        if self.early is None:
            return
        ips, self.early = self.early, None
        if self.mcount:
            self._dyn_arch_init()
        kernel = self.kernel
        self._add(ips, kernel, own_bases(kernel), None, self._stubs_of_kernel(ips))

    @property
    def init_function(self) -> str:
        """Name of the guest's function that starts ftrace."""
        return INIT if self.ftraced is None else FTRACED_INIT

    def _dyn_arch_init(self) -> None:
        """Make mcount lead to ftrace_caller, if sites can reach only mcount."""
        if isinstance(self._tracer, Untraceable):
            return
        caller = self._tracer.entry[CALLER]
        edit = self._after_mcount(self.port.dyn_arch_init(self.mcount, caller))
        self.init_edit = edit
        if edit is not None:
            self.text.apply(edit, FtraceBugType.INIT, caller, STOP_MACHINE)
            code = edit.replacement[0].tobytes()
            self._by_mcount = (ModuleStub(int(edit.address[0]), code, caller, CALLER),)

    def _after_mcount(self, edit: Edit | None) -> Edit | None:
        """Return the change of mcount, from a branch to ftrace_stub if it begins with that.

        Linux has such a branch, and `ftrace_dyn_arch_init` makes it a nop.
        """
        ftrace_stub = self.kernel.symbols.address_of("ftrace_stub")
        if edit is None or ftrace_stub is None:
            return edit
        address = int(edit.address[0])
        found = self._memory.read_mapped(address, edit.expected.shape[1])
        if self.port.call_target(address, found) != ftrace_stub:
            return edit
        return replace(edit, expected=np.frombuffer(found, np.uint8)[None, :])

    def _stubs_of_kernel(self, ips: Addresses) -> tuple[ModuleStub, ...]:
        """Return mcount as a stub of `ftrace_caller` if the kernel's sites call nothing else."""
        if not self._by_mcount:
            return ()
        compiled, _ = self._memory.gather(ips, self.port.facts.sites.size)
        call = self.port.make_call(Sites(ips, compiled=compiled), self._by_mcount[0].target)
        return () if call.reachable.all() else self._by_mcount

    # Records

    def state_at(self, ip: int) -> RecordState:
        """Return the state of the record of the site at `ip`.

        Raises `UsageError` if no record begins there.
        """
        row = self.records.find(ip)
        if row is None:
            raise UsageError(f"no call site at {ip:#x}")
        return self.state(row)

    def state(self, row: int) -> RecordState:
        """Return the state of record `row`: everything that ftrace knows of its call site."""
        tracer = self._tracer
        target = None if isinstance(tracer, Untraceable) else tracer.targets.of(row)
        return record_state(self.port, self._memory, self.records, self.ops, target, row)

    def module_init(
        self,
        name: str,
        image: Image,
        bases: Mapping[int, int],
        stubs: Sequence[ModuleStub] = (),
        mod: int = 0,
        tramps: Mapping[int, int] | None = None,
    ) -> tuple[ModuleStub, ...]:
        """Make records of a module that is in memory but has not run, and enable wanted sites.

        `stubs` are the stubs that its calls use; return them with their new targets. `mod` is the
        guest address of its `struct module`, 0 without one; records of sites that call stubs keep
        it (`struct dyn_arch_ftrace`). `tramps` maps a target to the address of the word there that
        has the address of its stub. A site that is not what ftrace expects shuts ftrace off, and
        the module's sites stay as compiled. As in Linux, the module is loaded all the same. Raises
        `ImageError` for an invalid list of sites, and `FtraceBug` if the sites are to be enabled
        and another place is not what ftrace expects.
        """
        stubs = tuple(stubs)
        if self.ftraced is not None:
            self.ftraced.module_loaded(name, code_ranges(image, bases))
            return stubs
        ips = call_sites(self.port, image, self._memory.read, bases)
        if len(ips):
            self.update_times.modules += self.update_times.spend(0, len(ips))
            with contextlib.suppress(FtraceBug):  # ftrace_module_init() returns nothing
                self._add(ips, image, bases, name, (*self._by_mcount, *stubs), mod, tramps)
                stubs = self._redirected(name, stubs)
            if self.ops and not self.disabled:
                with self.change(by_user=False):
                    self._stale = True
        return stubs

    def _redirected(self, module: str, stubs: tuple[ModuleStub, ...]) -> tuple[ModuleStub, ...]:
        """Make mcount's stub in `module` lead to ftrace_caller if no other stub does.

        No site of the module calls it as compiled any more. Return its `stubs`.
        """
        found = next((stub for stub in stubs if stub.target == self.mcount), None)
        if self.disabled or found is None or any(stub.symbol == CALLER for stub in stubs):
            return stubs
        try:
            caller = self.entry[CALLER]
        except MissingSymbolError:  # a kernel that cannot be traced
            return stubs
        code = self.port.redirect_stub(found.code, caller)
        if code is None:
            return stubs
        old, new = (np.frombuffer(each, np.uint8)[None, :] for each in (found.code, code))
        edit = Edit(np.array([found.address], np.uint64), old, new, np.ones(1, np.bool_))
        self.text.apply(edit, FtraceBugType.INIT, self.mcount, STOP_MACHINE)
        changed = replace(found, code=code, target=caller, symbol=CALLER)
        stubs = tuple(changed if stub is found else stub for stub in stubs)
        self.records.set_stubs(module, (*self._by_mcount, *stubs))
        return stubs

    def module_release(self, name: str) -> None:
        """Drop the records of a module that will not run again, and its sites in the hashes."""
        known = len(self.records)
        if self.ftraced is not None:
            self.ftraced.module_gone(name)
        found = len(self.records) > known
        gone = self.records.remove(name)
        for ops in self.ops:
            ops.filter_hash = ops.filter_hash.forget(gone)
            ops.notrace_hash = ops.notrace_hash.forget(gone)
        if found and self.ops and not self.disabled:
            # A CPU noted a site while tracing began.
            with contextlib.suppress(FtraceBug), self.change(by_user=False):
                self._stale = True

    def save(self) -> Restore:
        """Return a function that restores the host's part of ftrace, after the machine's memory."""
        parts = [
            attributes(self, "ops", "enabled", "_graph", "early", "init_edit", "_by_mcount"),
            self.records.save(),
            self.text.save(),
            self.update_times.save(),
            self.pids.save(),
        ]
        parts += [each.save() for each in self.ops]
        if not isinstance(self._tracer, Untraceable):
            parts.append(self._tracer.save())
        if self.ftraced is not None:
            parts.append(self.ftraced.save())
        return in_order(*parts)

    # Users

    @property
    def tracer(self) -> Tracer:
        """The loaded tracer. Raises `MissingSymbolError` if the kernel lacks what it needs."""
        if isinstance(self._tracer, Untraceable):
            raise self._tracer.missing
        return self._tracer

    @property
    def entry(self) -> Entry:
        """The loaded entry code. Raises `MissingSymbolError` as `tracer` does."""
        return self.tracer.entry

    @property
    def slot(self) -> int:
        """Guest address of the code that the slots call now; 0 without a tracer."""
        return self._tracer.slot

    @property
    def graph(self) -> bool:
        """Whether the slot ftrace_graph_call calls ftrace_graph_caller."""
        return self._tracer.graph

    @property
    def trampolines(self) -> OpsTrampolines | None:
        """Trampolines of single users; None if the port makes none."""
        return self._tracer.trampolines

    @property
    def call_target(self) -> int | None:
        """The function that calls end in; None while nothing is registered."""
        return self.slot if self._called else None

    @property
    def _called(self) -> list[FtraceOps]:
        """The ops that call sites call."""
        return self.ops if self.enabled else []

    @property
    def patcher(self) -> Patcher:
        """The writer of text, with its method."""
        return self.text.patcher

    @property
    def disabled(self) -> bool:
        """Whether a bug has shut ftrace off (`ftrace_disabled`)."""
        return self.text.disabled

    @property
    def bug(self) -> FtraceBug | None:
        """The bug that shut ftrace off, with its report."""
        return self.text.bug

    @contextlib.contextmanager
    def change(self, by_user: bool = True) -> Iterator[contextlib.ExitStack]:
        """Return a context in which users change in one transaction.

        At the end of each step, every place that the step changes is verified. At the end of the
        outermost context, the text follows all steps at once. If anything raises, the text and all
        users are what they were before. The value is a stack of callbacks, which are called in this
        case only: add one for each other thing that you change.

        While the patcher is watching, the text does not follow at once: the change waits as the
        patcher's `patch`. Otherwise the guest runs until its CPUs have let the text change. Both
        apply only to changes `by_user`, never to a change that the guest waits for.

        The end raises `MissingSymbolError`, `FtraceBug` and `GuestError`. Raises `TracefsError`
        (EBUSY) while another patch is under way.
        """
        outer = self._undo
        if outer is None:
            self._check_idle()
            self._by_user, self._watched = by_user, by_user and self.patcher.watching
        with Undo() as new:
            undo = new if outer is None else outer
            self._undo, self._stale = undo, False
            try:
                yield undo
                if self._stale:
                    self._follow(undo, write=outer is None)
            finally:
                self._undo, self._stale = outer, outer is not None
            if outer is None:
                undo.pop_all()

    def register(self, ops: FtraceOps) -> None:
        """Call `ops` from the sites that it selects (`register_ftrace_function`).

        Raises `TracefsError` (EBUSY if it is registered or the guest's table is full,
        EINVAL if it wants registers and the port saves none, ENODEV if ftrace is off),
        `MissingSymbolError`, and `FtraceBug`, after which `ops` is not registered.
        """
        self.check()
        if ops.save_regs and REGS_CALLER not in self.entry.callers:
            reason = f"{self.port.facts.name} has no {REGS_CALLER} to save registers"
            raise TracefsError(errno.EINVAL, f"{os.strerror(errno.EINVAL)}: {reason}")
        if ops in self.ops or len(self.ops) == FTRACE_OPS_MAX:
            raise TracefsError(errno.EBUSY)
        if self.ftraced is not None and not self.ops:
            self.ftraced.collect()
        with self.change() as undo:
            self._set_ops([*self.ops, ops], undo)

    def unregister(self, ops: FtraceOps) -> None:
        """Stop calling `ops`.

        Raises `TracefsError` (EBUSY, ENODEV), and `FtraceBug`, after which `ops` is still
        registered.
        """
        self.check()
        if ops not in self.ops:
            raise TracefsError(errno.EBUSY)
        with self.change() as undo:
            self._set_ops([each for each in self.ops if each is not ops], undo)

    def set_graph_caller(self, on: bool) -> None:
        """Make ftrace_caller call ftrace_graph_caller, or not (`ftrace_modify_graph_caller`).

        Raises `TracefsError` (ENODEV), `MissingSymbolError` if the port has no
        ftrace_graph_caller, and `FtraceBug`.
        """
        self.check()
        for name in (GRAPH_CALL, GRAPH_CALLER):
            self.entry.label(name)
        with self.change() as undo:
            undo.callback(setattr, self, "_graph", self._graph)
            self._stale = on != self._graph
            self._graph = on

    def set_hashes(
        self,
        ops: FtraceOps,
        filter_hash: FtraceHash | None = None,
        notrace_hash: FtraceHash | None = None,
    ) -> None:
        """Give `ops` new hashes; the text follows if it is registered.

        Raises `TracefsError` (ENODEV), and `FtraceBug`, after which the hashes are the old ones.
        """
        self.check()
        with self.change() as undo:
            for name, new in (("filter_hash", filter_hash), ("notrace_hash", notrace_hash)):
                if new is not None:
                    undo.callback(setattr, ops, name, getattr(ops, name))
                    setattr(ops, name, new)
            self._stale = ops in self.ops

    def set_enabled(self, on: bool) -> None:
        """Let call sites call the registered ops, or none (`ftrace_enable_sysctl`).

        Raises `TracefsError` (ENODEV, EBUSY), `MissingSymbolError` and `FtraceBug`, after which
        nothing has changed.
        """
        self.check()
        with self.change() as undo:
            undo.callback(setattr, self, "enabled", self.enabled)
            self._stale = on != self.enabled and bool(self.ops)
            self.enabled = on

    def follow_pids(self) -> None:
        """Change how users that obey pids are called. Raises `FtraceBug`."""
        if any(each.pid for each in self.ops) and not self.disabled:
            with self.change():
                self._stale = True

    def check(self) -> None:
        """Raise `TracefsError` (ENODEV) if ftrace is off, `MissingSymbolError` as `entry` does."""
        if self.disabled:
            raise TracefsError(errno.ENODEV)
        if self.early is not None:
            reason = f"{os.strerror(errno.ENODEV)}: {INIT} has not run yet"
            raise TracefsError(errno.ENODEV, reason)
        _ = self.entry

    def _check_idle(self) -> None:
        """Raise `TracefsError` (EBUSY) while a patch waits that no change can join."""
        if self.patcher.patch is not None and not self.patcher.joinable:
            raise TracefsError(errno.EBUSY, f"{os.strerror(errno.EBUSY)}: {UNDER_WAY}")

    def settle(self) -> None:
        """Run each vCPU that is inside the tracer until it has left it."""
        settle(self._machine)

    # Text

    def _set_ops(self, ops: list[FtraceOps], undo: contextlib.ExitStack) -> None:
        """Register exactly `ops`."""
        undo.callback(setattr, self, "ops", self.ops)
        self.ops, self._stale = ops, True

    def _follow(self, undo: Undo, write: bool) -> None:
        """Verify what the registered ops change in the text; with `write`, change it.

        Raises `FtraceBug`.
        """
        ftraced, called = self.ftraced, self._called
        plan = self.tracer.plan(Users(called, self.pids.func, self._graph and self.enabled), undo)
        if ftraced is not None:
            edit = ftraced.mcount_edit(suspended=bool(called))
            self.text.verify(edit, FtraceBugType.UPDATE, self.mcount)
        if not write:
            return
        guest = self._by_user and self.patcher.obstacle is None
        recorded = self._watched or guest
        context = (
            self.patcher.recorded(undo.taken, self._watched)
            if recorded
            else contextlib.nullcontext()
        )
        with context:
            self.tracer.write(plan, undo)
            if ftraced is not None:
                ftraced.suspend(bool(called))
        if guest and not self._watched:
            self.text.perform()

    def _add(
        self,
        ips: Addresses,
        image: Image,
        bases: Mapping[int, int],
        module: str | None,
        stubs: Sequence[ModuleStub] = (),
        mod: int = 0,
        tramps: Mapping[int, int] | None = None,
    ) -> None:
        """Add records for the sites `ips` of `image` and make their sites nops."""
        compiled, _ = self._memory.gather(ips, self.port.facts.sites.size)
        names, dead = self.kallsyms.names_of(ips), dead_sites(image, bases, ips)
        for row in np.flatnonzero(dead).tolist():
            before = self.kallsyms.lookup(int(ips[row]))
            offset = 0 if before is None else int(ips[row]) - before.address
            names[row] = f"{INVALID_FUNCTION}_{offset}"
        rows = self.records.add(ips, names, compiled, module, stubs, tramps=tramps, dead=dead)
        if self.disabled:
            return
        edit = self.port.init_nop(self.records.sites(rows), self.mcount)
        for via in edit.via:
            self.records.table["mod"][rows] = np.where(via != 0, np.uint64(mod), np.uint64(0))
        self.text.apply(
            edit, FtraceBugType.INIT, self.mcount, STOP_MACHINE
        )  # nothing runs there yet

    def _found(self, found: Sequence[Found]) -> None:
        """Add records for the sites ftraced has found and make all of them nops, or none."""
        start, mcount = len(self.records), self.mcount
        for ips, module in found:
            # The compiler left calls of mcount, whatever the text holds by now.
            compiled = self.port.modify_call(Sites(ips), mcount, mcount).expected
            self.records.add(ips, self.kallsyms.names_of(ips), compiled, module, found=True)
        rows = slice(start, len(self.records))
        edit = self.port.init_nop(self.records.sites(rows), mcount)
        try:
            self.text.apply(edit, FtraceBugType.INIT, mcount, STOP_MACHINE)
        except FtraceBug as refused:
            self.records.refuse(rows, refused.ip)
            raise

    def _mcount_to(self, edit: Edit) -> None:
        """Make mcount call another function."""
        self.text.apply(edit, FtraceBugType.UPDATE, self.mcount, STOP_MACHINE)

    def _ended(self) -> None:
        """Stop ftraced: a bug has shut ftrace off."""
        if self.ftraced is not None:
            self.ftraced.shut_off()


def _mcount(port: Port, kernel: Image) -> int | None:
    """Return the address of mcount in `kernel`, None without it."""
    found = (kernel.symbols.address_of(name) for name in port.facts.sites.mcount_symbols)
    return next((address for address in found if address is not None), None)


def _no_sites(port: Port, kernel: Image, mcount: int | None) -> str:
    """Return why `kernel` has no call sites, as far as its symbols show."""
    sites = port.facts.sites
    name = next((each for each in sites.mcount_symbols if each in kernel.symbols.names), "")
    lists = " or ".join(sites.sections) or "a list of them"
    if mcount is None:
        return f"no call sites: it has neither {lists} nor {sites.mcount_symbols[0]}"
    return f"no call sites: it has no list of them ({lists}), and its code never calls {name}"


def _check_nops(machine: Machine, kernel: Image, ips: Addresses) -> None:
    """Raise `MissingSymbolError` for mcount unless the compiler left nops at all sites."""
    facts = machine.port.facts.sites
    compiled, _ = machine.memory.gather(ips, facts.size)
    edit = machine.port.init_nop(Sites(ips, compiled=compiled), 0)
    found, _ = machine.memory.gather(edit.address, edit.expected.shape[1])
    if not edit.reachable.all() or (edit.expected != found).any():
        raise MissingSymbolError(str(kernel.path), facts.mcount_symbols[0])
