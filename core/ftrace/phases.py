"""The phases of a change of text: each names its writes and the CPUs to flush.

A `Phase` is data. The patcher performs the phases of a change one after the other
(patch.py), or one at a time while the user watches. The methods differ in whether the CPUs are held
or run between two phases.

    stop_machine  one phase of writing; no CPU runs meanwhile. If the guest stops its CPUs, a
                  phase for each state of `multi_cpu_stop` around it
    breakpoint    the steps of the kernel's `text_poke_bp_batch`: a breakpoint over the first
                  byte, sync, the other bytes, sync, the first byte, sync
    none          the first half, a slice of every CPU, the second half. If instructions are
                  aligned words, the first word, then the others
    nmi_enter     as stop_machine; an NMI in the middle first writes the text of its site
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

import numpy as np

from ..arch import Addresses, Bytes, Edit
from ..distinct import distinct
from ..errors import FtraceBugType, UsageError
from ..facts import Facts

STOP_MACHINE = "stop_machine"
BREAKPOINT = "breakpoint"
NONE = "none"
NMI_ENTER = "nmi_enter"

SITES, SLOTS, DATA = "site", "slot", "data"

_WORD = 4
"""Bytes written before an NMI in the middle of a change: Linux 2.6.27 wrote four bytes of a site
by one instruction, and the fifth by another (`ftrace_modify_code`)."""


class Act(Enum):
    """What a phase does."""

    ALL = "write the whole text"
    WORD = "write the one word"
    TRAP = "write a breakpoint over the first byte"
    TAIL = "write the bytes after the breakpoint"
    HEAD = "write the first byte over the breakpoint"
    FIRST_HALF = "write the first half"
    SECOND_HALF = "write the second half"
    SYNC = "every CPU drops its translated code and runs a slice"
    SLICE = "every CPU runs a slice"
    PART = "write the first 4 bytes of one place, then an NMI comes"
    HELP = "an NMI writes its place first"
    PREPARE = "the stopper of every CPU enters multi_cpu_stop"
    DISABLE_IRQ = "every CPU disables interrupts"
    RUN = "one CPU writes the whole text, the others wait"
    EXIT = "every CPU continues"


STOPPING = frozenset({Act.PREPARE, Act.DISABLE_IRQ, Act.EXIT})
"""Phases in which the guest's stoppers (`multi_cpu_stop`) change state."""


_WHY = {
    Act.ALL: "No CPU runs while text is written: the host holds each of them between two "
    "instructions, and drops its translated code before it runs again.",
    Act.WORD: "One aligned word changes at each place: a CPU fetches the old one or the new one, "
    "never half of each.",
    Act.TRAP: "One byte is written at once, so a CPU fetches either the old instruction or the "
    "breakpoint. One that hits it continues as the new text would.",
    Act.TAIL: "No CPU gets to these bytes: each has seen the breakpoint before them.",
    Act.HEAD: "Every CPU has the bytes after the breakpoint by now, so the new instruction is "
    "whole when its first byte appears.",
    Act.FIRST_HALF: "Nothing makes this safe: until the second half is written, a CPU runs an "
    "instruction, or a sequence, that is half old and half new.",
    Act.SECOND_HALF: "Text is whole again. A CPU that has run the mixture meanwhile may be lost.",
    Act.SYNC: "No CPU executes older text afterwards. An IPI makes each CPU execute a serializing "
    "instruction (do_sync_core); here it drops its translated code. Without the guest's help, the "
    "host does that.",
    Act.SLICE: "This is the race: every CPU runs through text that is half written.",
    Act.PART: "The other CPUs are held, but nothing holds back an NMI: if its handler calls this "
    "place, it runs text that is half old and half new.",
    Act.HELP: "An NMI that finds text being written completes it, so it never runs half of it.",
    Act.PREPARE: "The stopper, migration/N, has the highest priority, so it preempts the task of "
    "its CPU, wherever that is. A CPU with interrupts or preemption off runs on until they are on.",
    Act.DISABLE_IRQ: "All CPUs are in multi_cpu_stop now, so none is about to run what changes. "
    "Without interrupts they stay there.",
    Act.RUN: "Every CPU is in multi_cpu_stop with interrupts off, and one of them writes. The "
    "others run nothing but that loop until it is done.",
    Act.EXIT: "The text is complete. Each CPU enables interrupts and goes back to its task.",
}

