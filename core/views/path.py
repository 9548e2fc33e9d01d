"""The way of a call from its site to the tracer, hop by hop.

Each hop is read from guest memory, its target computed by the port from the
bytes that are there, and both compared with what ftrace keeps there: the site
calls its module's stub of ftrace_caller or ftrace_caller itself, the stub is
what insmod wrote and ends at ftrace_caller, ftrace_caller is the entry code as
it was assembled, the slot `ftrace_call` in it calls the tracer, or the function
that calls several. Where a user of the site wants registers, ftrace_regs_caller
and `ftrace_regs_call` stand in their places. A site that calls the trampoline of its only
user goes through that, a copy of either with a slot of its own.

Where sites are found by running into them, one that was not found calls mcount,
whose slot calls what notes the site.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from ..arch import Trampoline
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
"""The second slot, where returns are traced as well."""

_TRACER_INSNS = 3
"""Instructions of the tracer that are shown."""


_DOES = {
    "function_trace_call": "writes the event",
    "function_stack_trace_call": "writes the event, and who called",
    "function_count_call": "counts",
    "function_profile_call": "counts it for its function",
    "fentry_trace_func": "writes the event with the registers",
    "ftrace_graph_stub": "does nothing: what is to be done is done behind it",
    "ftrace_pid_func": "asks whether the task is one that is traced",
    "function_trace_probe_call": "does what a command says",
    "stack_trace_call": "looks how much of the stack is in use",
}
"""What functions of the guest do that a slot may call, by their names in C."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One station of the call."""

    label: str
    """What kind it is: one of `SITE`, `STUB`, `CALLER`, `SLOT`, `TRACER`, `GRAPH_SLOT`."""
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
    expected: bytes = b""
    """What ftrace keeps there; empty where it keeps nothing."""

    @property
    def data(self) -> bytes:
        """All its bytes."""
        return b"".join(insn.data for insn, _ in self.insns)

    def wrong(self, insn: Insn) -> bool:
        """Whether one of its instructions is not what ftrace keeps there."""
        at = insn.address - self.address
        kept = self.expected[at : at + len(insn.data)]
        return bool(self.expected) and kept != insn.data


