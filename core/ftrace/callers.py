"""The callers of a traced function, for tracers that record stack traces.

The tracer runs on the stack of the traced function. The first return addresses there
belong to the tracer's C code, to ftrace_caller, and to the call site. The result begins
with the last of these, the traced function itself (`skip` in __ftrace_trace_stack(),
kernel/trace/trace.c).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..abi import THREAD_SIZE
from ..arch import Addresses
from ..machine.backtrace import ReturnAddress, backtrace
from ..machine.interrupt import nmi_regs, nmi_stack
from ..machine.machine import Machine
from ..machine.vcpu import Vcpu
from .callchain import CallChain
from .ftrace import Ftrace


class Callers:
    """Finds the callers of the functions that call a machine's tracers."""

    def __init__(self, machine: Machine, ftrace: Ftrace) -> None:
        self._machine = machine
        self._ftrace = ftrace
        self._targets: dict[tuple[int, bytes], int | None] = {}
        """Of the calls found so far; see `CallChain`."""

    def addresses(self, vcpu: Vcpu, ip: int = 0) -> list[int]:
        """Return the traced function and its callers, as return addresses."""
        return [each.address for each in self.of(vcpu, ip)]

    def following(self, vcpu: Vcpu, address: int) -> list[int]:
        """Return the return address `address` and those of the callers, or none if it is absent."""
        _, chain, live = self._stack(vcpu)
        first = chain.returning_to(address, live)
        return [] if first is None else [each.address for each in chain.follow(first, live)]

    def of(self, vcpu: Vcpu, ip: int = 0) -> list[ReturnAddress]:
        """Return the traced function and its callers, with their places on the stack.

        `ip` is the site that called the tracer, 0 for any. If no site called it, return
        all return addresses on the stack.
        """
        found, chain, live = self._stack(vcpu)
        wanted = None
        if ip:
            addresses = np.array([each.address for each in found], np.uint64)
            wanted = self._returns_of_sites(addresses, ip).tolist()
        first = chain.site(vcpu.registers.pc, wanted, live)
        calls = found if first is None else chain.follow(first, live)
        return [*calls, *self._interrupted(vcpu)] if _on_nmi_stack(vcpu) else calls

    def _stack(self, vcpu: Vcpu) -> tuple[list[ReturnAddress], CallChain, set[int] | None]:
        """Return the return addresses on a stack, the call chain over them, and the live places."""
        machine = self._machine
        top = (vcpu.registers.sp | (THREAD_SIZE - 1)) + 1
        if _on_nmi_stack(vcpu):
            top = int(vcpu.local["nmi_stack"])
        found = backtrace(vcpu, machine.memory, machine.port, machine.symbols, top)
        addresses = np.array([each.address for each in found], np.uint64)
        sites = self._returns_of_sites(addresses)
        chain = self._chain(found, sites, top)
        return found, chain, chain.live(vcpu.registers.read())

    def _interrupted(self, vcpu: Vcpu) -> list[ReturnAddress]:
        """Return the instruction that the NMI of `vcpu` has interrupted, and its callers."""
        machine = self._machine
        facts, size = machine.port.facts, machine.port.facts.pointer_size
        regs = nmi_regs(vcpu, machine.port)
        saved = vcpu.pt_regs.unpack(machine.memory.read(regs, vcpu.pt_regs.size))
        names = [register.name for register in facts.abi.pt_regs]
        values = dict(zip(names, saved, strict=True))
        places = {name: regs + number * size for number, name in enumerate(names)}
        context = vcpu.registers.pt_regs.read()
        vcpu.registers.pt_regs.write(saved)
        try:
            top = (vcpu.registers.sp | (THREAD_SIZE - 1)) + 1
            found = backtrace(vcpu, machine.memory, machine.port, machine.symbols, top)
        finally:
            vcpu.registers.pt_regs.write(context)
        addresses = np.array([each.address for each in found], np.uint64)
        chain = self._chain(found, self._returns_of_sites(addresses), top)
        return chain.interrupted(values, places)

    def _chain(self, found: list[ReturnAddress], sites: NDArray[np.bool_], top: int) -> CallChain:
        """Return the call chain over the return addresses `found`, on a stack up to `top`."""
        entry = self._ftrace.entry
        tracer = range(entry.address, entry.end)
        chosen = sites.tolist()
        return CallChain(self._machine, found, chosen, self._is_caller, tracer, top, self._targets)

    def _is_caller(self, address: int) -> bool:
        """Return whether `address` is in code that sites call: entry.S or a trampoline."""
        entry, trampolines = self._ftrace.entry, self._ftrace.trampolines
        if entry.address <= address < entry.address + len(entry.code):
            return True
        return trampolines is not None and trampolines.at(address) is not None

    def _returns_of_sites(self, addresses: Addresses, ip: int = 0) -> NDArray[np.bool_]:
        """Return which addresses follow the call of a site: any site, or that at `ip` if not 0."""
        records = self._ftrace.records
        rows = records.rows_before(addresses)
        inside = rows >= 0
        sites = records.sites(rows[inside])
        ends = sites.ip + self._machine.port.lengths(sites).astype(np.uint64)
        inside[inside] = (addresses[inside] <= ends) & (sites.ip == np.uint64(ip) if ip else True)
        return inside


def _on_nmi_stack(vcpu: Vcpu) -> bool:
    """Return whether `vcpu` handles an NMI on the stack that NMIs have."""
    return vcpu.interrupts.in_nmi and vcpu.registers.sp in nmi_stack(vcpu.local)
