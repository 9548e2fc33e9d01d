"""A patch under way: its phases, the bytes of one site, and the bytes each CPU would run.

A CPU executes translated code, which is this machine's instruction cache. Between the phase that
writes and the phase that flushes, a CPU may still execute the old text (`CpuLane.stale`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import MemoryFault
from ..ftrace.ftrace import Ftrace
from ..ftrace.phases import NONE, SITES, SLOTS, Act, Patch, Phase
from ..kernel.kallsyms import Kallsyms
from ..machine.machine import Machine
from ..machine.vcpu import State, Vcpu
from .disasm import Disassembler, Insn


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """A phase: its number from 1, its action, and the site's text after it."""

    number: int
    title: str
    why: str
    safe: bool
    done: bool
    data: bytes
    """The site's bytes after it."""
    changed: tuple[bool, ...]
    """Which of these bytes the phase changes."""
    text: str
    """The instructions of the site after it, joined by "; "."""
    writes: bool
    """Whether it writes the site."""
    held: bool
    """Whether the CPUs are held from it to the next phase."""


@dataclass(frozen=True, slots=True)
class CpuLane:
    """One CPU in front of a phase."""

    cpu: int
    state: str
    """running, idle, off or dead."""
    pc: int
    place: str
    """pc as the kernel prints it."""
    offset: int | None
    """pc relative to the site if it is in the site's function, or just after the site."""
    inside: bool
    """Whether pc is in the middle of the site, so that it runs only a part of it."""
    stale: bool
    """Whether the bytes it executes at the site differ from memory."""
    data: bytes
    """Bytes of the site's instruction that it would execute, as it would fetch them."""
    text: str
    site: bytes
    """The bytes of the whole site as it would fetch them."""
    irqs_off: bool | None = None
    """Whether its interrupts are off; None unless the guest stops its CPUs."""
    then: str = ""
    """Its next instruction after the next phase, if it is inside the site and that differs."""


@dataclass(frozen=True, slots=True)
class PatchView:
    """A patch under way."""

    method: str
    ip: int
    name: str
    """Function of the site, with its module."""
    done: int
    """Number of phases performed."""
    rows: tuple[PhaseRow, ...]
    now: bytes
    """The site's bytes in memory."""
    text: str
    """The instructions in memory."""
    before: bytes
    """The site's bytes before the patch."""
    before_text: str
    lanes: tuple[CpuLane, ...]
    held: bool
    """Whether the CPUs are held now."""
    obstacle: str | None = None
    """Why the host writes at once, without the guest's help; None if the guest helps."""

    @property
    def next(self) -> PhaseRow:
        """The phase that comes next."""
        return self.rows[self.done]


