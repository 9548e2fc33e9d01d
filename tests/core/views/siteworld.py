"""Two functions with call sites, and the entry code, in memory: no engine, no image."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np

from dynftrace import arches
from dynftrace.core.arch import Edit, Function, ModuleStub, Port, Sites
from dynftrace.core.elf.symbols import SymbolTable
from dynftrace.core.facts import Stub
from dynftrace.core.ftrace.entry import Entry
from dynftrace.core.ftrace.entry_code import entry_code
from dynftrace.core.ftrace.ops import FtraceOps
from dynftrace.core.ftrace.records import Flag, Records
from dynftrace.core.ftrace.state import RecordState, record_state
from dynftrace.core.kernel.kallsyms import Kallsyms
from dynftrace.core.machine.memory import Memory
from dynftrace.core.machine.symbols import TRACER
from dynftrace.core.views.disasm import Disassembler
from dynftrace.core.views.filetext import FileText

from ...support.entry import CALLED

TEXT = 0xFFFF_FFFF_8100_0000
FENTRY = TEXT + 0x800
SCHEDULE = TEXT + 0x100
LATE = TEXT + 0x200
MODULE = TEXT + 0x10_0000
PROBE = MODULE + 0x40
STUB = MODULE + 0x80
TRACER_NAMES = ("function_trace_call", "other_call", "ftrace_ops_list_func", *CALLED)
NOP5 = bytes.fromhex("0f1f440000")
PROLOGUE = bytes.fromhex("55 4889e5 31c0 c3")


def call(ip: int, target: int) -> bytes:
    return b"\xe8" + (target - ip - 5).to_bytes(4, "little", signed=True)


class Jumps:
    """Stubs that jump: `jmp target`, three bytes of padding, and the target as data."""

    facts = Stub(size=16, align=16, code=5)

    def make(self, address: int, target: Function, toc: int) -> bytes:
        return self.code(address, target.code)

    def code(self, address: int, target: int) -> bytes:
        jump = b"\xe9" + (target - address - 5).to_bytes(4, "little", signed=True)
        return jump + bytes(3) + target.to_bytes(8, "little")

    def target(self, address: int, stub: bytes, toc: int) -> int | None:
        if stub[0] != 0xE9:
            return None
        return address + 5 + int.from_bytes(stub[1:5], "little", signed=True)


class FarPort:
    """x86-64 whose calls go through the target's stub if the module has one."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self.stubs = Jumps()

    def __getattr__(self, name: str) -> object:
        return getattr(self._port, name)

    def init_nop(self, sites: Sites, mcount: int) -> Edit:
        edits = self._through("make_nop", sites, mcount)
        return replace(edits, expected=sites.compiled)

    def make_nop(self, sites: Sites, target: int) -> Edit:
        return self._through("make_nop", sites, target)

    def make_call(self, sites: Sites, target: int) -> Edit:
        return self._through("make_call", sites, target)

    def explain(self, ip: int, expected: bytes, found: bytes) -> str:
        return f"no call: {found.hex()}" if found[:1] not in (b"\xe8", b"\x0f") else ""

    def _through(self, verb: str, sites: Sites, target: int) -> Edit:
        via = sites.stub(target)
        edits = [
            getattr(self._port, verb)(Sites(sites.ip[row : row + 1]), int(via[row]) or target)
            for row in range(len(sites))
        ]
        return Edit(
            sites.ip,
            np.concatenate([np.empty((0, 5), np.uint8), *(edit.expected for edit in edits)]),
            np.concatenate([np.empty((0, 5), np.uint8), *(edit.replacement for edit in edits)]),
            np.ones(len(sites), np.bool_),
            (via,),
        )


@dataclass
class FakeFtrace:
    """The part of `Ftrace` that the views read."""

    memory: Memory
    records: Records
    entry: Entry
    kallsyms: Kallsyms
    slot: int
    port: FarPort = field(default_factory=lambda: FarPort(arches.load("x86_64")))
    ops: list[FtraceOps] = field(default_factory=list)
    trampolines: None = None
    graph: bool = False

    ftraced: None = None
    early: None = None
    mcount: int = FENTRY
    patcher: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(patch=None))

    def state(self, row: int) -> RecordState:
        target = self.entry[self.records.caller_of(row)]
        return record_state(self.port, self.memory, self.records, self.ops, target, row)

    def state_at(self, ip: int) -> RecordState:
        row = self.records.find(ip)
        assert row is not None
        return self.state(row)


