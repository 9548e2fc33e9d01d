"""The path of a call from its site to the tracer, hop by hop.

Each hop is read from guest memory, and the port computes its target from the bytes there.
Both are compared with what ftrace left there. The site calls ftrace_caller, or its
module's stub of it. The stub is what insmod wrote and leads to ftrace_caller. ftrace_caller
is the entry code as it was assembled. Its slot `ftrace_call` calls the tracer, or the
function that calls several. If a user of the site wants registers, ftrace_regs_caller and
`ftrace_regs_call` take their places. A site with a single user may call that user's
trampoline, a copy of either caller with its own slot.

If ftraced finds the sites, a site without a record calls mcount, whose slot calls the
function that notes the site.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from ..arch import ModuleStub
from ..errors import MemoryFault
from ..ftrace.entry import CALLER, GRAPH_CALL, GRAPH_CALLER, RETURN_TO_HANDLER, SLOTS
from ..ftrace.ftrace import Ftrace
from ..ftrace.patch import stub_target
from ..ftrace.state import RecordState
from ..ftrace.trampolines import OpsTrampoline
from ..machine.function import function_at, kernel_toc
from ..machine.memory import Memory
from .disasm import Disassembler, Insn

SITE, STUB, SLOT, TRACER = "site", "stub", SLOTS[CALLER], "tracer"

GRAPH_SLOT = GRAPH_CALL
"""The slot for the graph tracer."""

_TRACER_INSNS = 3
"""Number of the tracer's instructions that are shown."""


_DOES = {
    "function_trace_call": "writes the event",
    "function_stack_trace_call": "writes the event and its callers",
    "function_count_call": "counts",
    "function_profile_call": "counts it for its function",
    "fentry_trace_func": "writes the event with the registers",
    "ftrace_graph_stub": "does nothing: the graph tracer's own slot does the work",
    "ftrace_pid_func": "checks whether the task is traced",
    "function_trace_probe_call": "executes a command of set_ftrace_filter",
    "stack_trace_call": "checks how much of the stack is in use",
}
"""Descriptions of the guest functions that a slot may call, by their names in C."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop of the call."""

    label: str
    """Its kind: one of `SITE`, `STUB`, `CALLER`, `SLOT`, `TRACER`, `GRAPH_SLOT`."""
    address: int
    name: str
    """The symbol at `address`, or the number."""
    insns: tuple[tuple[Insn, str], ...]
    """Its instructions, each with its text."""
    target: int | None
    """The address that its bytes lead to, as the port decodes them; None if nowhere."""
    verified: bool
    """Whether its bytes are what ftrace left there."""
    note: str
    """Description of the hop, or of its error."""
    expected: bytes = b""
    """The bytes that ftrace left there; empty if the hop is not ftrace's."""

    @property
    def data(self) -> bytes:
        """All bytes of the hop."""
        return b"".join(insn.data for insn, _ in self.insns)

    def wrong(self, insn: Insn) -> bool:
        """Return whether an instruction differs from what ftrace left there."""
        at = insn.address - self.address
        expected = self.expected[at : at + len(insn.data)]
        return bool(self.expected) and expected != insn.data