_UNSAFE = frozenset({Act.FIRST_HALF, Act.SLICE, Act.PART})


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """Bytes at n places: `old` and `new` have shape (n, width)."""

    address: Addresses
    old: Bytes
    new: Bytes
    what: str = SLOTS
    """Kind of the write: `SITES`, `SLOTS` or `DATA`.

    `DATA` is for writes that are not text, such as those to the guest's table of users.
    """

    @property
    def text(self) -> bool:
        """Whether it writes code."""
        return self.what != DATA

    def reversed(self) -> Write:
        """Return the write that takes this one back."""
        return replace(self, old=self.new, new=self.old)

    def covers(self, address: int, size: int = 1) -> bool:
        """Whether it writes any of `size` bytes at `address`."""
        start, end = self.address, self.address + np.uint64(self.new.shape[1])
        return bool(((start < np.uint64(address + size)) & (end > np.uint64(address))).any())


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """One step of a change of text."""

    method: str
    act: Act
    writes: tuple[Write, ...] = ()
    """The writes, in this order."""
    flushes: tuple[tuple[int, int], ...] = ()
    """Start and end of text whose translated code is flushed after the writes."""
    nmis: tuple[int, ...] = ()
    """vCPUs that take an NMI in this phase."""
    runs: bool = False
    """Whether each vCPU runs a slice at the end."""
    edit: Edit | None = None
    """The change whose new text is emulated for a CPU that hits a breakpoint, from this phase
    to the next."""
    held: bool = False
    """Whether CPUs are held from this phase to the next."""

    @property
    def safe(self) -> bool:
        """Whether the method makes it safe for a CPU that is not inside a place."""
        return self.act not in _UNSAFE

    @property
    def why(self) -> str:
        """Sentence that says why it is safe, or why it is not."""
        return _WHY[self.act]

    @property
    def stopping(self) -> bool:
        """Whether it is a step of the guest's stoppers, which write nothing."""
        return self.act in STOPPING

    def places(self, what: str) -> int:
        """Number of places of the kind `what` (`SITES` or `SLOTS`) that it writes."""
        return sum(len(each.address) for each in self.writes if each.what == what)

    @property
    def told(self) -> bool:
        """Whether CPUs drop their translated code at its end."""
        return bool(self.flushes)

    def covers(self, address: int, size: int = 1) -> bool:
        """Whether it writes text among the `size` bytes at `address`."""
        return any(each.text and each.covers(address, size) for each in self.writes)

    def after(self, address: int, data: bytes) -> bytes:
        """Return `data`, the bytes at `address`, as they are after this phase."""
        found = bytearray(data)
        for write in self.writes:
            width = write.new.shape[1]
            near = (write.address < np.uint64(address + len(data))) & (
                write.address + np.uint64(width) > np.uint64(address)
            )
            for row in np.flatnonzero(near).tolist():
                at = int(write.address[row]) - address
                new = write.new[row].tobytes()
                start, end = max(at, 0), min(at + width, len(data))
                found[start:end] = new[start - at : end - at]
        return bytes(found)


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One edit among those of a change: its phases, and the data written before it."""

    phases: tuple[Phase, ...]
    before: tuple[Write, ...]
    """Data that the host wrote since the last edit."""
    ips: Addresses
    type: FtraceBugType = FtraceBugType.UPDATE
    """Kind of change that a report names if text is not as expected."""
    targets: Addresses = field(default_factory=lambda: np.empty(0, np.uint64))
    """The address that a report about each of `ips` names."""


@dataclass(frozen=True, eq=False)
class Patch:
    """A watched change of text: the phases done, and those that remain."""

    phases: tuple[Phase, ...]
    rounds: tuple[Round, ...]
    rollback: tuple[Callable[[], object], ...]
    """Puts text and host back as they were before the change; called in reverse order."""
    done: int = 0
    """Number of phases performed."""
    guest: bool = False
    """Whether the guest prepares it: its CPUs stop, or execute sync_core(), by themselves."""
    watched: bool = True
    """Whether it waits in front of each phase."""
    joinable: bool = True
    """Whether another change of the same command becomes part of it."""

    @property
    def current(self) -> Phase:
        """The phase that comes next."""
        return self.phases[self.done]

    @property
    def held(self) -> bool:
        """Whether the CPUs are held now."""
        return self.done > 0 and self.phases[self.done - 1].held

    @cached_property
    def writes(self) -> tuple[Write, ...]:
        """All writes, in their order."""
        return tuple(write for phase in self.phases for write in phase.writes)

    @property
    def first_site(self) -> int:
        """rec.ip of the first call site that changes; without one, of the first place."""
        sites = (each for each in self.rounds if each.phases[0].places(SITES))
        return int(next(sites, self.rounds[0]).ips[0])

    def joined(self, other: Patch) -> Patch:
        """Return this change followed by `other`."""
        return replace(
            self,
            phases=self.phases + other.phases,
            rounds=self.rounds + other.rounds,
            rollback=self.rollback + other.rollback,
        )

    def at_once(self) -> Patch:
        """Return the remaining phases, for the host to perform while the guest stands still."""
        rest = tuple(each for each in self.phases[self.done :] if each.act not in STOPPING)
        return replace(self, phases=self.phases[: self.done] + rest, guest=False)


def phases_of(
    edit: Edit, method: str, facts: Facts, nmis: Sequence[int] = (), what: str = SLOTS
) -> tuple[Phase, ...]:
    """Return the phases by which `method` writes `edit`.

    vCPUs in `nmis` take an NMI in the middle of it. Raises `UsageError` if the port cannot.
    """
    if method == BREAKPOINT:
        return _by_breakpoint(edit, facts, tuple(nmis), what)
    width = edit.replacement.shape[1]
    if method == NONE:
        half = width // 2 if facts.insn_align == 1 else facts.insn_align
        if half < width:
            return (
                _put(edit, Act.FIRST_HALF, slice(0, half), method, what),
                Phase(method, Act.SLICE, runs=True),
                _put(edit, Act.SECOND_HALF, slice(half, width), method, what),
            )
        return (_put(edit, Act.WORD, slice(0, width), method, what),)
    last = _put(edit, Act.ALL, slice(0, width), method, what)
    if not nmis:
        return (last,)
    first = _first(edit)
    part = _put(first, Act.PART, slice(0, min(_WORD, width)), method, what)
    if method != NMI_ENTER:
        return (replace(part, nmis=tuple(nmis), held=True), last)
    whole = _put(first, Act.HELP, slice(0, width), method, what)
    helped = (replace(whole, nmis=(cpu,), held=True) for cpu in nmis)
    return (replace(part, held=True), *helped, last)


def merged(rounds: Iterable[Round], rest: Sequence[Write] = ()) -> tuple[Phase, ...]:
    """Return the phases of several rounds, with the data between them, then `rest`.

    Phases without a run of the CPUs in between become one phase.
    """
    found: list[Phase] = []
    open_ = False  # whether the last one continues, because no CPU runs in between
    for each in rounds:
        data = each.before
        for phase in each.phases:
            writes = (*data, *phase.writes)
            stopped = phase.method in (STOP_MACHINE, NMI_ENTER)
            if open_ and stopped and phase.act is not Act.HELP:
                last = found[-1]
                found[-1] = replace(
                    phase,
                    method=last.method,
                    writes=last.writes + writes,
                    flushes=last.flushes + phase.flushes,
                )
            else:
                found.append(replace(phase, writes=writes))
            data, open_ = (), stopped and not phase.nmis and not phase.held
    if rest:
        found[-1] = replace(found[-1], writes=(*found[-1].writes, *rest))
    return tuple(found)


def by_stoppers(phases: tuple[Phase, ...]) -> tuple[Phase, ...]:
    """Return `phases`, all of stop_machine, with the states of the guest's stoppers around them."""
    method = phases[0].method
    before = Phase(method, Act.PREPARE), Phase(method, Act.DISABLE_IRQ)
    writes = (replace(each, act=Act.RUN) if each.act is Act.ALL else each for each in phases)
    return (*before, *writes, Phase(method, Act.EXIT))


