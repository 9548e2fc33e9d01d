"""Names for numbers in registers and memory: a symbol, a place on the stack, a TOC pointer.

A name is a guess by value. It is reliable for addresses, because other numbers rarely look like
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..abi import LOCAL_PAGE_SIZE, THREAD_SIZE, cpu_local, ftrace_ret_stack
from ..kernel.kallsyms import Kallsyms
from ..machine.function import kernel_toc
from ..machine.interrupt import nmi_stack
from ..machine.machine import Machine
from ..machine.vcpu import Vcpu
from ..modules.module import Module

_LEAST = 4096
"""Smaller numbers are not taken for addresses."""


class ValueNames:
    """Names the values of one machine."""

    def __init__(
        self, machine: Machine, kallsyms: Kallsyms, modules: Callable[[], Sequence[Module]]
    ) -> None:
        self._machine = machine
        self._kallsyms = kallsyms
        self._modules = modules

    def value(self, value: int, vcpu: Vcpu) -> str:
        """Return the name of `value` if it is an address, else ""."""
        return self._toc(value) or self._place(value, vcpu)

    def place(self, address: int, vcpu: Vcpu) -> str:
        """Return the name of `address`: `sp+0x28`, a field, `symbol+0x8`, a region; else ""."""
        return self._place(address, vcpu) or self._region(address)

    def _place(self, address: int, vcpu: Vcpu) -> str:
        if address < _LEAST:
            return ""
        sp = vcpu.registers.sp
        if address in self.stack(vcpu):
            return f"sp{address - sp:+#x}" if address != sp else "sp"
        return self._own(address, vcpu) or self._symbol(address)

    def stack(self, vcpu: Vcpu) -> range:
        """Return the addresses of the stack that `vcpu` uses, of a task or for NMIs."""
        sp = vcpu.registers.sp
        nmi = nmi_stack(vcpu.local)
        if vcpu.interrupts.in_nmi and sp in nmi:
            return range(nmi[0], nmi[-1] + 1)
        base = sp & -THREAD_SIZE
        return range(base, base + THREAD_SIZE)

    def _toc(self, value: int) -> str:
        """Return whose TOC pointer `value` is, if the ABI has one."""
        facts = self._machine.port.facts
        if facts.abi.toc is None or not value:
            return ""
        for module in self._modules():
            if module.linked.toc == value:
                return f"TOC of {module.name}"
        same = value == kernel_toc(facts, self._machine.memory, self._kallsyms)
        return "TOC of the kernel" if same else ""

    def _own(self, address: int, vcpu: Vcpu) -> str:
        """Return the field of the CPU's page, or of its ret_stack."""
        facts = self._machine.port.facts
        name, rest = _field(cpu_local(facts.byteorder), address - facts.map.local - LOCAL_PAGE_SIZE)
        if name:
            return f"cpu_local.{name}{f'+{rest:#x}' if rest else ''}"
        layout = ftrace_ret_stack(facts.byteorder, facts.pointer_size)
        start = int(vcpu.local["ret_stack"])
        name, rest = _field(layout, address - start) if start else ("", 0)
        if name == "stack":
            entry = layout["stack"].base
            number, rest = divmod(rest, entry.itemsize)
            return f"ret_stack[{number}].{_field(entry, rest)[0]}"
        return f"ret_stack.{name}" if name else ""

    def _symbol(self, address: int) -> str:
        symbol = self._kallsyms.lookup(address)
        if symbol is None:
            return ""
        offset = address - symbol.address
        name = f"{symbol.name}+{offset:#x}" if offset else symbol.name
        return name if symbol.module is None else f"{name} [{symbol.module}]"

    def _region(self, address: int) -> str:
        region = self._machine.memory.region_at(address)
        return "" if region is None else region.name


def _field(layout: np.dtype[np.void], offset: int) -> tuple[str, int]:
    """Return the field of `layout` at `offset`, and the bytes into it; "" for none."""
    for name, (kind, start, *_) in (layout.fields or {}).items():
        if start <= offset < start + kind.itemsize:
            return name, offset - start
    return "", 0
