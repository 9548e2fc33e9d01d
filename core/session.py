"""A session: one machine with its kernel, its modules, ftrace and the tracefs tree.

Everything a front end does goes through here, and most of it through
`tracefs`. A session is opened from a port and a `MachineSpec`; `reboot` builds
the machine again from the same files and the same spec, so it is in the state
in which it was opened. `lock` is held in every call: a front end may run the
machine in one thread and read the tree in another.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from . import asmplace
from .arch import Port
from .assemble import assemble_line, typed_values
from .elf.image import Image
from .errors import (
    AssemblyError,
    GuestError,
    GuestInterrupted,
    GuestOops,
    MemoryFault,
    UsageError,
)
from .ftrace.ftrace import Ftrace
from .journal import Journal
from .kallsyms import Kallsyms
from .kernel import KERNEL, load_kernel
from .machine.function import pointer_to
from .machine.machine import Machine
from .module import Module, Modules
from .stepping import Stepper
from .trace.ringbuffer import RingBuffer
from .trace.subbuffer import PageFormat
from .tracefs import TraceArray, TracefsTree
from .views.callsite import CallSite, SiteReader
from .views.disasm import Disassembler, Insn
from .views.encoding import EncodingReader
from .views.filetext import LoadedFiles
from .views.origin import Listing, listing
from .views.path import Hop, PathReader
from .views.stepping import Stepping, SteppingReader
from .workloads import workload_names

START = "_start"
"""The symbol at a kernel's first instruction."""

BOOT_LIMIT_NS = 2_000_000_000
"""Virtual time a kernel has to come to rest after its start."""

_ADDRESS = re.compile(r"(?P<symbol>[^+]+)(?:\+(?P<offset>\w+))?")


@dataclass(frozen=True, slots=True)
class MachineSpec:
    """What machine to open; what is None is the port's default.

    `modules` are names or paths, loaded in order after the boot.
    """

    kernel: Path | None = None
    modules: tuple[str, ...] = ()
    cpus: int = 2
    patch: str | None = None
    nop: str | None = None
    """How sites are disabled, one of the port's `nops`."""
    native_clock: bool | None = None
    discovery: str | None = None
    """How call sites are found, one of the port's `discovery`."""
    boot: bool = True


