"""Two functions with call sites and the entry code in memory, without an engine or an image."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dynftrace import arches
from dynftrace.core.arch import Trampoline
from dynftrace.core.assemble import assemble
from dynftrace.core.elf.symbols import SymbolTable
from dynftrace.core.ftrace.entry import Entry
from dynftrace.core.ftrace.ops import FtraceOps
from dynftrace.core.ftrace.records import Flag, Records
from dynftrace.core.kallsyms import Kallsyms
from dynftrace.core.machine.memory import Memory
from dynftrace.core.views.disasm import Disassembler

TEXT = 0xFFFF_FFFF_8100_0000
FENTRY = TEXT + 0x800
SCHEDULE = TEXT + 0x100
LATE = TEXT + 0x200
TRACER_NAMES = ("function_trace_call", "other_call", "ftrace_ops_list_func")
NOP5 = bytes.fromhex("0f1f440000")
PROLOGUE = bytes.fromhex("55 4889e5 31c0 c3")


def call(ip: int, target: int) -> bytes:
    return b"\xe8" + (target - ip - 5).to_bytes(4, "little", signed=True)


@dataclass
class FakeFtrace:
    """What the views read of `Ftrace`."""

    records: Records
    entry: Entry
    kallsyms: Kallsyms
    slot: int
    port: object = field(default_factory=lambda: arches.load("x86_64"))
    ops: list[FtraceOps] = field(default_factory=list)

    def users_of(self, row: int) -> list[FtraceOps]:
        ip = self.records.table["ip"][row : row + 1]
        return [ops for ops in self.ops if ops.matches(ip)[0]]


class World:
    """`schedule` begins with its site; that of `late` comes after two instructions."""

    def __init__(self, source: str | None = None) -> None:
        port = arches.load("x86_64")
        facts = port.facts
        self.memory = Memory(facts.byteorder, facts.pointer_size)
        self.memory.map(TEXT, 0x1000, "text")
        self.compiled = np.zeros(0x1000, np.uint8)
        self._put(SCHEDULE, call(SCHEDULE, FENTRY) + PROLOGUE)
        self.late = LATE + 4
        self._put(LATE, PROLOGUE[:4] + call(self.late, FENTRY) + PROLOGUE[4:])
        self.memory.write(SCHEDULE, NOP5)
        self.memory.write(self.late, NOP5)
        self.kallsyms = Kallsyms()
        labels = {"schedule": SCHEDULE, "late": LATE, "__fentry__": FENTRY}
        self.kallsyms.add(SymbolTable.of_labels(labels, TEXT + 0x1000))
        at = facts.map.tracer
        tracers = {name: at + 0x1000 + 16 * n for n, name in enumerate(TRACER_NAMES)}
        code = assemble(facts, source or port.entry_source(), at, tracers.get)
        symbols = {name: at + offset for name, offset in code.symbols.items()}
        self.memory.map(at, 0x2000, "tracer")
        self.memory.write(at, code.code)
        for address in tracers.values():
            self.memory.write(address, PROLOGUE)
        self.kallsyms.add(SymbolTable.of_labels(symbols, at + len(code.code)))
        self.kallsyms.add(SymbolTable.of_labels(tracers, at + 0x2000))
        entry = Entry(at, code.code, {**symbols, **tracers})
        records = Records(5)
        ips = np.array([SCHEDULE, self.late], np.uint64)
        left = [call(SCHEDULE, FENTRY), call(self.late, FENTRY)]
        bytes_left = np.frombuffer(b"".join(left), np.uint8).reshape(2, 5)
        records.add(ips, ["schedule", "late"], bytes_left)
        self.ftrace = FakeFtrace(records, entry, self.kallsyms, entry["ftrace_stub"])
        self.disasm = Disassembler(facts, self.kallsyms)

    def _put(self, address: int, code: bytes) -> None:
        self.memory.write(address, code)
        self.compiled[address - TEXT :][: len(code)] = np.frombuffer(code, np.uint8)

    def image_text(self, address: int, size: int) -> bytes | None:
        """The text as the image's file has it."""
        return self.compiled[address - TEXT :][:size].tobytes()

    def enable(self, row: int, *names: str) -> None:
        """What ftrace does when the tracers `names` want the site of `row`."""
        entry, records = self.ftrace.entry, self.ftrace.records
        ip = int(records.table["ip"][row])
        self.memory.write(ip, call(ip, entry["ftrace_caller"]))
        records.table["flags"][row] = Flag.ENABLED | len(names)
        self.ftrace.ops = [FtraceOps(name, entry[name]) for name in names]
        self.ftrace.slot = entry["ftrace_ops_list_func" if len(names) > 1 else names[0]]
        slot = entry["ftrace_call"]
        self.memory.write(slot, call(slot, self.ftrace.slot))

    def stub(self, row: int) -> Trampoline:
        """Have the site of `row` go through a jump at a place of its own."""
        at = TEXT + 0xF00
        target = self.ftrace.entry["ftrace_caller"]
        code = b"\xe9" + (target - at - 5).to_bytes(4, "little", signed=True)
        self.memory.write(at, code)
        self.ftrace.records.table["trampoline"][row] = at
        ip = int(self.ftrace.records.table["ip"][row])
        self.memory.write(ip, call(ip, at))
        return Trampoline(at, code, target, "ftrace_caller")