class World:
    """`schedule` begins with its site; `late` has it after two instructions."""

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
        code = entry_code(port, at, tracers.get, source)
        symbols = {name: at + offset for name, offset in code.symbols.items()}
        self.memory.map(at, 0x2000, "tracer")
        self.memory.write(at, code.code)
        for address in tracers.values():
            self.memory.write(address, PROLOGUE)
        self.kallsyms.add(SymbolTable.of_labels(symbols, at + len(code.code)), TRACER)
        self.kallsyms.add(SymbolTable.of_labels(tracers, at + 0x2000), TRACER)
        entry = Entry(at, code.code, {**symbols, **tracers}, at + 0x2000)
        records = Records(5)
        ips = np.array([SCHEDULE, self.late], np.uint64)
        left = [call(SCHEDULE, FENTRY), call(self.late, FENTRY)]
        bytes_left = np.frombuffer(b"".join(left), np.uint8).reshape(2, 5)
        records.add(ips, ["schedule", "late"], bytes_left)
        self.ftrace = FakeFtrace(self.memory, records, entry, self.kallsyms, entry["ftrace_stub"])
        self.disasm = Disassembler(facts, self.kallsyms)
        self.in_file: FileText | None = None

    def _put(self, address: int, code: bytes) -> None:
        self.memory.write(address, code)
        self.compiled[address - TEXT :][: len(code)] = np.frombuffer(code, np.uint8)

    def text(self, address: int, size: int) -> bytes | None:
        """Return the text in the image's file."""
        return self.compiled[address - TEXT :][:size].tobytes()

    def stored(self, address: int, size: int) -> FileText | None:
        """Return the module's file content, as given to `in_file`."""
        return self.in_file

    def source_line(self, address: int) -> tuple[str, int] | None:
        """Return the same line for every address."""
        return "kernel/sched.c", 41

    def enable(self, row: int, *names: str) -> None:
        """Do what ftrace does when the tracers `names` trace the site of `row`."""
        entry, records = self.ftrace.entry, self.ftrace.records
        edit = self.ftrace.port.make_call(
            records.sites(slice(row, row + 1)), entry["ftrace_caller"]
        )
        self.memory.write(int(edit.address[0]), edit.replacement.tobytes())
        records.table["flags"][row] = Flag.ENABLED | len(names)
        self.ftrace.ops = [FtraceOps(name, entry[name]) for name in names]
        self.ftrace.slot = entry["ftrace_ops_list_func" if len(names) > 1 else names[0]]
        slot = entry["ftrace_call"]
        self.memory.write(slot, call(slot, self.ftrace.slot))

    def load_module(self) -> tuple[ModuleStub, ...]:
        """Load a module `usbcore` with the function `probe`, record 2, and stubs for its calls."""
        self.memory.map(MODULE, 0x1000, "module usbcore")
        jumps = self.ftrace.port.stubs
        caller = self.ftrace.entry["ftrace_caller"]
        stubs = tuple(
            ModuleStub(at, jumps.code(at, target), target, name)
            for at, target, name in (
                (STUB, FENTRY, "__fentry__"),
                (STUB + 16, caller, "ftrace_caller"),
            )
        )
        for stub in stubs:
            self.memory.write(stub.address, stub.code)
        self.memory.write(PROBE, NOP5 + PROLOGUE)
        names = {f"{stub.symbol}.stub": stub.address for stub in stubs}
        self.kallsyms.add(
            SymbolTable.of_labels({"probe": PROBE, **names}, MODULE + 0x1000), "usbcore"
        )
        left = np.frombuffer(call(PROBE, STUB), np.uint8).reshape(1, 5)
        self.ftrace.records.add(np.array([PROBE], np.uint64), ["probe"], left, "usbcore", stubs)
        return stubs