class PathReader:
    """Reads the hops of one machine."""

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
        state, entry = self._ftrace.state_at(ip), self._ftrace.entry
        target = entry[CALLER] if state.target is None else state.target
        hops = [self._site(state, target if state.stub is None else state.stub.address)]
        if state.stub is not None:
            hops.append(self.stub(state.stub))
        trampolines = self._ftrace.trampolines
        own = None if trampolines is None else trampolines.at(target)
        if own is not None:
            return (*hops, *self.trampoline_hops(own))
        return (*hops, *self.entry_hops(state.caller))

    def trampoline_hops(self, own: OpsTrampoline) -> tuple[Hop, ...]:
        """The trampoline of one user, its slot, and what the slot calls."""
        expected = own.code[: own.slot - own.address]
        found = self._read(own.address, len(expected))
        right = found == expected
        note = f"{own.caller} for {own.ops.name} alone" if right else "is not the code put there"
        copy = self._hop(CALLER, own.address, found, own.slot, right, note, expected)
        slot = self._slot(own.slot, own.func)
        if slot.target is None:
            return copy, slot, *self._graph_hops()
        return copy, slot, self._tracer(slot.target, slot.verified), *self._graph_hops()

    def entry_hops(self, caller: str = CALLER) -> tuple[Hop, ...]:
        """`caller`, its slot, and what the slot calls: the end of every path."""
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
        """Where ftrace_caller goes on while returns are traced: the second slot, what it calls."""
        ftrace, entry = self._ftrace, self._ftrace.entry
        if not ftrace.graph:
            return
        slot, caller = entry[GRAPH_CALL], entry[GRAPH_CALLER]
        edit = ftrace.port.enable_graph_caller(slot, caller)
        at, expected = int(edit.address[0]), edit.row(edit.replacement, 0)
        found = self._read(at, len(expected))
        right = found == expected
        note = f"then calls {GRAPH_CALLER}" if right else f"expected {expected.hex(' ')}"
        yield self._hop(GRAPH_SLOT, at, found, self._target(at, found), right, note, expected)
        for name, what in (
            (GRAPH_CALLER, "has the function return to return_to_handler"),
            (RETURN_TO_HANDLER, "notes the return, and goes on where it really was to"),
        ):
            at = entry[name]
            end = min((each for each in entry.symbols.values() if each > at), default=at)
            kept = entry.code[at - entry.address : end - entry.address]
            code = self._read(at, len(kept))
            right = code == kept
            note = what if right else "is not the code put there"
            yield self._hop(TRACER, at, code, None, right, note, kept)

    def mcount_hops(self) -> tuple[Hop, ...]:
        """mcount up to its slot, the slot, and what it calls: the way of a site not yet found.

        Nothing where a table lists the sites.
        """
        ftraced = self._ftrace.ftraced
        if ftraced is None:
            return ()
        at, recorder = self._ftrace.mcount, ftraced.recorder
        linked = self._ftrace.kernel.read(at, ftraced.slot - at)
        expected = b"" if linked is None else linked.tobytes()
        found = self._read(at, len(expected))
        right = bool(expected) and found == expected
        note = "as it was linked" if right else "is not the code that was linked"
        slot = self._slot(ftraced.slot, recorder)
        hops = [self._hop(CALLER, at, found, ftraced.slot, right, note, expected), slot]
        if slot.target is not None:
            called = self._tracer(slot.target, slot.verified)
            if called.verified:
                notes = ftraced.records_calls
                what = "notes where it was called from" if notes else "returns: nothing is noted"
                called = replace(called, note=what)
            hops.append(called)
        return tuple(hops)

    def stub(self, stub: Trampoline) -> Hop:
        """A module's trampoline, compared with what was put there, to the last word."""
        found = self._read(stub.address, len(stub.code))
        target = stub_target(self._ftrace.port, stub, found) if found else None
        insns = self._stub_insns(stub, stub.address, found)
        right = found == stub.code and target == stub.target
        leads = "leads nowhere" if target is None else f"leads to {self._name(target)}"
        note = leads if right else f"{_difference(insns, stub)}; {leads}"
        return self._hop(STUB, stub.address, found, target, right, note, stub.code, insns)

    def text(self, address: int, data: bytes) -> str:
        """`data` for `address` on one line: code, or the data in a trampoline."""
        return "; ".join(text for _, text in self.insns(address, data))

    def insns(self, address: int, data: bytes) -> tuple[tuple[Insn, str], ...]:
        """The instructions of `data` for `address`, and what they say with names of targets."""
        insns: tuple[Insn, ...] = self._disasm.decode(address, data)
        for stub in self._ftrace.records.stubs:
            if stub.address <= address < stub.address + len(stub.code):
                insns = self._stub_insns(stub, address, data)
        names = self._names(insns)
        return tuple((insn, self._disasm.text(insn, names)) for insn in insns)

    def _stub_insns(self, stub: Trampoline, address: int, data: bytes) -> tuple[Insn, ...]:
        """`data` for `address` in `stub`: instructions, and behind them what they load."""
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
        """The entry code from `caller` to its `slot`; a hop for each piece, as they are shared."""
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
            note = "as assembled from entry.S" if right else "is not the code put there"
            yield self._hop(CALLER, at, found, target, right, note, expected)
            if target == slot or target not in labels:
                break
            at = target

    def _slot(self, at: int, callee: int) -> Hop:
        """The slot at `at`, which shall call `callee`."""
        edit = self._ftrace.port.update_ftrace_func(at, callee, callee)
        expected = edit.expected[0].tobytes()
        found = self._read(int(edit.address[0]), len(expected))
        right = found == expected
        note = f"calls {self._name(callee)}" if right else f"expected {expected.hex(' ')}"
        return self._hop(SLOT, at, found, self._target(at, found), right, note, expected)

    def _tracer(self, address: int, meant: bool = True) -> Hop:
        """What a slot calls, and whether that is `meant`."""
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
        if not right:
            note = "no function begins here"
        elif not meant:
            right, note = False, "is not what shall be called here"
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
            "" if target is None else self._name(target),
            right,
            note,
            expected,
        )

    def tocs(self) -> dict[int, str]:
        """What the TOC pointers of the kernel and of modules with trampolines are called."""
        ftrace = self._ftrace
        names: dict[int, str] = {}
        if self._facts.abi.toc is None:
            return names
        for stub in ftrace.records.stubs:
            symbol = ftrace.kallsyms.lookup(stub.address)
            names[stub.toc] = "TOC" if symbol is None else f"TOC [{symbol.module}]"
        # Where its place is not mapped any more, a number has to do.
        with suppress(MemoryFault):
            names[kernel_toc(self._facts, self._memory, ftrace.kallsyms)] = "TOC"
        names.pop(0, None)  # of a kernel that has none
        return names

    def _names(self, insns: Sequence[Insn]) -> dict[int, str]:
        """What pointers among `insns` to no symbol are called."""
        return {} if all(insn.decoded for insn in insns) else self.tocs()

    def _code(self, pointer: int) -> int:
        """The code a function pointer leads to; itself, where that cannot be read."""
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


def _difference(insns: tuple[Insn, ...], stub: Trampoline) -> str:
    """The first instruction or word of a stub that is not what was put there, and how many are."""
    differ = []
    for insn in insns:
        at = insn.address - stub.address
        kept = stub.code[at : at + len(insn.data)]
        if kept != insn.data:
            differ.append(f"+{at:#x} is {insn.data.hex(' ')}, expected {kept.hex(' ')}")
    more = f" and {len(differ) - 1} more" if len(differ) > 1 else ""
    return differ[0] + more if differ else "is as it was put there"
