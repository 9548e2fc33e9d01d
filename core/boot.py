"""One start of a machine: the machine and every object made for it.

A reboot makes all of it anew. So nothing in a `Boot` changes hands between two starts, and
whoever holds one never mixes the objects of two.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Self

from .addresses import AddressReader
from .arch import Port
from .elf.image import Image
from .errors import MemoryFault
from .ftrace.ftrace import Ftrace
from .kallsyms import Kallsyms
from .kernel import load_kernel
from .machine.machine import Machine
from .machine.services import LateServices
from .module import Modules
from .quiet import settle
from .services import TracingServices
from .stepping import Stepper
from .trace.ringbuffer import RingBuffer
from .trace.subbuffer import PageFormat
from .tracefs import TraceArray, TracefsTree
from .views.disasm import Disassembler, Insn
from .views.encoding import EncodingReader
from .views.path import PathReader


@dataclass(frozen=True, slots=True, eq=False)
class Boot:
    """A machine with its kernel, its modules, ftrace, and what reads them.

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
    tracefs: TracefsTree
    disassembler: Disassembler
    paths: PathReader
    encodings: EncodingReader
    stepper: Stepper

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
    ) -> Self:
        """Put the kernel `image` into a new machine and turn its call sites into nops.

        No vCPU has run yet. `lock` guards the files of `tracefs`; `discovery` and `patch` are
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
        ftrace = Ftrace(machine, image, kallsyms, discovery)
        if patch is not None:
            ftrace.patcher.method = patch
        ftrace.init()

        def stamp(cpu: int) -> int:
            """Return what the trace clock says on `cpu`."""
            if array.clock_in_ns:
                return machine.vcpus[cpu].ticks
            counter = kallsyms.address("trace_counter")
            return 0 if counter is None else machine.memory.read_int(counter, 8)

        ring = RingBuffer(
            machine.memory,
            [vcpu.local["buffer"] for vcpu in machine.vcpus],
            PageFormat(facts.byteorder, facts.pointer_size, len(facts.abi.pt_regs)),
            facts.map.ring_buffer,
            now=stamp,
            settle=lambda: settle(machine),
        )
        array = TraceArray(machine, kallsyms, ftrace, ring)
        services.connect(TracingServices(ftrace, array))
        modules = Modules(machine, image, kallsyms, ftrace)
        disassembler = Disassembler(facts, kallsyms)
        addresses = AddressReader(facts, kallsyms)
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
            tracefs=TracefsTree(array, lock),
            disassembler=disassembler,
            paths=PathReader(ftrace, machine.memory, disassembler),
            encodings=EncodingReader(ftrace, machine.memory, disassembler, lambda: modules.loaded),
            stepper=Stepper(machine, ftrace, kallsyms, disassembler, addresses.of),
        )

    def source_line(self, address: int) -> tuple[str, int] | None:
        """Return the source file and line of the code at `address`, or None if unknown."""
        found = self.modules.source_line(address)
        return self.image.source_line(address) if found is None else found

    def file_bytes(self, address: int, size: int) -> bytes | None:
        """Return what the loaded files hold for an address, relocated; None if none does."""
        text = self.image.read(address, size)
        if text is not None:
            return text.tobytes()
        for module in self.modules.loaded:
            for index, content in module.linked.content.items():
                start = address - module.linked.bases[index]
                if start >= 0 and start + size <= len(content):
                    return content[start : start + size].tobytes()
        return None

    def instructions(self, address: int, size: int) -> list[Insn]:
        """Return the instructions in memory that begin in the `size` bytes at `address`.

        The last one may end after these bytes. Raises `MemoryFault` if they are not mapped.
        """
        data = self.machine.memory.read_mapped(address, size + self.port.facts.max_insn_size - 1)
        if len(data) < size:
            raise MemoryFault(address, size)
        insns = self.disassembler.decode(address, data)
        return [insn for insn in insns if insn.address < address + size]
