"""One start of a machine: the machine and every object made for it.

A reboot restores the state of these objects when the session was opened, or makes new objects if
that state could not be kept. So do not keep a reference to a `Boot`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from typing import Self

from ..arch import Port
from ..elf.image import Image
from ..errors import MemoryFault
from ..ftrace.ftrace import Ftrace
from ..kernel.kallsyms import Kallsyms
from ..kernel.kernel import load_kernel
from ..machine.buffers import Buffers
from ..machine.machine import Machine
from ..machine.services import LateServices
from ..machine.trial import Trials
from ..modules.module import Modules
from ..trace.buffer.ringbuffer import RingBuffer
from ..trace.buffer.subbuffer import PageFormat
from ..tracefs import TraceArray, TracefsTree
from ..tracefs.printk import SECTION as PRINTK_SECTION
from ..views.address_map import MapReader
from ..views.call_site import SiteReader
from ..views.disasm import Disassembler, Insn
from ..views.encoding import EncodingReader
from ..views.filetext import LoadedFiles
from ..views.operands import OperandReader
from ..views.patching import PatchReader
from ..views.path import PathReader
from ..views.stack import StackReader
from ..views.stepping import SteppingReader
from ..views.values import ValueNames
from .addresses import AddressReader
from .services import TracingServices
from .stepping import Stepper


@dataclass(frozen=True, slots=True, eq=False)
class Boot:
    """A machine with its kernel, its modules, ftrace, and the objects that read them.

    Callers hold `Session.lock` while they use any of it.
    """

    port: Port
    image: Image
    """The kernel's file."""
    machine: Machine
    kallsyms: Kallsyms
    addresses: AddressReader
    ftrace: Ftrace
    modules: Modules
    ring: RingBuffer
    array: TraceArray
    buffers: Buffers
    tracefs: TracefsTree
    disassembler: Disassembler
    files: LoadedFiles
    sites: SiteReader
    paths: PathReader
    patching: PatchReader
    encodings: EncodingReader
    stepper: Stepper
    maps: MapReader
    operands: OperandReader
    stacks: StackReader
    steppings: SteppingReader

    @classmethod
    def load(
        cls,
        port: Port,
        image: Image,
        lock: threading.RLock,
        *,
        cpus: int,
        native_clock: bool | None = None,
        discovery: str | None = None,
        patch: str | None = None,
        at_boot: bool = False,
    ) -> Self:
        """Put the kernel `image` into a new machine and turn its call sites into nops.

        No vCPU has run yet. With `at_boot`, the sites become nops when the kernel gets to
        `ftrace_init`. `lock` guards the files of `tracefs`; `discovery` and `patch` are
        the port's defaults if None. Raises `ImageError`, `NoCallSitesError`,
        `MissingSymbolError`, `UsageError` and `FtraceBug`.
        """
        facts = port.facts
        kallsyms, services = Kallsyms(), LateServices()
        machine = Machine(
            port, cpus, symbols=kallsyms, services=services, native_clock=native_clock
        )
        load_kernel(port, image, machine.memory)
        kallsyms.add(image.symbols)
        ftrace = Ftrace.load(machine, image, kallsyms, discovery, at_boot=at_boot)
        if patch is not None:
            ftrace.patcher.method = patch

        ring = RingBuffer(
            machine.memory,
            [vcpu.local["buffer"] for vcpu in machine.vcpus],
            PageFormat(facts.byteorder, facts.pointer_size, len(facts.abi.pt_regs)),
            facts.map.ring_buffer,
            now=lambda cpu: array.now(cpu),
            settle=ftrace.settle,
        )
        array = TraceArray(machine, kallsyms, ftrace, ring)
        services.connect(TracingServices(ftrace, array))
        modules = Modules(machine, image, kallsyms, ftrace)
        modules.observe(array.kprobes.module_coming, array.kprobes.module_gone)
        modules.observe(
            lambda name: array.printk.hold(modules.part(name, PRINTK_SECTION)),
            lambda start, end: None,
        )
        disassembler = Disassembler(facts, kallsyms)
        addresses = AddressReader(facts, kallsyms)
        files = LoadedFiles(image, modules)
        paths = PathReader(ftrace, machine.memory, disassembler)
        trials = Trials(facts, machine.memory)
        stepper = Stepper(machine, ftrace, kallsyms, disassembler, addresses.of, trials)
        names = ValueNames(machine, kallsyms, lambda: modules.loaded)
        operands = OperandReader(machine, trials, names)
        stacks = StackReader(machine, ftrace, array.callers, trials, names)
        encodings = EncodingReader(ftrace, machine.memory, disassembler, lambda: modules.loaded)
        return cls(
            port=port,
            image=image,
            machine=machine,
            kallsyms=kallsyms,
            addresses=addresses,
            ftrace=ftrace,
            modules=modules,
            ring=ring,
            array=array,
            buffers=Buffers(machine.memory, facts.map.host_stack),
            tracefs=TracefsTree(array, lock),
            disassembler=disassembler,
            files=files,
            sites=SiteReader(ftrace, machine.memory, disassembler, files),
            paths=paths,
            patching=PatchReader(ftrace, machine, kallsyms, disassembler),
            encodings=encodings,
            maps=MapReader(ftrace, machine.memory, encodings, lambda: modules.loaded),
            stepper=stepper,
            operands=operands,
            stacks=stacks,
            steppings=SteppingReader(
                machine,
                ftrace,
                stepper,
                paths,
                disassembler,
                files,
                array.cmdlines,
                operands,
                stacks,
                array.callers,
                partial(_instructions, machine, disassembler),
            ),
        )

    def instructions(self, address: int, size: int) -> list[Insn]:
        """Return the instructions in memory that begin in the `size` bytes at `address`.

        The last one may end after these bytes. Raises `MemoryFault` if they are not mapped.
        """
        return _instructions(self.machine, self.disassembler, address, size)


def _instructions(
    machine: Machine, disassembler: Disassembler, address: int, size: int
) -> list[Insn]:
    """See `Boot.instructions`."""
    data = machine.memory.read_mapped(address, size + machine.port.facts.max_insn_size - 1)
    if len(data) < size:
        raise MemoryFault(address, size)
    insns = disassembler.decode(address, data)
    return [insn for insn in insns if insn.address < address + size]
