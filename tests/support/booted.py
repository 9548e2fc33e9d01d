"""The pieces of a session without its front end: kernel, machine, ftrace, modules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dynftrace import arches
from dynftrace.core.arch import Port
from dynftrace.core.elf.image import Image
from dynftrace.core.ftrace.ftrace import Ftrace
from dynftrace.core.ftrace.ops import FtraceHash, FtraceOps
from dynftrace.core.kernel.kallsyms import Kallsyms
from dynftrace.core.kernel.kernel import load_kernel
from dynftrace.core.machine.machine import Machine
from dynftrace.core.machine.services import LateServices
from dynftrace.core.modules.module import Modules
from dynftrace.core.session.services import FtraceServices


@dataclass
class Booted:
    """A machine with ftrace records; it has run only if it was booted."""

    port: Port
    kernel: Image
    machine: Machine
    kallsyms: Kallsyms
    ftrace: Ftrace
    modules: Modules

    def text(self) -> bytes:
        """Return the kernel's current text."""
        section = self.kernel.section(".text")
        assert section is not None
        return self.machine.memory.read(section.address, section.size)

    def address(self, name: str) -> int:
        """Return the address of a function of the kernel, the tracer or a module."""
        address = self.kallsyms.address(name)
        assert address is not None
        return address

    def site(self, name: str) -> bytes:
        """Return the bytes at the call site of a function that begins with its site."""
        return self.machine.memory.read(self.address(name), self.port.facts.sites.size)

    def filter(self, *names: str) -> FtraceHash:
        """Return a hash of the sites of these functions."""
        return FtraceHash.of(np.array([self.address(name) for name in names], np.uint64))

    def counter(self, name: str = "counter") -> FtraceOps:
        """Return ops whose function counts its calls."""
        return FtraceOps(name, self.address("function_count_call"))

    def counted(self) -> int:
        """Return the calls counted so far on all CPUs."""
        raw = self.machine.memory.read(self.address("function_count"), 64)
        order = "<" if self.port.facts.byteorder == "little" else ">"
        return int(np.frombuffer(raw, f"{order}u8").sum())


def load(kernel: Path | None = None, arch: str = "x86_64", cpus: int = 2) -> Booted:
    """Load a kernel, by default the teaching kernel, and create its records."""
    port = arches.load(arch)
    image = Image.load(kernel or port.images() / "vmlinux.elf", port.facts)
    kallsyms, services = Kallsyms(), LateServices()
    machine = Machine(port, cpus, symbols=kallsyms, services=services)
    load_kernel(port, image, machine.memory)
    kallsyms.add(image.symbols)
    ftrace = Ftrace.load(machine, image, kallsyms)
    services.connect(FtraceServices(ftrace))
    return Booted(port, image, machine, kallsyms, ftrace, Modules(machine, image, kallsyms, ftrace))


def boot(arch: str = "x86_64", cpus: int = 2) -> Booted:
    """Load and start the teaching kernel, and run it until CPU 0 is idle."""
    booted = load(None, arch, cpus)
    machine = booted.machine
    machine.start(booted.kernel.entry)
    machine.run_until(lambda: machine.vcpus[0].idle_calls > 0, 2_000_000_000, "the boot")
    return booted