class Session:
    """An open machine; made by `open`."""

    machine: Machine
    kallsyms: Kallsyms
    modules: Modules
    ftrace: Ftrace
    ring: RingBuffer
    array: TraceArray
    tracefs: TracefsTree
    disassembler: Disassembler
    files: LoadedFiles
    sites: SiteReader
    paths: PathReader
    encodings: EncodingReader
    stepper: Stepper
    steppings: SteppingReader

    def __init__(self, port: Port, spec: MachineSpec, image: Image) -> None:
        self.port = port
        self.spec = spec
        self.image = image
        self.lock = threading.RLock()
        self.journal = Journal()
        self.boots = 0
        """How often the machine was started; changes with every reboot."""

    @classmethod
    def open(cls, port: Port, spec: MachineSpec | None = None) -> Self:
        """Load the kernel, boot it and load the modules of `spec`.

        Raises `ImageError`, `NoCallSitesError`, `ModuleError`, `UsageError` and
        `GuestError`, each a sentence for the user.
        """
        spec = spec or MachineSpec()
        if spec.nop is not None:
            if spec.nop not in port.facts.nops:
                known = ", ".join(port.facts.nops)
                raise UsageError(f"no nop {spec.nop!r}; there is: {known}")
            port = port.with_nop(spec.nop)
        ways = port.facts.discovery
        if spec.discovery is not None and spec.discovery not in ways:
            raise UsageError(
                f"the kernel of {port.facts.name} has no discovery {spec.discovery!r}; "
                f"its call sites are found by: {', '.join(ways)}"
            )
        path = port.images() / KERNEL if spec.kernel is None else spec.kernel
        session = cls(port, spec, Image.load(path, port.facts))
        session._start()
        return session

    def reboot(self) -> None:
        """Start again from the state in which the session was opened."""
        with self.lock:
            self._start()
            self.journal.clear()

    def _start(self) -> None:
        spec, port, image = self.spec, self.port, self.image
        machine = Machine(port, spec.cpus, native_clock=spec.native_clock)
        load_kernel(port, image, machine.memory)
        kallsyms = Kallsyms()
        kallsyms.add(image.symbols)
        machine.symbols = kallsyms
        self.machine, self.kallsyms = machine, kallsyms
        self.ftrace = Ftrace.load(machine, image, kallsyms, spec.discovery)
        if spec.patch is not None:
            self.ftrace.patcher.method = spec.patch
        self.ring = self._ring_buffer()
        self.modules = Modules(machine, image, kallsyms, self.ftrace)
        self.array = TraceArray(machine, kallsyms, self.ftrace, self.ring)
        self.tracefs = TracefsTree(self.array, self.lock)
        self.disassembler = Disassembler(port.facts, kallsyms)
        self.files = LoadedFiles(image, self.modules)
        self.sites = SiteReader(self.ftrace, machine.memory, self.disassembler, self.files)
        self.paths = PathReader(self.ftrace, machine.memory, self.disassembler)
        self.encodings = EncodingReader(
            self.ftrace, machine.memory, self.disassembler, lambda: self.modules.loaded
        )
        self.stepper = Stepper(machine, self.ftrace, kallsyms, self.disassembler, self.address_of)
        self.steppings = SteppingReader(
            machine,
            self.ftrace,
            self.stepper,
            self.paths,
            self.disassembler,
            self.files,
            self.array.cmdlines,
            self.instructions,
        )
        self.boots += 1
        if spec.boot:
            self._boot()
        for name in spec.modules:
            self.insmod(name)

    def _ring_buffer(self) -> RingBuffer:
        machine, facts = self.machine, self.port.facts
        return RingBuffer(
            machine.memory,
            [vcpu.local["buffer"] for vcpu in machine.vcpus],
            PageFormat(facts.byteorder, facts.pointer_size, len(facts.abi.pt_regs)),
            facts.map.ring_buffer,
            now=self._stamp,
            settle=self.ftrace.settle,
        )

    def _stamp(self, cpu: int) -> int:
        """What the trace clock says on `cpu`."""
        if self.array.clock_in_ns:
            return self.machine.vcpus[cpu].ticks
        counter = self.kallsyms.address("trace_counter")
        return 0 if counter is None else self.machine.memory.read_int(counter, 8)

    def _boot(self) -> None:
        """Run from `_start` until CPU 0 first has nothing to do.

        A kernel without that symbol is a collection of functions to call. The
        entry point of the file cannot tell: where none was named, a linker takes
        the start of the text.
        """
        entry = self.image.symbols.address_of(START)
        if entry is None:
            return
        self.machine.start(entry, None)
        first = self.machine.vcpus[0]
        self.machine.run_until(lambda: first.idle_calls > 0, BOOT_LIMIT_NS, "the boot")

    # Running

    @property
    def now(self) -> int:
        """Virtual ns."""
        return self.machine.now

    def run(self, ns: int) -> None:
        """Let the machine run this much virtual time."""
        with self.lock:
            if self.machine.run(ns):
                self.journal.cut()
            self.journal.note(ns)

    def sleep(self, ns: int) -> None:
        """Let the machine run this much virtual time, to the end.

        Raises `GuestError` when no CPU is left to run, `GuestOops` when one has stopped
        meanwhile, and `GuestInterrupted` on `stop`.
        """
        with self.lock:
            machine = self.machine
            deaths = len(machine.oopses)
            if machine.alive and machine.run(ns):
                raise GuestInterrupted("the sleep")
            if len(machine.oopses) > deaths:
                fault = machine.oopses[deaths]
                reason = f"CPU {fault.cpu} has stopped: {fault}"
                raise GuestOops(reason, cpu=fault.cpu, pc=fault.pc, report=fault.report)
            if not machine.alive:
                raise GuestError("no CPU is running")

    def stop(self) -> None:
        """From any thread: end whatever runs, soon."""
        self.machine.stop()

    def step(self, cpu: int) -> None:
        """Execute one instruction on `cpu`."""
        with self.lock:
            self.stepper.step(cpu)

    def workloads(self) -> list[str]:
        """The names `run_workload` takes; from the guest's own table."""
        with self.lock:
            return workload_names(self.machine.memory, self.kallsyms)

    def run_workload(self, name: str, count: int = 1) -> int:
        """Run a workload of the guest to its end and return its result.

        Raises `UsageError` for a name the guest does not know, and `GuestError`.
        """
        with self.lock:
            self.check_workload(name)
            return self.machine.request_workload(name, count)

    def check_workload(self, name: str) -> None:
        """Raise `UsageError` for a name the guest does not know."""
        known = self.workloads()
        if name not in known:
            there = f"; there is: {', '.join(known)}" if known else " in this kernel"
            raise UsageError(f"no workload '{name}'{there}")

    def call(self, function: str, arguments: Sequence[int] = ()) -> int:
        """Call a function of the guest, by name or address, and return its result.

        Raises `UsageError` for a symbol that does not exist or too many
        arguments, and `GuestError`.
        """
        with self.lock:
            pointer = pointer_to(self.port.facts, self.kallsyms, self.address_of(function))
            if pointer is None:
                raise UsageError(f"no function descriptor leads to '{function}'")
            most = self.port.facts.abi.most_arguments
            if len(arguments) > most:
                raise UsageError(f"a call takes at most {most} arguments")
            return self.machine.request_call(pointer, arguments)

    # Modules

    def module_path(self, name: str) -> Path:
        """The file that `name`, the name of a module that comes along or a path, means."""
        known = self.port.images() / f"{name}.ko"
        plain = "/" not in name and not name.endswith(".ko") and "\0" not in name
        return known if plain and known.exists() else Path(name)

    def available_modules(self) -> list[str]:
        """Names of the modules that come along."""
        return sorted(path.stem for path in self.port.images().glob("*.ko"))

    def insmod(self, name: str, far: bool = False) -> Module:
        """Load a module by name or path, `far` where a call does not reach the kernel.

        Raises `ModuleError`, `ImageError`, `GuestError`, and `UsageError` where modules
        have one area only.
        """
        with self.lock:
            module = self.modules.insmod(self.module_path(name), far)
            self.tracefs.module_loaded(module.name)
            return module

    def rmmod(self, name: str) -> None:
        """Unload a module. Raises `ModuleError` (ENOENT, EBUSY) and `GuestError`."""
        with self.lock:
            records = self.ftrace.records
            owners = records.module_names()
            rows = [row for row, owner in enumerate(owners) if owner == name]
            gone = records.table["ip"][rows].copy()
            self.modules.rmmod(name)
            self.array.forget(gone)

    # Call sites

    def call_site(self, ip: int) -> CallSite:
        """Return the call site at `ip` as it was compiled, as it is expected, and as it is.

        Raises `UsageError` if no call site is there.
        """
        with self.lock:
            return self.sites.at(ip)

    def unfound_sites(self, name: str) -> list[int]:
        """Return the ips of the call sites in the function `name` that ftraced has not found."""
        with self.lock:
            return self.sites.unfound(name)

    def listings(self, rows: Collection[int] | None = None) -> list[Listing]:
        """The lists of call sites that the kernel and its modules came with.

        With `rows` only the entries of those records. Raises `ImageError`.
        """
        with self.lock:
            kernel = {s.index: s.address for s in self.image.sections if s.loaded}
            files = [(self.image, kernel)]
            files += [(each.image, dict(each.linked.bases)) for each in self.modules.loaded]
            records, memory = self.ftrace.records, self.machine.memory
            found = [
                listing(self.port, image, bases, memory, records, rows) for image, bases in files
            ]
            return [each for each in found if each is not None]

    def call_path(self, ip: int) -> tuple[Hop, ...]:
        """Return the path of a call from the site at `ip` to the tracer.

        Raises `UsageError` if no record begins there, and `MissingSymbolError` for a
        kernel that cannot be traced.
        """
        with self.lock:
            return self.paths.path(ip)

    def stepping(self, cpu: int) -> Stepping:
        """Return what `cpu` executes next and what its last step changed."""
        with self.lock:
            return self.steppings.at(cpu)

    def source_line(self, address: int) -> tuple[str, int] | None:
        """File and line that the code at `address` was compiled from, where that is known."""
        return self.files.source_line(address)

    # Memory and symbols

    def function_names(self) -> Sequence[str]:
        """The functions with a call site."""
        return self.ftrace.records.names

    def tracers(self) -> Sequence[str]:
        """The tracers current_tracer takes."""
        return self.array.tracers()

    def code_address(self, name: str) -> int | None:
        """Where the symbol `name` is; of a function its code, and not its descriptor."""
        prefix = self.port.facts.abi.text_prefix
        code = self.kallsyms.address(prefix + name) if prefix else None
        return self.kallsyms.address(name) if code is None else code

    def address_of(self, text: str) -> int:
        """The address `text` means: a number, a symbol, or a symbol and an offset.

        Raises `UsageError`.
        """
        match = _ADDRESS.fullmatch(text.strip())
        if match is None:
            raise UsageError(f"'{text}' is no address")
        name = match["symbol"]
        try:
            offset = int(match["offset"] or "0", 0)
        except ValueError:
            raise UsageError(f"'{match['offset']}' is no offset") from None
        address = self.code_address(name)
        if address is None:
            try:
                address = int(name, 0 if name[:2].lower() == "0x" else 16)
            except ValueError:
                raise UsageError(f"no symbol '{name}'") from None
        if not 0 <= address + offset < 1 << 8 * self.port.facts.pointer_size:
            raise UsageError(f"'{text}' is outside the address space")
        return address + offset

    def assemble(self, source: str, address: int) -> bytes:
        """The instructions of `source` for `address`.

        Raises `AssemblyError`, also for a branch that does not reach: the
        assembler cuts it short and says nothing.
        """
        code = assemble_line(self.port.facts, source, address, self.code_address)
        values = typed_values(source, self.code_address)
        modulus = 1 << 8 * self.port.facts.pointer_size
        wanted = {value % modulus for value in values or ()}
        insns = self.disassembler.decode(address, code)
        for row, insn in enumerate(insns):
            if wanted and insn.target is not None and insn.target not in wanted:
                raise AssemblyError(
                    f"{insn.mnemonic} does not reach that far from {insn.address:x}",
                    source,
                    column=asmplace.target(source, row, len(insns)),
                )
        return code

    def poke(self, address: int, data: bytes) -> bytes:
        """Write `data` to guest memory and tell every vCPU; returns what was there.

        Raises `MemoryFault` with nothing written.
        """
        with self.lock:
            before = self.machine.memory.read(address, len(data))
            self.machine.memory.write(address, data)
            self.machine.flush(address, address + len(data))
            return before

    def instructions(self, address: int, size: int) -> list[Insn]:
        """The instructions in memory that begin in the `size` bytes at `address`.

        The last may end behind them. Raises `MemoryFault` if they are not mapped.
        """
        with self.lock:
            memory = self.machine.memory
            data = memory.read(address, size)
            for more in range(self.port.facts.max_insn_size - 1, 0, -1):
                try:
                    data = memory.read(address, size + more)
                    break
                except MemoryFault:
                    continue
            insns = self.disassembler.decode(address, data)
            return [insn for insn in insns if insn.address < address + size]

    def instruction(self, cpu: int) -> str:
        """Where `cpu` is and what its next step executes, on one line."""
        with self.lock:
            pc = self.machine.registers(cpu)[self.port.facts.abi.pc.name]
            place = f"cpu{cpu}  {pc:x}  {self.kallsyms.format(pc)}"
            try:
                insns = self.instructions(pc, 1)
                if self.port.has_delay_slot(insns[0].data):
                    insns += self.instructions(insns[0].end, 1)
            except MemoryFault:
                return f"{place}  (not mapped)"
            data = b"".join(insn.data for insn in insns)
            text = "; ".join(self.disassembler.text(insn) for insn in insns)
            return f"{place}  {data.hex(' ')}  {text}"
