"""The way of a call from its site to the tracer, hop by hop.

Each hop is read from guest memory, its target computed by the port from the
bytes that are there, and both compared with what ftrace keeps there: the site
calls its module's trampoline or ftrace_caller, the trampoline ends at
ftrace_caller, ftrace_caller is the entry code as it was assembled, the slot
`ftrace_call` in it calls the tracer, or the function that calls several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..arch import Trampoline
from ..errors import MemoryFault
from ..ftrace.ftrace import Ftrace
from ..ftrace.records import Flag
from ..machine.memory import Memory
from .callsite import expected_text
from .disasm import Disassembler, Insn

SITE, STUB, CALLER, SLOT, TRACER = "site", "stub", "ftrace_caller", "ftrace_call", "tracer"

_TRACER_INSNS = 3
"""Instructions of the tracer that are shown."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One station of the call."""

    label: str
    address: int
    name: str
    """The symbol there, or the number."""
    insns: tuple[tuple[Insn, str], ...]
    """Its code, and each instruction as text."""
    target: int | None
    """Where its bytes lead, as the port reads them; None if nowhere."""
    target_name: str
    verified: bool
    """Whether its bytes are what ftrace keeps there."""
    note: str
    """What was checked, or what is wrong."""

    @property
    def data(self) -> bytes:
        """All its bytes."""
        return b"".join(insn.data for insn, _ in self.insns)


class PathReader:
    """Reads the hops of one machine."""

    def __init__(self, ftrace: Ftrace, memory: Memory, disasm: Disassembler) -> None:
        self._ftrace = ftrace
        self._memory = memory
        self._disasm = disasm
        self._facts = ftrace.port.facts

    def path(self, row: int, trampolines: Sequence[Trampoline] = ()) -> tuple[Hop, ...]:
        """The hops of record `row`; `trampolines` are those of its module.

        Raises `MissingSymbolError` for a kernel without the entry code.
        """
        entry = self._ftrace.entry
        stub = int(self._ftrace.records.table["trampoline"][row])
        hops = [self._site(row, stub or entry[CALLER])]
        hops += [self.stub(each) for each in trampolines if stub and each.address == stub]
        hops += self.entry_hops()
        return tuple(hops)

    def entry_hops(self) -> tuple[Hop, ...]:
        """ftrace_caller, its slot, and what the slot calls: the end of every path."""
        slot = self._slot()
        hops = [self._caller(), slot]
        if slot.target is not None:
            hops.append(self._tracer(slot.target))
            if slot.verified and len(self._ftrace.ops) > 1:
                hops += [
                    replace(self._tracer(ops.func), note=f"called for {ops.name}")
                    for ops in self._ftrace.ops
                ]
        return tuple(hops)

    def stub(self, trampoline: Trampoline) -> Hop:
        """A module's trampoline, compared with the code that was put there."""
        found = self._read(trampoline.address, len(trampoline.code))
        target = self._target(trampoline.address, found)
        right = found == trampoline.code and target in (None, trampoline.target)
        note = f"reaches {trampoline.symbol}" if right else "is not the code that was put there"
        return self._hop(
            STUB, trampoline.address, found, trampoline.target if right else target, right, note
        )

    def _site(self, row: int, wanted: int) -> Hop:
        records = self._ftrace.records
        ip = int(records.table["ip"][row])
        address, expected = expected_text(self._ftrace, row)
        found = self._read(address, len(expected))
        target = self._target(ip, self._read(ip, self._facts.sites.MCOUNT_INSN_SIZE))
        right = found == expected
        if not right:
            note = f"expected {expected.hex(' ')}  {self._disasm.line(address, expected)}"
        elif int(records.table["flags"][row]) & Flag.ENABLED:
            note = f"calls {self._name(wanted)}"
        else:
            note = f"nop; calls {self._name(wanted)} when enabled"
        return self._hop(SITE, address, found, target, right, note)

    def _caller(self) -> Hop:
        entry = self._ftrace.entry
        start, slot = entry[CALLER], entry[SLOT]
        found = self._read(start, slot - start)
        offset = start - entry.address
        right = bool(found) and found == entry.code[offset : offset + len(found)]
        note = "as assembled from entry.S" if right else "is not the code that was put there"
        return self._hop(CALLER, start, found, slot, right, note)

    def _slot(self) -> Hop:
        ftrace = self._ftrace
        at = ftrace.entry[SLOT]
        edit = ftrace.port.update_ftrace_func(at, ftrace.slot, ftrace.slot)
        expected = edit.expected[0].tobytes()
        found = self._read(int(edit.address[0]), len(expected))
        right = found == expected
        note = f"calls {self._name(ftrace.slot)}" if right else f"expected {expected.hex(' ')}"
        return self._hop(SLOT, at, found, self._target(at, found), right, note)

    def _tracer(self, address: int) -> Hop:
        entry = self._ftrace.entry
        found = b""
        for size in range(_TRACER_INSNS * self._facts.max_insn_size, 0, -1):
            if found := self._read(address, size):
                break
        insns = list(self._disasm.decode(address, found)[:_TRACER_INSNS])
        while any(insn.returns for insn in insns[:-1]):
            insns.pop()
        symbol = self._ftrace.kallsyms.lookup(address)
        right = symbol is not None and symbol.address == address
        if address == entry["ftrace_stub"]:
            note = "returns at once: nothing is traced"
        elif not right:
            note = "no function begins here"
        elif len(self._ftrace.ops) > 1:
            note = "calls each of the tracers"
        else:
            note = "writes the event"
        data = b"".join(insn.data for insn in insns)
        return self._hop(TRACER, address, data, None, right, note)

    def _hop(
        self, label: str, address: int, data: bytes, target: int | None, right: bool, note: str
    ) -> Hop:
        if not data:
            right, note = False, "not mapped"
        insns = self._disasm.decode(address, data)
        return Hop(
            label,
            address,
            self._name(address),
            tuple((insn, self._disasm.text(insn)) for insn in insns),
            target,
            "" if target is None else self._name(target),
            right,
            note,
        )

    def _target(self, address: int, data: bytes) -> int | None:
        return self._ftrace.port.call_target(address, data) if data else None

    def _read(self, address: int, size: int) -> bytes:
        try:
            return self._memory.read(address, size)
        except MemoryFault:
            return b""

    def _name(self, address: int) -> str:
        return self._disasm.name(address) or f"0x{address:x}"
