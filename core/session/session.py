"""A session: one machine with its kernel, its modules, ftrace and the tracefs tree.

Front ends do everything through a session, and most of it through `tracefs`. A session is
opened from a port and a `MachineSpec`. `boot` is the current start of the machine. `reboot`
returns to the state in which the session was opened, or makes a new `boot` from the same files
and the same spec if that state could not be kept. Every method holds `lock`: a front end may
run the machine in one thread and read the tree in another.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from ..arch import Port
from ..asm import error_column
from ..asm.assemble import assemble_line, typed_values
from ..elf.image import Image
from ..errors import (
    AssemblyError,
    GuestError,
    GuestInterrupted,
    HostMemoryError,
    MemoryFault,
    UsageError,
)
from ..ftrace.ftrace import INIT
from ..kernel import unbooted
from ..kernel.fit import fitted
from ..kernel.kernel import KERNEL
from ..kernel.unbooted import LoadedKernel
from ..kernel.workloads import check_workload, workload_names
from ..machine.function import pointer_to
from ..machine.protection import Protection
from ..memento import Restore, attributes, in_order
from ..modules.modinfo import depends
from ..modules.module import Module
from ..modules.tree import ModuleTree
from ..views.address_map import AddressSpace
from ..views.call_site import CallSite
from ..views.disasm import Insn
from ..views.listings import Listing, listings
from ..views.operands import Operands
from ..views.patching import PatchView
from ..views.path import Hop
from ..views.recording import Call, FirstChange, Recording, call_at, first_change, recording
from ..views.stack import Stack
from ..views.stepping import Stepping
from . import checkpoint, without_boot
from .boot import Boot
from .history import History
from .journal import Journal

START = "_start"
"""Symbol of a kernel's first instruction."""

BUNDLED_ONLY = "DYNFTRACE_BUNDLED_ONLY"
"""Environment variable; if it is set, insmod accepts no paths: a visitor of `dynftrace serve`
must not learn which files the host has."""

DEAD_MACHINES = 4
"""Number of reboots after which old machines are freed.

A machine and its readers form reference cycles. The garbage collector counts objects, not the
engine's memory, so left alone it would keep dozens of machines.
"""

OPENING_STEPS = 4
"""Steps of `Session.open`."""

BOOT_LIMIT_NS = 2_000_000_000
"""Limit for the boot, in virtual ns: CPU 0 must be idle by then."""


@dataclass(frozen=True, slots=True)
class MachineSpec:
    """Description of the machine to open; None means the default of the port.

    `modules` are names or paths, loaded in order after the boot.
    """

    kernel: Path | None = None
    modules: tuple[str, ...] = ()
    cpus: int = 2
    patch: str | None = None
    nop: str | None = None
    """Way to disable sites, one of the port's `nops`."""
    native_clock: bool | None = None
    discovery: str | None = None
    """Way to find call sites, one of the port's `discovery`."""
    boot: bool = True
    stop_at: str | None = None
    """Function at whose first execution the boot stops, such as `ftrace_init`. The kernel then
    runs with its call sites as compiled until it gets to `ftrace_init`."""