class PatchReader:
    """Reads the patch of one machine."""

    def __init__(
        self, ftrace: Ftrace, machine: Machine, kallsyms: Kallsyms, disassembler: Disassembler
    ) -> None:
        self._ftrace = ftrace
        self._machine = machine
        self._kallsyms = kallsyms
        self._disasm = disassembler

    def view(self) -> PatchView | None:
        """Return the patch that is under way, None without one."""
        patcher = self._ftrace.patcher
        patch = patcher.patch
        if patch is None:
            return None
        ip = patch.first_site if patcher.watched_ip is None else patcher.watched_ip
        address, size = self._extent(patch, ip)
        now = self._machine.memory.read_mapped(address, size)
        before = now
        for phase in patch.phases[: patch.done][::-1]:
            before = _undone(phase, address, before)
        used = self._used(patch, address, before)
        now, before = now[:used], before[:used]
        # The stoppers' phases write nothing: show the phase after them.
        rest = patch.phases[patch.done :]
        then = next((each for each in rest if not each.stopping), rest[0]).after(address, now)
        return PatchView(
            method=patch.current.method,
            ip=ip,
            name=self._function(ip),
            done=patch.done,
            rows=self._rows(patch, address, before),
            now=now,
            text=self.asm(address, now),
            before=before,
            before_text=self.asm(address, before),
            lanes=tuple(
                self._lane(vcpu, address, now, then, any(each.stopping for each in patch.phases))
                for vcpu in self._machine.vcpus
            ),
            obstacle=None if patch.guest or patch.current.method == NONE else patcher.obstacle,
            held=patch.held,
        )

    def _extent(self, patch: Patch, ip: int) -> tuple[int, int]:
        """Return address and size of the text of the site at `ip`, or of another place."""
        size = self._ftrace.port.facts.sites.size
        for write in (write for phase in patch.phases for write in phase.writes if write.text):
            found = [at for at in write.address.tolist() if at <= ip < at + write.new.shape[1]]
            if found:
                return found[0], max(size, write.new.shape[1])
        return ip, size

    def _used(self, patch: Patch, address: int, before: bytes) -> int:
        """Return the number of bytes of a site to show: up to the last one that changes.

        If all instructions have one size, show at least two of them: one may be in a delay slot.
        """
        align = self._ftrace.port.facts.insn_align
        if align == 1:
            return len(before)
        data, end = before, 0
        for phase in patch.phases:
            after = phase.after(address, data)
            differ = (at for at, (a, b) in enumerate(zip(data, after, strict=True)) if a != b)
            end = max(end, *differ, 0)
            data = after
        return min(len(before), max(end // align + 1, 2) * align)

    def _function(self, ip: int) -> str:
        symbol = self._kallsyms.lookup(ip)
        if symbol is None:
            return f"{ip:x}"
        name = symbol.name.removeprefix(self._ftrace.port.facts.abi.text_prefix)
        return name if symbol.module is None else f"{name} [{symbol.module}]"

    def _rows(self, patch: Patch, address: int, before: bytes) -> tuple[PhaseRow, ...]:
        rows, data = [], before
        for number, phase in enumerate(patch.phases):
            after = phase.after(address, data)
            changed = self._changed(phase, address, data, after)
            rows.append(
                PhaseRow(
                    number=number + 1,
                    title=title(phase, patch.guest),
                    why=phase.why,
                    safe=phase.safe,
                    done=number < patch.done,
                    data=after,
                    changed=changed,
                    text=self.asm(address, after),
                    writes=phase.covers(address, len(after)),
                    held=phase.held,
                )
            )
            data = after
        return tuple(rows)

    def _changed(self, phase: Phase, address: int, before: bytes, after: bytes) -> tuple[bool, ...]:
        """Return which bytes at `address` are written, of the words that change."""
        align = self._ftrace.port.facts.insn_align
        unit = max(len(after), 1) if align == 1 else align
        differs = [
            before[at : at + unit] != after[at : at + unit] for at in range(0, len(after), unit)
        ]
        return tuple(differs[at // unit] and phase.covers(address + at) for at in range(len(after)))

    def asm(self, address: int, data: bytes) -> str:
        """Return the instructions of a site's text."""
        insns = self._disasm.site(address, data)
        if insns and self._breaks(insns[0]):
            insns = insns[:1]  # the rest is not reached
        return "; ".join(map(self._disasm.text, insns))

    def _breaks(self, insn: Insn) -> bool:
        known = self._ftrace.port.facts.breakpoint
        return known is not None and insn.data == known.insn

    def _lane(self, vcpu: Vcpu, address: int, now: bytes, then: bytes, stops: bool) -> CpuLane:
        """Return the lane of `vcpu`; the next phase changes the bytes `now` to `then`.

        `stops` says whether the guest stops its CPUs for the patch.
        """
        pc, size = vcpu.registers.pc, len(now)
        stale = vcpu.stale_text(address, size) if size else None
        text = now if stale is None else stale
        inside = address < pc < address + size
        start = pc if inside else address
        insn = self._insn(start, text[start - address :])
        later = self._insn(start, then[start - address :]) if inside else None
        return CpuLane(
            cpu=vcpu.number,
            state=vcpu.state.name.lower(),
            pc=pc,
            place=self._kallsyms.format(pc),
            offset=self._offset(vcpu, address, size),
            inside=inside,
            stale=stale is not None,
            data=insn.data if insn is not None else b"",
            text="" if insn is None else self._disasm.text(insn),
            site=text,
            irqs_off=bool(vcpu.local["irqs_disabled"]) if stops else None,
            then="" if later is None or later == insn else self._disasm.text(later),
        )

    def _offset(self, vcpu: Vcpu, address: int, size: int) -> int | None:
        """Return the offset of pc from the site in bytes, if both are in the same function."""
        pc = vcpu.registers.pc
        if vcpu.state is not State.RUNNING:
            return None
        here, site = self._kallsyms.lookup(pc), self._kallsyms.lookup(address + size - 1)
        same = here is not None and site is not None and here.address == site.address
        return pc - address if same or address <= pc <= address + size else None

    def _insn(self, address: int, text: bytes) -> Insn | None:
        """Return the instruction at `address`, which begins with `text`."""
        most = self._ftrace.port.facts.max_insn_size
        try:
            rest = self._machine.memory.read_mapped(address + len(text), most)
        except MemoryFault:
            rest = b""
        insns = self._disasm.decode(address, text + rest)
        return insns[0] if insns else None


def title(phase: Phase, guest: bool = False) -> str:
    """Say what `phase` does, and to how many places; `guest` says whether the guest helps."""
    if phase.act is Act.SYNC:
        nmis = f"NMI on CPU {', '.join(map(str, phase.nmis))}; " if phase.nmis else ""
        if guest:
            return f"sync: {nmis}an IPI to every CPU: do_sync_core"
        return f"sync: {nmis}flush every CPU; each runs a slice"
    if phase.act is Act.SLICE:
        return "each CPU runs a slice"
    if phase.stopping:
        return _STEPS[phase.act]
    counts = [(phase.places(SITES), "call site"), (phase.places(SLOTS), "slot")]
    many = [f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts if count]
    return f"{_VERBS[phase.act]} {' and '.join(many)}"


_STEPS = {
    Act.PREPARE: "PREPARE: every CPU enters multi_cpu_stop",
    Act.DISABLE_IRQ: "DISABLE_IRQ: no CPU takes interrupts",
    Act.EXIT: "EXIT: every CPU continues",
}

_VERBS = {
    Act.RUN: "RUN: write",
    Act.ALL: "write and flush all of",
    Act.WORD: "write and flush the word of",
    Act.TRAP: "breakpoint over the first byte of",
    Act.TAIL: "write all but the first byte of",
    Act.HEAD: "write the first byte of",
    Act.FIRST_HALF: "write and flush the first half of",
    Act.SECOND_HALF: "write and flush the second half of",
    Act.PART: "write the first 4 bytes, and an NMI comes, in",
    Act.HELP: "an NMI writes",
}


def _undone(phase: Phase, address: int, data: bytes) -> bytes:
    """Return what `data` at `address` was before `phase`."""
    for write in reversed(phase.writes):
        if write.text and write.covers(address, len(data)):
            back = Phase(phase.method, phase.act, (write.reversed(),))
            data = back.after(address, data)
    return data
