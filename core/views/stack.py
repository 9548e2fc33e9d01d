"""The stack of a vCPU word by word, with the meaning of each word.

The meanings come from several sources: the chained frames and the words that the ABI defines in
each, the frame of ftrace_caller (`ftrace/callerframe.py`), the return addresses
(`machine/backtrace.py`), and the task's ret_stack. A word unknown to all of them is named after its
value.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..errors import MemoryFault, MissingSymbolError
from ..ftrace.callerframe import LINK, CallerFrame, caller_frame
from ..ftrace.callers import Callers
from ..ftrace.entry import GRAPH_CALL, RETURN_TO_HANDLER
from ..ftrace.ftrace import Ftrace
from ..machine.backtrace import TracedReturn, backtrace, graph_ret_addrs, live_places, ret_stack
from ..machine.machine import Machine
from ..machine.symbols import TRACER
from ..machine.trial import Trials
from ..machine.vcpu import Vcpu
from .values import ValueNames


class Word(Enum):
    """Kinds of words on the stack."""

    SAVED = "saved"
    """A register that ftrace_caller has saved."""
    FRAME = "frame"
    """A word that the ABI defines in each frame."""
    RETURN = "return"
    """The return address of an active call."""
    OLD = "old"
    """A return address that no active call needs."""
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class StackRow:
    """One word."""

    address: int
    offset: int
    """Bytes from sp."""
    value: int
    word: Word
    what: str
    """Meaning of the word and of its value; "" if unknown."""


@dataclass(frozen=True, slots=True)
class ReturnRow:
    """An entry of the task's ret_stack."""

    number: int
    func: str
    ret: str
    """The address to which the function really returns."""
    fp: int


@dataclass(frozen=True, slots=True)
class Stack:
    """The stack of one vCPU."""

    cpu: int
    sp: int
    top: int
    """The first address above the stack."""
    rows: tuple[StackRow, ...]
    """The words, from sp upwards."""
    returns: tuple[ReturnRow, ...]
    """The ret_stack, innermost first."""
    digits: int
    """Hexadecimal digits of a word."""

    @property
    def used(self) -> int:
        """Bytes in use."""
        return self.top - self.sp