class PathReader:
    """Reads the paths of one machine's calls."""

    def __init__(self, ftrace: Ftrace, memory: Memory, disasm: Disassembler) -> None:
        self._ftrace = ftrace
        self._memory = memory
        self._disasm = disasm
        self._facts = ftrace.port.facts

    def path(self, ip: int) -> tuple[Hop, ...]:
        """Return the hops of a call from the site at `ip`.

        Raises `UsageError` if no record begins there, and `MissingSymbolError` for a
        kernel that cannot be traced.
        """
        state, callers = self._ftrace.state_at(ip), self._ftrace.entry.callers
        target = callers[state.caller] if state.target is None else state.target
        hops = [self._site(state, target if state.stub is None else state.stub.address)]
        if state.stub is not None:
            hops.append(self.stub(state.stub))
        trampolines = self._ftrace.trampolines
        own = None if trampolines is None else trampolines.at(target)
        if own is not None:
            return (*hops, *self.trampoline_hops(own))
        return (*hops, *self.entry_hops(state.caller))

    def trampoline_hops(self, own: OpsTrampoline) -> tuple[Hop, ...]:
        """Return the hops of one user's trampoline, its slot, and what the slot calls."""
        expected = own.code[: own.slot - own.address]
        found = self._read(own.address, len(expected))
        right = found == expected
        note = f"{own.caller} only for {own.ops.name}" if right else "is not the code ftrace wrote"
        copy = self._hop(CALLER, own.address, found, own.slot, right, note, expected)
        slot = self._slot(own.slot, own.func)
        if slot.target is None:
            return copy, slot, *self._graph_hops()
        return copy, slot, self._tracer(slot.target, slot.verified), *self._graph_hops()

    def entry_hops(self, caller: str = CALLER) -> tuple[Hop, ...]:
        """Return the hops of `caller`, its slot, and the called function: the end of every path."""
        slot = self._slot(self._ftrace.entry.slot_of(caller), self._ftrace.slot)
        hops = [*self._caller(caller, slot.address), slot]
        if slot.target is not None:
            hops.append(self._tracer(slot.target, slot.verified))
            if slot.verified and len(self._ftrace.ops) > 1:
                hops += [
                    replace(self._tracer(self._code(ops.func)), note=f"called for {ops.name}")
                    for ops in self._ftrace.ops
                ]
        return (*hops, *self._graph_hops())

    def _graph_hops(self) -> Iterator[Hop]:
        """Yield the hops of the graph tracer's slot and what it calls, while returns are traced."""
        ftrace, entry = self._ftrace, self._ftrace.entry
        if not ftrace.graph:
            return
        slot, caller = entry[GRAPH_CALL], entry[GRAPH_CALLER]
        edit = ftrace.port.enable_graph_caller(slot, caller)
        at, expected = int(edit.address[0]), edit.row(edit.replacement, 0)
        found = self._read(at, len(expected))
        right = found == expected
        does = "calls" if self._disasm.decode(at, expected)[0].calls else "jumps to"
        note = f"then {does} {GRAPH_CALLER}" if right else f"expected {expected.hex(' ')}"
        yield self._hop(GRAPH_SLOT, at, found, self._target(at, found), right, note, expected)
        for name, what in (
            (GRAPH_CALLER, "makes the function return to return_to_handler"),
            (RETURN_TO_HANDLER, "writes the return, then continues at the real return address"),
        ):
            at = entry[name]
            end = min((each for each in entry.symbols.values() if each > at), default=at)
            kept = entry.code[at - entry.address : end - entry.address]
            code = self._read(at, len(kept))
            right = code == kept
            note = what if right else "is not the code ftrace wrote"
            yield self._hop(TRACER, at, code, None, right, note, kept)

    def mcount_hops(self) -> tuple[Hop, ...]:
        """Return the hops of mcount, its slot, and what it calls: the path of an unfound site.

        Empty if a table lists the sites.
        """
        ftraced = self._ftrace.ftraced
        if ftraced is None:
            return ()
        at, recorder = self._ftrace.mcount, ftraced.recorder
        linked = self._ftrace.kernel.read(at, ftraced.slot - at)
        expected = b"" if linked is None else linked.tobytes()
        found = self._read(at, len(expected))
        right = bool(expected) and found == expected
        note = "as it was linked" if right else "is not the code of the kernel's file"
        slot = self._slot(ftraced.slot, recorder)
        hops = [self._hop(CALLER, at, found, ftraced.slot, right, note, expected), slot]
        if slot.target is not None:
            called = self._tracer(slot.target, slot.verified)
            if called.verified:
                notes = ftraced.records_calls
                what = "notes its caller" if notes else "returns: nothing is noted"
                called = replace(called, note=what)
            hops.append(called)
        return tuple(hops)

    def stub(self, stub: ModuleStub) -> Hop:
        """Return the hop of a module's stub, every word compared with what insmod wrote."""
        found = self._read(stub.address, len(stub.code))
        target = stub_target(self._ftrace.port, stub, found) if found else None
        insns = self._stub_insns(stub, stub.address, found)
        right = found == stub.code and target == stub.target
        leads = "leads nowhere" if target is None else f"leads to {self._name(target)}"
        note = leads if right else f"{_difference(insns, stub)}; {leads}"
        return self._hop(STUB, stub.address, found, target, right, note, stub.code, insns)

    def text(self, address: int, data: bytes) -> str:
        """Return `data` for `address` on one line: code, or the data in a stub."""
        return "; ".join(text for _, text in self.insns(address, data))

    def insns(self, address: int, data: bytes) -> tuple[tuple[Insn, str], ...]:
        """Return the instructions of `data` for `address`, each with its text."""
        insns: tuple[Insn, ...] = self._disasm.decode(address, data)
        for stub in self._ftrace.records.stubs:
            if stub.address <= address < stub.address + len(stub.code):
                insns = self._stub_insns(stub, address, data)
        names = self._names(insns)
        return tuple((insn, self._disasm.text(insn, names)) for insn in insns)

    def _stub_insns(self, stub: ModuleStub, address: int, data: bytes) -> tuple[Insn, ...]:
        """Return the instructions of a stub's `data` at `address`, then the data they load."""
        makers = self._ftrace.port.stubs
        end = stub.address + (len(stub.code) if makers is None else makers.facts.code)
        code = max(end - address, 0)
        return (
            *self._disasm.decode(address, data[:code]),
            *self._disasm.words(address + code, data[code:]),
        )

    def _site(self, state: RecordState, wanted: int) -> Hop:
        """Return the hop of a site whose call should reach `wanted`."""
        ip, address, expected = state.ip, state.address, state.expected
        target = self._target(ip, self._read(ip, self._facts.sites.size))
        right = state.found == expected
        if not right:
            note = state.reason or (
                f"expected {expected.hex(' ')}  {self._disasm.line(address, expected)}"
            )
        elif state.enabled:
            note = f"calls {self._name(wanted)}"
        else:
            note = f"nop; would call {self._name(wanted)}"
        return self._hop(SITE, address, state.found or b"", target, right, note, expected)

    def _caller(self, caller: str, slot: int) -> Iterator[Hop]:
        """Yield the entry code from `caller` to its `slot`; callers share pieces, each is a hop."""
        entry = self._ftrace.entry
        labels = sorted({*entry.symbols.values(), slot})
        at = entry[caller]
        for _ in labels:
            end = next((label for label in labels if label > at), at)
            expected = entry.code[at - entry.address : end - entry.address]
            last = self._disasm.decode(at, expected)[-1:]
            jump = last[0].target if last else None
            target = end if end == slot or jump is None else jump
            found = self._read(at, len(expected))
            right = found == expected
            note = "as assembled from entry.S" if right else "is not the code ftrace wrote"
            yield self._hop(CALLER, at, found, target, right, note, expected)
            if target == slot or target not in labels:
                break
            at = target

    def _slot(self, at: int, callee: int) -> Hop:
        """Return the hop of the slot at `at`, which should call `callee`."""
        edit = self._ftrace.port.update_ftrace_func(at, callee, callee)
        expected = edit.expected[0].tobytes()
        found = self._read(int(edit.address[0]), len(expected))
        right = found == expected
        note = f"calls {self._name(callee)}" if right else f"expected {expected.hex(' ')}"
        return self._hop(SLOT, at, found, self._target(at, found), right, note, expected)

    def _tracer(self, address: int, meant: bool = True) -> Hop:
        """Return the hop of a function that a slot calls; `meant` says that it should."""
        entry = self._ftrace.entry
        found = self._memory.read_mapped(address, _TRACER_INSNS * self._facts.max_insn_size)
        insns = list(self._disasm.decode(address, found)[:_TRACER_INSNS])
        while any(insn.returns for insn in insns[:-1]):
            insns.pop()
        symbol = self._ftrace.kallsyms.lookup(address)
        right = symbol is not None and symbol.address == address
        if not right:
            note = "no function begins here"
        elif not meant:
            right, note = False, "is not the function to call here"
        elif address == entry["ftrace_stub"]:
            note = "returns: nothing is traced"
        elif address == self._code(entry["ftrace_ops_list_func"]):
            note = "calls each of the tracers"
        else:
            note = _DOES.get(
                self._name(address).removeprefix(self._facts.abi.text_prefix), "is called"
            )
        data = b"".join(insn.data for insn in insns)
        return self._hop(TRACER, address, data, None, right, note)

    def _hop(
        self,
        label: str,
        address: int,
        data: bytes,
        target: int | None,
        right: bool,
        note: str,
        expected: bytes = b"",
        insns: tuple[Insn, ...] | None = None,
    ) -> Hop:
        if not data:
            right, note = False, "not mapped"
        if insns is None:
            decode = self._disasm.site if label == SITE else self._disasm.decode
            insns = decode(address, data)
        names = self._names(insns)
        return Hop(
            label,
            address,
            self._name(address),
            tuple((insn, self._disasm.text(insn, names)) for insn in insns),
            target,
            right,
            note,
            expected,
        )

    def tocs(self) -> dict[int, str]:
        """Return names for the TOC pointers of the kernel and of modules with stubs."""
        ftrace = self._ftrace
        names: dict[int, str] = {}
        if self._facts.abi.toc is None:
            return names
        for stub in ftrace.records.stubs:
            symbol = ftrace.kallsyms.lookup(stub.address)
            names[stub.toc] = "TOC" if symbol is None else f"TOC [{symbol.module}]"
        # If its memory is no longer mapped, the number is shown.
        with suppress(MemoryFault):
            names[kernel_toc(self._facts, self._memory, ftrace.kallsyms)] = "TOC"
        names.pop(0, None)  # a kernel without a TOC
        return names

    def _names(self, insns: Sequence[Insn]) -> dict[int, str]:
        """Return names for pointers among `insns` that no symbol covers."""
        return {} if all(insn.decoded for insn in insns) else self.tocs()

    def _code(self, pointer: int) -> int:
        """Return the code that a function pointer leads to; the pointer if it cannot be read."""
        try:
            return function_at(self._facts, self._memory, self._ftrace.kallsyms, pointer).code
        except MemoryFault:
            return pointer

    def _target(self, address: int, data: bytes) -> int | None:
        return self._ftrace.port.call_target(address, data) if data else None

    def _read(self, address: int, size: int) -> bytes:
        try:
            return self._memory.read(address, size)
        except MemoryFault:
            return b""

    def _name(self, address: int) -> str:
        return self._disasm.name(address) or f"0x{address:x}"


def _difference(insns: tuple[Insn, ...], stub: ModuleStub) -> str:
    """Describe the first word of a stub that is not insmod's, and count the others."""
    differ = []
    for insn in insns:
        at = insn.address - stub.address
        kept = stub.code[at : at + len(insn.data)]
        if kept != insn.data:
            differ.append(f"+{at:#x} is {insn.data.hex(' ')}, expected {kept.hex(' ')}")
    more = f" and {len(differ) - 1} more" if len(differ) > 1 else ""
    return differ[0] + more if differ else "is as insmod wrote it"
