"""Stepping through the guest: one instruction, over a call, out of a function, up to a place.

A step runs one CPU, and the time of the others stands still. Everything longer is a run that
stops at a place (`Scheduler.run_to`), in which all CPUs take turns. The stack pointer identifies
the right return: an inner call of the same function has a lower one, and other tasks have their
own stacks.

`out` does not read the return address from the stack, where it may be wrong. Instead it runs the
CPU to an instruction that leaves the function, and over it. If returns are traced, this ends in
return_to_handler, the address to which the function then returns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..abi import THREAD_SIZE
from ..errors import GuestError, GuestInterrupted, MemoryFault, UsageError
from ..ftrace.entry import RETURN_TO_HANDLER
from ..ftrace.ftrace import Ftrace
from ..kernel.kallsyms import Kallsyms
from ..machine.machine import Machine
from ..machine.trial import Access, Trials
from ..machine.vcpu import State, Vcpu
from ..memento import Restore, attributes
from ..views.call_site import find_sites
from ..views.disasm import Disassembler, Insn

LIMIT_NS = 10_000_000_000
"""Limit for reaching a place, in virtual ns."""


@dataclass(frozen=True, slots=True)
class Change:
    """A register before and after the last step."""

    name: str
    old: int
    new: int


class Stepper:
    """Steps the vCPUs of one machine."""

    def __init__(
        self,
        machine: Machine,
        ftrace: Ftrace,
        kallsyms: Kallsyms,
        disassembler: Disassembler,
        address_of: Callable[[str], int],
        trials: Trials,
    ) -> None:
        """`address_of` returns the address that a text means, or raises `UsageError`."""
        self._machine = machine
        self._ftrace = ftrace
        self._kallsyms = kallsyms
        self._disasm = disassembler
        self._address_of = address_of
        self._trials = trials
        self.steps = 0
        """Number of instructions executed one by one."""
        self.last: int | None = None
        """Number of the vCPU of the last step."""
        self._before: dict[int, tuple[int, dict[str, int]]] = {}
        self.accesses: tuple[Access, ...] = ()
        """Memory that the last step read and wrote; empty after a longer run."""

    def save(self) -> Restore:
        """Return a function that restores the marks of the last step."""
        return attributes(self, "steps", "last", "_before", "accesses")

    # Changes of the last step

    def mark(self) -> None:
        """Begin a step: changes and elapsed time are reported from this state on."""
        self._before = {
            vcpu.number: (vcpu.ticks, vcpu.registers.read()) for vcpu in self._machine.vcpus
        }
        self.accesses = ()

    def changes(self, cpu: int) -> tuple[Change, ...]:
        """Return the registers of `cpu` that the last step has changed, except pc."""
        if cpu not in self._before:
            return ()
        now, pc = self._machine.registers(cpu), self._machine.port.facts.abi.pc.name
        old = self._before[cpu][1]
        return tuple(
            Change(name, old[name], value)
            for name, value in now.items()
            if value != old[name] and name != pc
        )

    def elapsed(self, cpu: int) -> int:
        """Return the virtual ns that the last step took on `cpu`."""
        before = self._before.get(cpu)
        return 0 if before is None else self._machine.vcpus[cpu].ticks - before[0]

    # Steps

    def step(self, cpu: int) -> None:
        """Execute one instruction on `cpu`. Raises `GuestError` if it is not running."""
        self.mark()
        vcpu = self._machine.vcpus[cpu]
        accesses: tuple[Access, ...] = ()
        if vcpu.state is State.RUNNING:
            accesses = self._trials.accesses(vcpu, self._machine.instructions_of_step(vcpu))
        self._step(cpu)
        self.accesses = accesses

    def steps_of(self, cpu: int, count: int, each: Callable[[], None]) -> None:
        """Execute `count` instructions on `cpu`, calling `each` after every one.

        Raises `GuestError` if it is not running, `GuestInterrupted` on `Machine.stop`.
        """
        machine = self._machine
        with machine.scheduler.interruptible():
            for _ in range(count):
                self.step(cpu)
                each()
                if machine.scheduler.stopping:
                    raise GuestInterrupted("the stepping")

    def _step(self, cpu: int) -> None:
        self._machine.step(cpu)
        self.steps += 1
        self.last = cpu

    def over(self, cpu: int) -> int:
        """Like `step`, but run a call to its return. Return the vCPU on which it returned.

        Raises what `Scheduler.run_to` raises.
        """
        vcpu = self._machine.vcpus[cpu]
        call = self._call(vcpu) if vcpu.state is State.RUNNING else None
        if call is None:
            self.step(cpu)
            return cpu
        self.mark()
        sp = vcpu.registers.sp
        what = f"the return to {self._kallsyms.format(call)}"
        return self._run_to({call}, lambda each: each.registers.sp == sp, LIMIT_NS, what)

    def out(self, cpu: int) -> int:
        """Run until the current function of `cpu` returns. Return the vCPU on which it returned.

        A function that ends in a jump to another one returns when that one does. Raises
        `GuestError` outside of known functions, and what `Scheduler.run_to` raises.
        """
        machine = self._machine
        vcpu = machine.vcpus[cpu]
        if vcpu.state is not State.RUNNING:
            raise machine.scheduler.not_running(cpu)
        limit = machine.now + LIMIT_NS
        self.mark()
        pc, sp = vcpu.registers.pc, vcpu.registers.sp
        base = sp & -THREAD_SIZE
        inside = self._function(pc)
        begins = pc == inside.start
        handles = self._name(pc) == RETURN_TO_HANDLER  # its return address is not on the stack
        what = f"the end of {self._name(pc)}"
        exits = self._exits(inside)
        if not exits:
            raise GuestError(f"{self._name(pc)} does not return: it has no return instruction")
        while True:
            if pc not in exits:
                rest = max(limit - machine.now, 0)
                number = self._run_to(
                    set(exits), lambda each: each.registers.sp & -THREAD_SIZE == base, rest, what
                )
                vcpu = machine.vcpus[number]
            after, pops = exits[vcpu.registers.pc]
            self._step(vcpu.number)
            if vcpu.state is not State.RUNNING:
                return vcpu.number
            pc, now = vcpu.registers.pc, vcpu.registers.sp
            if pc == after:
                continue  # the branch was not taken
            symbol = self._kallsyms.lookup(pc)
            if not self._is_return(pc) and (symbol is None or symbol.name != RETURN_TO_HANDLER):
                if pc not in inside and symbol is not None and symbol.address == pc:
                    # A tail call: the other function returns instead.
                    exits |= self._exits(self._function(pc))
                    continue
                if symbol is not None:
                    continue  # still inside the same code
            same = now == sp and (handles or not pops) and (begins or pc not in inside)
            if now > sp or same:
                return vcpu.number

    def until(self, place: str, workload: str | None = None) -> int:
        """Run until a vCPU is about to execute `place`. Return the number of that vCPU.

        `place` is an address or a function; a function means its call site if it has one. Starts
        `workload` first, unless it is still running. Raises `UsageError` for an unknown place, and
        what `Scheduler.run_to` and `Requests.start_workload` raise.
        """
        machine = self._machine
        places = self._places(place)
        self.mark()
        if workload is None:
            return self._run_to(places, lambda vcpu: True, LIMIT_NS, place)
        ended = machine.requests.start_workload(workload)
        return self._run_to(places, lambda vcpu: True, LIMIT_NS, place, ended)

    def boot_to(self, place: str, limit_ns: int) -> int:
        """Run until a vCPU is about to execute `place`, and return the number of that vCPU.

        Raises `UsageError` for an unknown place, and what `Scheduler.run_to` raises.
        """
        places = self._places(place)
        self.mark()
        return self._run_to(places, lambda vcpu: True, limit_ns, f"the boot to {place}")

    def _run_to(
        self,
        places: set[int],
        wanted: Callable[[Vcpu], bool],
        limit_ns: int,
        what: str,
        ended: Callable[[], str | None] = lambda: None,
    ) -> int:
        vcpu = self._machine.scheduler.run_to(places, wanted, limit_ns, what, ended)
        self.last = vcpu.number
        return vcpu.number

    # Code

    def _places(self, text: str) -> set[int]:
        """Return the addresses that `text` means. Raises `UsageError`."""
        records = self._ftrace.records
        if text[:2].lower() != "0x":
            ips = find_sites(records, text, self._machine.port.facts.abi.text_prefix)
            if ips:
                return {*ips}
        address = self._address_of(text)
        step = self._machine.port.facts.insn_align
        region = self._machine.memory.region_at(address)
        if region is None or not region.executable:
            raise UsageError(f"'{text}' is not in executable memory")
        if address % step:
            raise UsageError(f"'{text}' is inside an instruction: use a multiple of {step}")
        if self._in_slot(address):
            raise UsageError(f"'{text}' is a delay slot: use its branch at {address - step:x}")
        return {address}

    def _in_slot(self, address: int) -> bool:
        port = self._machine.port
        step = port.facts.insn_align
        try:
            return port.has_delay_slot(self._machine.memory.read(address - step, step))
        except (MemoryFault, OverflowError):
            return False

    def _call(self, vcpu: Vcpu) -> int | None:
        """Return where the next instruction of `vcpu` returns to, if it is a call, else None."""
        pc = vcpu.registers.pc
        insns = self._insns(pc, 1)
        if not insns or not insns[0].calls:
            return None
        if self._machine.port.has_delay_slot(insns[0].data):
            insns += self._insns(insns[0].end, 1)
        return insns[-1].end

    def _is_return(self, address: int) -> bool:
        port = self._machine.port
        before = port.facts.max_insn_size
        try:
            return port.is_return_address(self._machine.memory.read(address - before, before))
        except MemoryFault:
            return False

    def _insns(self, address: int, size: int) -> list[Insn]:
        """Return the instructions that begin in `size` bytes, up to the first unmapped byte."""
        most = size + self._machine.port.facts.max_insn_size - 1
        insns = self._disasm.decode(address, self._machine.memory.read_mapped(address, most))
        return [each for each in insns if each.address < address + size]

    def _function(self, pc: int) -> range:
        """Return the code of the function at `pc`; entry.S counts as one. Raises `GuestError`."""
        entry = self._ftrace.entry
        if entry.address <= pc < entry.address + len(entry.code):
            return range(entry.address, entry.address + len(entry.code))
        symbol = self._kallsyms.lookup(pc)
        if symbol is None or not symbol.size:
            raise GuestError(f"{pc:x} is not in a known function")
        return range(symbol.address, symbol.address + symbol.size)

    def _exits(self, inside: range) -> dict[int, tuple[int, bool]]:
        """Return the instructions that leave the code `inside` for good, by address.

        For each: its end, and whether it pops the return address from the stack.
        """
        port = self._machine.port
        stacked = port.facts.abi.link is None
        exits: dict[int, tuple[int, bool]] = {}
        slot = False
        insns = self._insns(inside.start, len(inside))
        for number, insn in enumerate(insns):
            delayed = port.has_delay_slot(insn.data)
            leaves = insn.branches and not insn.calls and insn.target not in inside
            if leaves and not slot:
                last = insns[number + 1] if delayed and number + 1 < len(insns) else insn
                exits[insn.address] = last.end, stacked and insn.returns
            slot = delayed and not slot
        return exits

    def _name(self, address: int) -> str:
        symbol = self._kallsyms.lookup(address)
        return f"{address:x}" if symbol is None else symbol.name