class StackReader:
    """Reads the stacks of one machine's vCPUs."""

    def __init__(
        self,
        machine: Machine,
        ftrace: Ftrace,
        callers: Callers,
        trials: Trials,
        names: ValueNames,
    ) -> None:
        self._machine = machine
        self._ftrace = ftrace
        self._callers = callers
        self._trials = trials
        self._names = names
        self._frames: dict[int, tuple[bytes, CallerFrame]] = {}

    def at(self, cpu: int, words: int) -> Stack:
        """Return up to `words` words of the stack of `cpu`, from sp upwards."""
        machine, facts = self._machine, self._machine.port.facts
        vcpu, size = machine.vcpus[cpu], facts.pointer_size
        sp, memory = vcpu.registers.sp, machine.memory
        top = self._names.stack(vcpu).stop
        start = sp + -sp % size
        entries = ret_stack(vcpu, memory, machine.port)
        data = memory.read_mapped(start, max(min(top - start, words * size), 0))
        data = data[: len(data) // size * size]
        known = self._known(vcpu, top, entries)
        rows = []
        for at in range(0, len(data), size):
            value = int.from_bytes(data[at : at + size], memory.byteorder)
            word, what = known.get(start + at, (Word.VALUE, ""))
            meaning = "" if word in (Word.RETURN, Word.OLD) else self._names.value(value, vcpu)
            what = ": ".join(filter(None, (what, meaning)))
            rows.append(StackRow(start + at, start + at - sp, value, word, what))
        name = self._ftrace.kallsyms
        returns = tuple(
            ReturnRow(each.number, name.name(each.func), name.format(each.ret), each.fp)
            for each in entries
        )
        return Stack(cpu, sp, top, tuple(rows), returns, 2 * size)

    def _known(
        self, vcpu: Vcpu, top: int, entries: list[TracedReturn]
    ) -> dict[int, tuple[Word, str]]:
        """Return the meanings of words by address; the most specific source wins."""
        known = self._returns(vcpu, top, entries)
        for address, name in self._frame_words(vcpu, top).items():
            word, what = known.get(address, (Word.FRAME, ""))
            known[address] = word, ", ".join(filter(None, (name, what)))
        for address, name in self._saved(vcpu).items():
            word, what = known.get(address, (Word.SAVED, ""))
            if name == LINK:
                known[address] = Word.RETURN, what or "return address"
            elif word not in (Word.FRAME, Word.RETURN):
                known[address] = Word.SAVED, f"{name} saved by ftrace_caller"
        return known

    def _returns(
        self, vcpu: Vcpu, top: int, entries: list[TracedReturn]
    ) -> dict[int, tuple[Word, str]]:
        """Return the words that hold return addresses."""
        machine = self._machine
        memory, port, kallsyms = machine.memory, machine.port, self._ftrace.kallsyms
        frames = port.facts.abi.frames
        live = None
        if frames is not None:
            frame = vcpu.registers.read()[frames.register.name]
            live = live_places(memory, port.facts, frame, top)
        handled = graph_ret_addrs(vcpu, memory, port, machine.symbols, top)
        numbers = {each.ret: each.number for each in entries}
        known: dict[int, tuple[Word, str]] = {}
        for found in backtrace(vcpu, memory, port, machine.symbols, top):
            if found.place is None:
                continue
            old = live is not None and found.place not in live
            what = f"{'old return' if old else 'return'} to {kallsyms.format(found.address)}"
            if found.place in handled:
                number = numbers.get(found.address, 0)
                what = f"{RETURN_TO_HANDLER}; ret_stack[{number}]: {kallsyms.format(found.address)}"
            known[found.place] = Word.OLD if old else Word.RETURN, what
        return known

    def _frame_words(self, vcpu: Vcpu, top: int) -> dict[int, str]:
        """Return the names of the words that the ABI defines, in each frame of the chain."""
        facts, memory = self._machine.port.facts, self._machine.memory
        frames = facts.abi.frames
        named: dict[int, str] = {}
        if frames is None:
            return named
        frame = vcpu.registers.read()[frames.register.name]
        sp = vcpu.registers.sp
        while sp <= frame < top:
            named |= {frame + offset: name for offset, name in frames.words.items()}
            try:
                above = memory.read_int(frame)
            except MemoryFault:
                break
            if above <= frame:
                break
            frame = above
        return named

    def _saved(self, vcpu: Vcpu) -> dict[int, str]:
        """Return the words that ftrace_caller has saved, if it is active."""
        pc = vcpu.registers.pc
        try:
            entry = self._ftrace.entry
        except MissingSymbolError:
            return {}  # a kernel that cannot be traced
        for caller, start in entry.callers.items():
            slot = entry.slot_of(caller)
            frame = self._frame(start, entry.address + len(entry.code), slot)
            if pc in frame.below:
                base = vcpu.registers.sp + frame.below[pc][1]
                return {base + offset: name for offset, name in frame.words(pc).items()}
        if entry.address <= pc < entry.address + len(entry.code):
            return {}
        return self._saved_outside(vcpu)

    def _saved_outside(self, vcpu: Vcpu) -> dict[int, str]:
        """Return the words that ftrace_caller has saved, while the tracer called by it runs."""
        entry, size = self._ftrace.entry, self._machine.port.facts.pointer_size
        top = self._names.stack(vcpu).stop
        memory, port = self._machine.memory, self._machine.port
        found = backtrace(vcpu, memory, port, self._machine.symbols, top)
        for caller, start in entry.callers.items():
            slot = entry.slot_of(caller)
            after = range(slot + 1, slot + port.facts.sites.size + port.facts.max_insn_size + 1)
            if not any(each.address in after for each in found):
                continue
            frame = self._frame(start, entry.address + len(entry.code), slot)
            links = [each.offset for each in frame.saved if each.name == LINK]
            calls = self._callers.of(vcpu)
            place = calls[0].place if calls else None
            if place is None or not links or slot not in frame.below:
                continue
            bases = [place - offset for offset in links]
            # More than one word may hold it; the frame is where all of them agree.
            base = next((each for each in bases if self._holds(each, frame, place)), None)
            if base is not None and base - frame.below[slot][1] >= vcpu.registers.sp - size:
                return {base + offset: name for offset, name in frame.words(None).items()}
        return {}

    def _holds(self, base: int, frame: CallerFrame, place: int) -> bool:
        """Return whether all return addresses of a frame at `base` are that at `place`."""
        memory = self._machine.memory
        try:
            wanted = memory.read_int(place)
            places = (base + each.offset for each in frame.saved if each.name == LINK)
            return all(memory.read_int(each) == wanted for each in places)
        except MemoryFault:
            return False

    def _frame(self, start: int, end: int, slot: int) -> CallerFrame:
        """Return the frame of the caller at `start`, from a trial run of its current code."""
        memory, port = self._machine.memory, self._machine.port
        code = memory.read(start, end - start)
        if start not in self._frames or self._frames[start][0] != code:
            graph = self._machine.symbols.address(GRAPH_CALL, TRACER)
            slots = {slot: self._slot_size(slot)}
            if graph is not None:
                edit = port.enable_graph_caller(graph, graph)
                slots[graph] = int(edit.address[0]) + edit.expected.shape[1] - graph
            delayed = port.has_delay_slot
            self._frames[start] = code, caller_frame(self._trials, start, end, slots, delayed)
        return self._frames[start][1]

    def _slot_size(self, slot: int) -> int:
        edit = self._machine.port.update_ftrace_func(slot, self._ftrace.slot, self._ftrace.slot)
        return int(edit.address[0]) + int(edit.expected.shape[1]) - slot