class Session:
    """An open machine; made by `open`."""

    def __init__(self, port: Port, spec: MachineSpec, image: Image) -> None:
        self.port = fitted(port, image)
        self.spec = spec
        self.image = image
        self.lock = threading.RLock()
        self.journal = Journal()
        self.boot = self._load()
        """The current start; `reboot` may replace it, so do not keep a reference to it."""
        self._opened_at = spec.stop_at
        self.boots = 1
        """Grows with each reboot and each way back, so that a view can notice them."""
        self.history = History(self)
        self._prepare: Callable[[], object] = lambda: None
        self._tree: ModuleTree | None = None
        """The modules of the spec's kernel, once they were asked for."""

    @classmethod
    def open(
        cls,
        port: Port,
        spec: MachineSpec | None = None,
        step: Callable[[], object] = lambda: None,
    ) -> Self:
        """Load the kernel, boot it and load the modules of `spec`.

        `step` is called after each of the `OPENING_STEPS` steps: the file is read, the kernel is
        loaded and its sites are nops, it has booted, and its state is saved for a way back.

        Raises `ImageError`, `NoCallSitesError`, `ModuleError`, `UsageError`, `GuestError` and
        `HostMemoryError`, with a message for the user.
        """
        spec = spec or MachineSpec()
        if spec.stop_at is not None and spec.modules:
            raise UsageError(
                "modules cannot be loaded: the boot stops before the first task exists"
            )
        if spec.nop is not None:
            if spec.nop not in port.facts.nops:
                known = ", ".join(port.facts.nops)
                raise UsageError(f"unknown nop {spec.nop!r} (choose from: {known})")
            port = port.with_nop(spec.nop)
        ways = port.facts.discovery
        if spec.discovery is not None and spec.discovery not in ways:
            raise UsageError(
                f"the kernel of {port.facts.name} does not support discovery {spec.discovery!r} "
                f"(choose from: {', '.join(ways)})"
            )
        path = port.images() / KERNEL if spec.kernel is None else spec.kernel
        try:
            image = Image.load(path, port.facts)
            step()
            session = cls(port, spec, image)
            step()
            session._start()
            step()
            session.history.start()
            step()
        except MemoryError as error:
            raise HostMemoryError from error
        return session

    def reboot(self, stop_at: str | None = None) -> None:
        """Start again from the state in which the session was opened.

        With `stop_at`, the boot stops at that function instead. Raises what `open` raises.
        """
        with self.lock:
            if stop_at is None and self.history.reboot():
                return
            with self.history.new_boot():
                self.spec = replace(self.spec, stop_at=stop_at or self._opened_at)
                self.boot = self._load()
                self.boots += 1
                self._start()
                self._prepare()
                self.journal.clear()
            if self.boots % DEAD_MACHINES == 0:
                gc.collect()

    def prepare(self, action: Callable[[], object]) -> None:
        """Do `action` now and again after each reboot, as part of opening the session.

        `action` is not in the journal, so `back` cannot undo it. Raises what `action` raises.
        """
        with self.lock:
            self._prepare = action
            action()
            self.journal.clear()
            self.history.start()

    def boots_at(self) -> Restore:
        """Return a function that makes the present boot and spec the current ones again."""
        return attributes(self, "boot", "spec")

    def save(self) -> Restore:
        """Return a function that restores the present state, even after a reboot.

        Afterwards there is nothing to undo.
        """
        with self.lock:
            parts = attributes(self, "boot", "boots", "spec"), checkpoint.save(self.boot)
            return in_order(*parts, self.journal.save(), self.history.restart)

    def _load(self) -> Boot:
        """Return a machine with the kernel loaded; no vCPU has run yet."""
        spec = self.spec
        return Boot.load(
            self.port,
            self.image,
            self.lock,
            cpus=spec.cpus,
            native_clock=spec.native_clock,
            discovery=spec.discovery,
            patch=spec.patch,
            at_boot=spec.stop_at is not None,
        )

    def _start(self) -> None:
        """Boot the kernel and load the modules of the spec."""
        if self.spec.stop_at is not None:
            self._boot_to(self.spec.stop_at)
            return
        if self.spec.boot:
            self._run_boot()
        for name in self.spec.modules:
            self.insmod(name)

    def check_stop(self, name: str) -> None:
        """Raise `UsageError` unless the boot can stop at the function `name`."""
        name = self.boot.ftrace.init_function if name == INIT else name
        kernel = self.image.symbols
        known = (name, self.port.facts.abi.text_prefix + name)
        if kernel.address_of(START) is None or all(
            kernel.address_of(each) is None for each in known
        ):
            raise UsageError(f"the boot cannot stop at '{name}': the kernel has no such function")

    def _boot_to(self, name: str) -> None:
        """Run from `_start` until a CPU is about to execute the function `name`.

        Raises `UsageError` if the kernel has no such function, and `GuestError` if the boot
        does not execute it.
        """
        self.check_stop(name)
        entry = self.image.symbols.address_of(START)
        assert entry is not None
        machine = self.boot.machine
        name = self.boot.ftrace.init_function if name == INIT else name
        machine.start(entry, None)
        self.boot.stepper.boot_to(name, BOOT_LIMIT_NS)

    def _run_boot(self) -> None:
        """Run from `_start` until CPU 0 is idle for the first time.

        A kernel without the symbol `_start` is only a collection of functions to call. The entry
        point of the file does not show this: a linker defaults to the start of the text.
        """
        entry, machine = self.image.symbols.address_of(START), self.boot.machine
        if entry is None:
            modules = self.boot.modules
            kernel = LoadedKernel(machine, self.boot.kallsyms, lambda: modules.exported)
            unbooted.prepare(machine, kernel)
            return
        machine.start(entry, None)
        first = machine.vcpus[0]
        machine.run_until(lambda: first.idle_calls > 0, BOOT_LIMIT_NS, "the boot")

    # Running

    @property
    def now(self) -> int:
        """The machine's virtual time in ns (`Scheduler.now`)."""
        return self.boot.machine.now

    def run(self, ns: int) -> None:
        """Run the machine for `ns` of virtual time, or until `stop`."""
        with self.lock:
            self.boot.ftrace.patcher.check_may_run()
            self.history.before()
            if self.boot.machine.run(ns):
                self.history.interrupted()
            self.history.note(ns)

    def sleep(self, ns: int) -> None:
        """Run the machine for all of `ns` of virtual time.

        Raises `GuestError` if no CPU is left to run, `GuestOops` if one oopses meanwhile, and
        `GuestInterrupted` on `stop`.
        """
        with self.lock:
            self.boot.ftrace.patcher.check_may_run()
            machine = self.boot.machine
            deaths = len(machine.oopses)
            if machine.alive and machine.run(ns):
                raise GuestInterrupted("the sleep")
            if len(machine.oopses) > deaths:
                raise machine.oopses[deaths].ended()
            if not machine.alive:
                raise GuestError(machine.scheduler.standstill)

    def stop(self) -> None:
        """End the current run soon; called from any thread."""
        self.boot.machine.stop()

    def step(self, cpu: int, count: int = 1, each: Callable[[], None] = lambda: None) -> None:
        """Execute `count` instructions on `cpu`, calling `each` after every one.

        Raises `GuestError` if `cpu` is not running, and `GuestInterrupted` on `stop`.
        """
        with self.lock:
            self.boot.ftrace.patcher.check_may_run()
            self.boot.stepper.steps_of(cpu, count, each)

    def step_over(self, cpu: int) -> int:
        """Like `step`, but run a call to its return. Return the vCPU that got there.

        Raises `GuestError`.
        """
        with self.lock:
            self.boot.ftrace.patcher.check_may_run()
            return self.boot.stepper.over(cpu)

    def step_out(self, cpu: int) -> int:
        """Run until the function on `cpu` returns. Return the vCPU on which it returned.

        Raises `GuestError`.
        """
        with self.lock:
            self.boot.ftrace.patcher.check_may_run()
            return self.boot.stepper.out(cpu)

    def run_to(self, place: str, workload: str | None = None) -> int:
        """Run until a vCPU is about to execute `place`, and return the number of that vCPU.

        `place` is a function or an address. Starts `workload` first, unless it is still
        running. Raises `UsageError` for an unknown place or workload, and `GuestError`.
        """
        with self.lock:
            self.boot.ftrace.patcher.check_may_run()
            if workload is not None:
                self.check_workload(workload)
            return self.boot.stepper.until(place, workload)

    def workloads(self) -> list[str]:
        """Return the names that `run_workload` takes, from the guest's own table."""
        with self.lock:
            return workload_names(self.boot.machine.memory, self.boot.kallsyms)

    def run_workload(self, name: str, count: int = 1) -> int:
        """Run a workload of the guest to its end and return its result.

        Raises `UsageError` for a name the guest does not know, and `GuestError`.
        """
        with self.lock:
            self.boot.ftrace.patcher.check_may_run()
            self.check_workload(name)
            return self.boot.machine.requests.run_workload(name, count)

    def check_workload(self, name: str) -> None:
        """Raise `UsageError` for a name the guest does not know."""
        check_workload(name, self.workloads())

    def call(
        self,
        function: str,
        arguments: Sequence[int] = (),
        remark: Callable[[str], None] = lambda text: None,
    ) -> int:
        """Call a function of the guest, by name or address, and return its result.

        If it may have failed because the kernel has not booted, `remark` gets the reason. Raises
        `UsageError` for an unknown symbol or too many arguments, and `GuestError`.
        """
        with self.lock:
            self.boot.ftrace.patcher.check_may_run()
            pointer = pointer_to(self.port.facts, self.boot.kallsyms, self.address_of(function))
            if pointer is None:
                raise UsageError(f"'{function}' cannot be called: it has no function descriptor")
            most = self.port.facts.abi.most_arguments
            if len(arguments) > most:
                raise UsageError(f"a call takes at most {most} arguments")
            if self.image.symbols.address_of(START) is None:
                return without_boot.call(self.boot, pointer, arguments, remark)
            return self.boot.machine.requests.call(pointer, arguments)

    # Modules

    def module_path(self, name: str) -> Path:
        """Return the file of the module `name`, which is a path or a module's name.

        A module's name is looked up in the kernel's tree, then among the bundled modules. Raises
        `UsageError` for a path if `BUNDLED_ONLY` is set; those of `spec` are allowed. Raises
        `ImageError` for a damaged package.
        """
        known = self.port.images() / f"{name}.ko"
        plain = "/" not in name and not name.endswith(".ko") and "\0" not in name
        tree = self._own_tree() if plain and not os.path.exists(name) else None
        if tree is not None and name in tree:
            return tree.path(name)
        if plain and os.path.exists(known):
            return known
        if os.environ.get(BUNDLED_ONLY) and name not in self.spec.modules:
            raise UsageError(
                f"no module {name[:40]!r}: choose from {', '.join(self.available_modules())}"
            )
        return Path(name)

    def available_modules(self) -> list[str]:
        """Return the names of the bundled modules."""
        return sorted(path.stem for path in self.port.images().glob("*.ko"))

    def insmod(
        self,
        name: str,
        far: bool = False,
        replaced: tuple[str, str] | None = None,
        args: str = "",
    ) -> Module:
        """Load a module by name or path; `far` puts it out of reach of the kernel's calls.

        `args` are its parameters, as `name=value` words. `replaced` has two symbols: the module's
        calls of the first become calls of the second. Raises `ModuleError`, `ImageError`,
        `GuestError`, and `UsageError` for `far` on a port with a single module area, if there is no
        call to replace, or if the kernel sets no parameters.
        """
        with self.lock:
            self.boot.ftrace.patcher.check_idle()
            boot = self.boot
            module = boot.modules.insmod(self.module_path(name), far, replaced, args)
            boot.tracefs.module_loaded(module.name)
            return module

    def modprobe(self, name: str, args: str = "") -> list[Module]:
        """Load a module of the kernel's tree and its dependencies; return the newly loaded ones.

        `name` is a name or a path inside a tree; `args` are the module's parameters. Raises
        `UsageError` without a tree, for an unknown module, and if `BUNDLED_ONLY` is set; else as
        `insmod`.
        """
        with self.lock:
            path = Path(name)
            known = {_plain(each) for each in self.available_modules()}
            bundled = self.spec.kernel is None and _plain(name) in known
            if os.environ.get(BUNDLED_ONLY) and not bundled:
                raise UsageError("modprobe loads only the modules that come with dynftrace here")
            tree = ModuleTree(self.port.images()) if bundled else None
            if tree is None and path.is_file():
                tree = ModuleTree.around(path.absolute())
            tree = tree or self._own_tree()
            if tree is None and self.spec.kernel is None and "/" not in name:
                choices = ", ".join(self.available_modules())
                raise UsageError(f"no module {name[:40]!r}: choose from {choices}")
            if tree is None:
                raise UsageError(
                    "no tree of modules: give the path of a .ko in lib/modules/RELEASE, or a "
                    "kernel beside it, such as boot/vmlinuz-RELEASE, or a package"
                )
            files = tree.order(
                path.name.split(".")[0], lambda each: depends(Image.load(each, self.port.facts))
            )
            loaded = self.boot.modules
            return [
                self.insmod(str(each), args=args if each is files[-1] else "")
                for each in files
                if loaded.find(each.name.split(".")[0]) is None
            ]

    def _own_tree(self) -> ModuleTree | None:
        """Return the tree of the spec's kernel, or None. Raises `ImageError`."""
        kernel = self.spec.kernel
        if self._tree is None and kernel is not None and not os.environ.get(BUNDLED_ONLY):
            self._tree = ModuleTree.beside(kernel)
        return self._tree

    def rmmod(self, name: str) -> None:
        """Unload a module. Raises `ModuleError` (ENOENT, EBUSY) and `GuestError`."""
        with self.lock:
            self.boot.ftrace.patcher.check_idle()
            boot = self.boot
            records = boot.ftrace.records
            owners = records.module_names()
            rows = [row for row, owner in enumerate(owners) if owner == _plain(name)]
            gone = records.table["ip"][rows].copy()
            boot.modules.rmmod(name)
            boot.array.forget(gone)

    # Call sites

    def call_site(self, ip: int) -> CallSite:
        """Return the call site at `ip`: its compiled, expected and actual text.

        Raises `UsageError` if no call site is there.
        """
        with self.lock:
            return self.boot.sites.at(ip)

    def unfound_sites(self, name: str) -> list[int]:
        """Return the ips of the call sites in the function `name` that ftraced has not found."""
        with self.lock:
            return self.boot.sites.unfound(name)

    def listings(self, rows: Collection[int] | None = None) -> list[Listing]:
        """Return the lists of call sites in the files of the kernel and its modules.

        With `rows`, only the entries of those records. Raises `ImageError`.
        """
        with self.lock:
            records, memory = self.boot.ftrace.records, self.boot.machine.memory
            return [
                each
                for _, image, bases in self._files()
                for each in listings(self.port, image, bases, memory, records, rows)
            ]

    def _files(self) -> list[tuple[str | None, Image, dict[int, int]]]:
        """Return module name, image and addresses of sections of each loaded file."""
        kernel = {s.index: s.address for s in self.image.sections if s.loaded}
        loaded = self.boot.modules.loaded
        modules = [(each.name, each.image, dict(each.linked.bases)) for each in loaded]
        return [(None, self.image, kernel), *modules]

    def recordings(self) -> list[tuple[Recording, FirstChange]]:
        """Return how each loaded file's sites were found, and the check before their first change.

        Raises `ImageError`, and `MissingSymbolError` for a kernel that cannot be traced.
        """
        with self.lock:
            ftrace = self.boot.ftrace
            modules = np.array(ftrace.records.module_names(), object)
            return [
                (
                    recording(self.port, image, bases, ftrace.records),
                    first_change(ftrace, np.flatnonzero(modules == name)),
                )
                for name, image, bases in self._files()
            ]

    def recorded_call(self, ip: int) -> Call | None:
        """Return the call of mcount at `ip` as recordmcount sees it, or None.

        Raises `ImageError`.
        """
        with self.lock:
            found = (call_at(self.port, image, bases, ip) for _, image, bases in self._files())
            return next((each for each in found if each is not None), None)

    def call_path(self, ip: int) -> tuple[Hop, ...]:
        """Return the path of a call from the site at `ip` to the tracer.

        Raises `UsageError` if no record begins there, and `MissingSymbolError` for a
        kernel that cannot be traced.
        """
        with self.lock:
            return self.boot.paths.path(ip)

    def stepping(self, cpu: int) -> Stepping:
        """Return what `cpu` executes next and what its last step changed."""
        with self.lock:
            return self.boot.steppings.at(cpu)

    def address_space(self, ip: int | None) -> AddressSpace:
        """Return the address space; with `ip`, also what the call at that site can reach.

        Raises `UsageError` if no record begins there, `MemoryFault` and `MissingSymbolError`.
        """
        with self.lock:
            return self.boot.maps.at(ip)

    def operands(self, cpu: int) -> Operands:
        """Return the registers and memory that the next instruction of `cpu` works on."""
        with self.lock:
            boot = self.boot
            vcpu = boot.machine.vcpus[cpu]
            try:
                return boot.operands.of(vcpu, self.instructions(vcpu.registers.pc, 1))
            except MemoryFault:
                return Operands()

    def stack(self, cpu: int, words: int) -> Stack:
        """Return up to `words` words of the stack of `cpu`, with the meaning of each."""
        with self.lock:
            return self.boot.stacks.at(cpu, words)

    def patch_view(self) -> PatchView | None:
        """Return the present state of the patch under way, or None."""
        with self.lock:
            return self.boot.patching.view()

    def source_line(self, address: int) -> tuple[str, int] | None:
        """Return the source file and line of the code at `address`, or None if unknown."""
        return self.boot.files.source_line(address)

    # Memory and symbols

    def function_names(self) -> Sequence[str]:
        """Return the names of the functions with a call site."""
        return self.boot.ftrace.records.names

    def tracers(self) -> Sequence[str]:
        """Return the tracers that current_tracer takes."""
        return self.boot.array.tracers()

    def code_address(self, name: str) -> int | None:
        """Return the address of the symbol `name`; for a function its code, not its descriptor."""
        return self.boot.addresses.code(name)

    def address_of(self, text: str) -> int:
        """Return the address `text` means: a number, a symbol, or a symbol and an offset.

        Raises `UsageError`.
        """
        return self.boot.addresses.of(text)

    def assemble(self, source: str, address: int) -> bytes:
        """Return the instructions of `source` for `address`.

        Raises `AssemblyError`, also for a branch out of range: the assembler truncates it
        without an error.
        """
        code = assemble_line(self.port.facts, source, address, self.code_address)
        values = typed_values(source, self.code_address)
        modulus = 1 << 8 * self.port.facts.pointer_size
        wanted = {value % modulus for value in values or ()}
        insns = self.boot.disassembler.decode(address, code)
        for row, insn in enumerate(insns):
            if wanted and insn.target is not None and insn.target not in wanted:
                raise AssemblyError(
                    f"{insn.mnemonic} does not reach that far from {insn.address:x}",
                    source,
                    column=error_column.target(source, row, len(insns)),
                )
        return code

    def poke(self, address: int, data: bytes) -> bytes:
        """Write `data` to guest memory and flush every vCPU. Return the bytes before.

        Raises `MemoryFault`, with nothing written.
        """
        with self.lock:
            boot = self.boot
            before = boot.machine.memory.read(address, len(data))
            boot.machine.memory.write(address, data)
            boot.machine.flush(address, address + len(data))
            return before

    def protect(self, address: int, protection: Protection) -> int:
        """Protect the page of code that contains `address`; return the page's address.

        Raises `MemoryFault` if no code is there.
        """
        with self.lock:
            return self.boot.machine.memory.protect(address, protection)

    def instructions(self, address: int, size: int) -> list[Insn]:
        """Return the instructions in memory that begin in the `size` bytes at `address`.

        The last one may end after these bytes. Raises `MemoryFault` if they are not mapped.
        """
        with self.lock:
            return self.boot.instructions(address, size)

    def instruction(self, cpu: int) -> str:
        """Return one line with the position of `cpu` and its next instruction."""
        with self.lock:
            boot = self.boot
            pc = boot.machine.registers(cpu)[self.port.facts.abi.pc.name]
            place = f"cpu{cpu}  {pc:x}  {boot.kallsyms.format(pc)}"
            try:
                insns = self.instructions(pc, 1)
                if self.port.has_delay_slot(insns[0].data):
                    insns += self.instructions(insns[0].end, 1)
            except MemoryFault:
                return f"{place}  (not mapped)"
            data = b"".join(insn.data for insn in insns)
            text = "; ".join(boot.disassembler.text(insn) for insn in insns)
            return f"{place}  {data.hex(' ')}  {text}"


def _plain(name: str) -> str:
    """Return the name that the kernel has for a module: dashes are underscores."""
    return name.replace("-", "_")