def _put(edit: Edit, act: Act, columns: slice, method: str, what: str) -> Phase:
    """Return the phase that writes `columns` of `edit` and flushes."""
    writes = tuple(_writes(edit, columns, what))
    return Phase(method, act, writes, (_range(edit),))


def _range(edit: Edit) -> tuple[int, int]:
    start = int(edit.address.min())
    return start, int(edit.address.max()) + edit.replacement.shape[1]


def _writes(edit: Edit, columns: slice, what: str) -> Iterator[Write]:
    """Yield the writes of `columns` of the replacement, within the length of each place."""
    width = edit.replacement.shape[1]
    start, stop, _ = columns.indices(width)
    sizes = np.array([width]) if edit.lengths is None else distinct(edit.lengths)
    for length in sizes.tolist():
        end = min(stop, length)
        if start < end:
            rows = slice(None) if edit.lengths is None else edit.lengths == length
            old, new = (
                np.ascontiguousarray(text[rows, start:end])
                for text in (edit.expected, edit.replacement)
            )
            yield Write(edit.address[rows] + np.uint64(start), old, new, what)


def _by_breakpoint(edit: Edit, facts: Facts, nmis: tuple[int, ...], what: str) -> tuple[Phase, ...]:
    """Return the phases of a change under a breakpoint, with the guest running in between."""
    if facts.breakpoint is None:
        raise UsageError(f"{facts.name} cannot patch by breakpoint")
    insn = np.frombuffer(facts.breakpoint.insn, np.uint8)
    size, flushes = len(insn), (_range(edit),)
    traps = np.tile(insn, (len(edit.address), 1))
    before = np.ascontiguousarray(edit.expected[:, :size])
    after = np.ascontiguousarray(edit.replacement[:, :size])

    def phase(act: Act, *writes: Write) -> Phase:
        return Phase(BREAKPOINT, act, writes, edit=edit)

    sync = Phase(BREAKPOINT, Act.SYNC, (), flushes, runs=True, edit=edit)
    return (
        phase(Act.TRAP, Write(edit.address, before, traps, what)),
        replace(sync, nmis=nmis),
        phase(Act.TAIL, *_writes(edit, slice(size, None), what)),
        sync,
        phase(Act.HEAD, Write(edit.address, traps, after, what)),
        replace(sync, edit=None),
    )


def _first(edit: Edit) -> Edit:
    """Return the change of the first place only."""
    lengths = None if edit.lengths is None else edit.lengths[:1]
    return Edit(
        edit.address[:1],
        edit.expected[:1],
        edit.replacement[:1],
        edit.reachable[:1],
        tuple(each[:1] for each in edit.via),
        lengths,
    )
