"""One vCPU: an engine, its clock and CPU-local page, and why it stopped.

Each vCPU has its own engine over the machine's one memory, and so its own translated code. At
`map.local` every vCPU sees two pages of its own: the clock, read-only, and `struct cpu_local`.

The engine runs a slice and returns a `Stop`: the deadline was reached, the guest makes a
hypercall (`stop_request`), an instruction trapped, the CPU waits for an interrupt, or it
faulted. The machine handles each of them.
"""

from __future__ import annotations

import ctypes
import struct
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from unicorn import Uc, UcError
from unicorn.unicorn_const import (
    UC_CTL_IO_WRITE,
    UC_CTL_TB_FLUSH,
    UC_CTL_TCG_BUFFER_SIZE,
    UC_CTL_TLB_TYPE,
    UC_HOOK_CODE,
    UC_HOOK_INTR,
    UC_HOOK_MEM_READ,
    UC_PROT_EXEC,
    UC_PROT_READ,
    UC_PROT_WRITE,
    UC_TLB_VIRTUAL,
)
from unicorn.unicorn_py3.unicorn import UcContext, uclib

from ..abi import LOCAL_PAGE_SIZE
from ..arch import Effect
from ..crash import Access, Fault
from ..facts import Facts, Register
from ..memento import attributes
from .clock import EXECUTED, Clock, Slices
from .codewatch import CodeWatch
from .delayslots import DelaySlots
from .faultwatch import FaultWatch
from .interrupt import Interrupts
from .longblocks import LongBlockHooks
from .memory import Memory, Region, host_pages
from .registers import Registers, Single
from .tlb import fill_whole_pages

_STEP_BYTES = 4096  # more than any one instruction, so that a step cannot run away
_FEW_BYTES = 64  # a site or two; for more, one flush of everything is cheaper
_FEW_PAGES = 64  # of changed text; for more, one flush is cheaper too


class State(Enum):
    """State of a vCPU, which decides what its next turn does."""

    OFF = auto()
    RUNNING = auto()
    IDLE = auto()
    """Sleeping until an interrupt is pending."""
    DEAD = auto()
    """Stopped for good by an oops or a panic."""


class Why(Enum):
    """Why the engine stopped."""

    DEADLINE = auto()
    CALL = auto()
    """`stop_request` is set."""
    INTERRUPT = auto()
    """An instruction trapped; `Stop.number` is the engine's number of the trap."""
    HALT = auto()
    """The guest executed its instruction that waits for an interrupt."""
    FAULT = auto()
    REACHED = auto()
    """pc is one of the places of `stop_at`."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the engine stopped, with the number of a trap or the fault."""

    why: Why
    number: int = 0
    fault: Fault | None = None


class Read(NamedTuple):
    """A read of memory by the instruction at `pc`; `size` is in bytes."""

    pc: int
    address: int
    size: int
    value: int


_DEADLINE, _CALL, _HALT = Stop(Why.DEADLINE), Stop(Why.CALL), Stop(Why.HALT)
_REACHED = Stop(Why.REACHED)
_ONE = Slices()

CODE_BUFFER = 1 << 26
"""Bytes of translated code that an engine keeps; by default it reserves a gigabyte.

A boot and the workloads of the teaching kernel take two megabytes. An engine with a full buffer
translates everything anew.
"""


class Vcpu:
    """vCPU `number` of a machine."""

    def __init__(
        self, number: int, count: int, facts: Facts, memory: Memory, *, native_clock: bool | None
    ) -> None:
        """Open an engine over `memory`; `count` is the number of vCPUs of the machine.

        Raises `HostMemoryError`.
        """
        self.number = number
        self.facts = facts
        self.state = State.OFF
        self.interrupts = Interrupts()
        self.idle_calls = 0
        """Times the guest went to sleep on this vCPU."""
        self._memory = memory
        self._native = native_clock is not False
        self._exits: list[int] = []
        self._places: dict[int, int] = {}
        """The hooks of `stop_at`, by address."""
        self._uc = self._new_engine()
        slots = facts.engine.branches is not None
        self._clock = Clock(self._uc, facts.byteorder, native=native_clock, slots=slots)
        self._control = self._clock.control
        self.clock = self._clock.clock
        """`struct cpu_clock` as the guest sees it; to change the time, set `ticks` of the vCPU."""
        self.local = self._clock.local
        """`struct cpu_local`; assigning a field writes through."""
        order = "<" if facts.byteorder == "little" else ">"
        long = "Q" if facts.pointer_size == 8 else "I"
        self.pt_regs = struct.Struct(f"{order}{len(facts.abi.pt_regs)}{long}")
        """`struct pt_regs` in memory."""
        self._call = struct.Struct(f"{order}I4x4Q")  # call, trace_type, call_arg
        fields = self.local.dtype.fields
        assert fields is not None
        self._call_offset = fields["call"][1]
        self._trap: int | None = None
        self._passing: tuple[int, int] | None = None
        """pc and sp of the last stop at a place, which the next run passes by."""
        self._reached = False
        self._stepping = False
        self._inside: int | None = None
        """pc if the engine has stopped in the middle of a block, whose rest runs first."""
        self._stale: dict[int, dict[int, bytes]] = {}
        """Old bytes in blocks that were translated before a change, by block and address."""
        self._restored = False
        """Whether a checkpoint was restored without a flush of everything."""
        self._before_run: Callable[[], None] | None = None
        """Called before each run, while reads are recorded."""
        self._spent = False
        """Whether the engine must be replaced before it runs again."""
        self._watch: CodeWatch | None = None
        self._equip()
        memory.observe(self._map, self._unmap)
        memory.observe_text(self._note_text)
        self.local["cpu"] = number
        self.local["nr_cpus"] = count
        self.local["irqs_disabled"] = 1

    def _new_engine(self) -> Uc:
        """Open an engine without memory. Raises `HostMemoryError`."""
        engine = self.facts.engine
        # An engine that cannot allocate its buffer kills the process.
        host_pages(2 * CODE_BUFFER)
        uc = Uc(engine.uc_arch, engine.uc_mode)
        if engine.uc_cpu is not None:
            uc.ctl_set_cpu_model(engine.uc_cpu)
        uc.ctl(UC_CTL_TCG_BUFFER_SIZE, UC_CTL_IO_WRITE, ctypes.c_uint32(CODE_BUFFER))
        uc.ctl(UC_CTL_TLB_TYPE, UC_CTL_IO_WRITE, ctypes.c_int(UC_TLB_VIRTUAL))
        uc.ctl_exits_enabled(True)
        uc.ctl_set_exits(self._exits)
        return uc

    def _equip(self) -> None:
        """Give a new engine its hooks, and the CPU-local pages."""
        facts, uc = self.facts, self._uc
        branches, long_blocks = facts.engine.branches, facts.engine.long_blocks
        self.registers = Registers(uc, facts.abi, facts.pointer_size)
        self._slots = None if branches is None else DelaySlots(uc, branches, native=self._native)
        if self._native and self._slots is None:
            fill_whole_pages(uc)
        self._long_blocks = (
            None
            if long_blocks is None
            else LongBlockHooks(uc, long_blocks, facts.byteorder, native=self._native)
        )
        self._faults = FaultWatch(uc, 1 << (8 * facts.pointer_size))
        uc.hook_add(UC_HOOK_INTR, self._on_interrupt)
        page, host = facts.map.local, self._clock.host_address
        # Until some memory has been unmapped, the engine misnumbers a region that is larger than an
        # earlier one: it then takes a store to one region for a change of code in another.
        uc.mem_map(page, LOCAL_PAGE_SIZE)
        uc.mem_unmap(page, LOCAL_PAGE_SIZE)
        uc.mem_map_ptr(page, LOCAL_PAGE_SIZE, UC_PROT_READ, host)
        access = UC_PROT_READ | UC_PROT_WRITE
        uc.mem_map_ptr(page + LOCAL_PAGE_SIZE, LOCAL_PAGE_SIZE, access, host + LOCAL_PAGE_SIZE)
        self._faults.mapped(page, page + 2 * LOCAL_PAGE_SIZE)

    def _replace_engine(self) -> None:
        """Move the vCPU's state to a new engine, which has translated no code yet."""
        context = self.save_context()
        self._uc = self._new_engine()
        self._clock.hook(self._uc)
        self._equip()
        for region in self._memory.regions:
            self._map(region)
        for address in self._places:
            self._places[address] = self._hook_place(address)
        if self._watch is not None:
            self.watch_code()
        self.restore_context(context)
        self._spent = False

    def watch_code(self) -> None:
        """Fault before instructions that need hardware, and make counters read virtual time."""
        engine = self.facts.engine
        if engine.cs_hardware or engine.counters:
            self._watch = CodeWatch(self._uc, engine, self._memory, self._control)

    def renew(self) -> None:
        """Replace the engine by a new one in the same state."""
        self._spent = True

    @property
    def saved_size(self) -> int:
        """Bytes that `save` keeps."""
        return self._clock.bytes.size + int(uclib.uc_context_size(self._uc._uch))

    @property
    def ticks(self) -> int:
        """This vCPU's virtual time, in ns."""
        return self._control[0]

    @ticks.setter
    def ticks(self, value: int) -> None:
        self._clock.ticks = value

    @property
    def native_clock(self) -> bool:
        """Whether machine code advances the clock; otherwise Python does."""
        return self._clock.native

    @property
    def wake(self) -> int:
        """Virtual ns at which the vCPU runs next: if idle, the time of its next interrupt."""
        if self.state is State.IDLE:
            return max(self.ticks, self.interrupts.next())
        return self.ticks

    def run(self, deadline: int, slices: Slices = _ONE) -> Stop:
        """Run until `deadline` (virtual ns), or until something else stops it.

        At the deadline, `slices` may follow; `self.deadline` is then the deadline of the last
        slice.

        Never stops between a branch and its delay slot. If the last run stopped inside a
        block, this one runs the rest of that block first, as if there had been no stop.
        """
        if self._spent:
            self._replace_engine()
        if self._before_run is not None:
            self._before_run()
        inside, self._inside = self._inside, None
        stop = _DEADLINE
        if inside is not None and inside == self.registers.pc:
            stop = self._finish_block()
        # Recording begins between two slices.
        if self._before_run is not None:
            slices = _ONE
        if inside is None or (stop.why is Why.DEADLINE and self.ticks < deadline):
            stop = self._run(deadline, slices)
        if stop.why in (Why.FAULT, Why.INTERRUPT):
            self._spent = not self.facts.engine.survives_exceptions
        if self._slots is None:
            return stop
        if stop.why in (Why.DEADLINE, Why.CALL) and self._slots.pending():
            stop = self._finish_branch(stop)
        if stop.why in (Why.FAULT, Why.INTERRUPT):
            self._slots.forget()
        return stop

    def _finish_branch(self, stop: Stop) -> Stop:
        """Run the delay slot, after a stop between the branch and it."""
        then = self._finish_block()
        return stop if then.why is Why.DEADLINE else then

    def _finish_block(self) -> Stop:
        """Run one block, even if the guest has made a hypercall by now."""
        requested = self._put_off()
        then = self._run(self.ticks + 1)
        if requested:
            self.local["stop_request"] = requested
        return _CALL if then.why is Why.DEADLINE and self._clock.stop_requested else then

    def _put_off(self) -> int:
        """Clear the guest's `stop_request` for now, and return it."""
        requested = int(self.local["stop_request"])
        self.local["stop_request"] = 0
        return requested

    def _run(self, deadline: int, slices: Slices = _ONE) -> Stop:
        """Run until `deadline` or another stop, which may be before a delay slot."""
        clock = self._clock
        clock.deadline = deadline
        clock.follow(slices)
        self._trap = None
        self._reached = False
        self._faults.clear()
        if self._long_blocks is not None:
            self._long_blocks.update()
        watch = self._watch
        if watch is not None:
            watch.begin(self.registers.pc)
        try:
            self._uc.emu_start(self.registers.pc, 0)
            while watch is not None and watch.resumes():
                self._uc.emu_start(self.registers.pc, 0)
        except UcError as error:
            if self._trap is None:
                return Stop(Why.FAULT, fault=self._faults.fault(error, self.registers.pc))
        if self._trap is not None:
            return Stop(Why.INTERRUPT, number=self._trap)
        if watch is not None and watch.reached is not None:
            self._count_back()
            insn = watch.text(watch.reached)
            detail = f"`{insn}` needs hardware that this machine does not have"
            return Stop(Why.FAULT, fault=Fault(Access.OTHER, detail=detail))
        if self._reached:
            self._count_back()
            return _REACHED
        if clock.stop_requested:
            return _CALL
        return _DEADLINE if clock.ticks >= clock.deadline else _HALT

    def _count_back(self) -> None:
        """Correct the clock for a stop in the middle of a block.

        The clock has counted the whole block: subtract the part after pc, which is counted when it
        runs.
        """
        pc, (start, size) = self.registers.pc, self._clock.block
        self.ticks -= start + size - pc
        self._inside = None if pc == start else pc

    @property
    def deadline(self) -> int:
        """Virtual ns at which the engine's last slice ends."""
        return self._clock.deadline

    @property
    def block(self) -> tuple[int, int]:
        """Address and size in bytes of the block that ran last."""
        return self._clock.block

    @property
    def inside_block(self) -> bool:
        """Whether the next run first finishes a block; interrupts wait for the end of a block."""
        return self._inside is not None and self._inside == self.registers.pc

    def call(self) -> tuple[int, ...]:
        """Return `cpu_local.call` and the four words of `call_arg`."""
        return self._call.unpack_from(self._clock.local_bytes, self._call_offset)

    def step(self, count: int = 1) -> Stop | None:
        """Run `count` instructions; time passes by their length. Return None if nothing stopped.

        The engine translates the code anew, so a step sees it as it is in memory. A hypercall
        waits for the end of the block, as it does in a run.
        """
        if self._spent:
            self._replace_engine()
        before = self.ticks
        requested = self._put_off()
        sizes: list[int] = []

        def each(uc: Uc, address: int, size: int, data: object) -> None:
            sizes.append(size)

        self._flush_all()
        self._stepping = True
        hook = self._uc.hook_add(UC_HOOK_CODE, each)
        self._clock.deadline = before + _STEP_BYTES
        self._clock.follow(_ONE)
        self._trap = None
        self._faults.clear()
        stop: Stop | None = None
        try:
            self._uc.emu_start(self.registers.pc, 0, count=count)
        except UcError as error:
            if self._trap is None:
                stop = Stop(Why.FAULT, fault=self._faults.fault(error, self.registers.pc))
        finally:
            self._stepping = False
            self._uc.hook_del(hook)
            self._flush_all()
            self.ticks = before + sum(sizes)
        if self._watch is not None:
            self._watch.settle()
        if requested:
            self.local["stop_request"] = requested
        if stop is None and self._trap is not None:
            stop = Stop(Why.INTERRUPT, number=self._trap)
        if stop is not None:
            self._spent = not self.facts.engine.survives_exceptions
        # The clock has counted the next block already, unless this one continues.
        pc, (start, size) = self.registers.pc, self._clock.block
        self._inside = pc if stop is None and start < pc < start + size else None
        if stop is None and self._inside is None and self._clock.stop_requested:
            stop = _CALL
        return stop

    @contextmanager
    def recording(self, reads: deque[Read], since: int) -> Iterator[None]:
        """Return a context in which reads of memory after virtual time `since` (ns) go to `reads`.

        Runs are much slower from then on.
        """
        order = self._memory.byteorder

        def each(uc: Uc, access: int, address: int, size: int, value: int, data: object) -> None:
            with suppress(UcError):
                raw = int.from_bytes(uc.mem_read(address, size), order)
                reads.append(Read(self.registers.pc, address, size, raw))
            if self._slots is not None:
                self._slots.forget()

        hooks: list[int] = []

        def begin() -> None:
            if not hooks and self.ticks >= since:
                self._flush_all()
                hooks.append(self._uc.hook_add(UC_HOOK_MEM_READ, each))

        self._before_run = begin
        try:
            yield
        finally:
            self._before_run = None
            for hook in hooks:
                self._uc.hook_del(hook)
            self._flush_all()

    def stop_at(self, places: Collection[int]) -> None:
        """Have runs stop with `Why.REACHED` before the instructions at `places`.

        These replace the places of the last call. A run that begins at a place stops there the
        next time only. A place must not be a delay slot. The engine translates the code at the
        old and new places anew, and no other code.
        """
        gone, self._places = self._places, {}
        for hook in gone.values():
            self._uc.hook_del(hook)
        for address in {*gone, *places}:
            self._uc.ctl_remove_cache(address, address + 1)
            for block in [each for each in self._stale if 0 <= address - each < _FEW_BYTES]:
                del self._stale[block]
        for address in places:
            self._places[address] = self._hook_place(address)
        self.pass_by()

    def _hook_place(self, address: int) -> int:
        hook: int = self._uc.hook_add(UC_HOOK_CODE, self._on_place, None, address, address)
        return hook

    def pass_by(self) -> None:
        """Do not stop at the current pc until it is reached again."""
        self._passing = (self.registers.pc, self.registers.sp)

    def hold(self) -> None:
        """Make the vCPU return to pc later: the rest of its block will not run first."""
        self._inside = self._passing = None

    def _on_place(self, uc: Uc, address: int, size: int, data: object) -> None:
        if self._stepping:
            return
        if self._passing == (address, self.registers.sp):
            self._passing = None
            return
        self._reached = True
        uc.emu_stop()

    def run_to(self, address: int | None) -> None:
        """Have the engine halt when pc becomes `address`; None cancels that."""
        self._exits = [] if address is None else [address]
        self._uc.ctl_set_exits(self._exits)

    def apply(self, effect: Effect, memory: Memory) -> None:
        """Set the registers and store the bytes of `effect`. Raises `MemoryFault`."""
        for address, data in effect.stores:
            memory.write(address, data)
        self.registers.write(effect.registers)

    def set_controls(self, values: Mapping[Register, int]) -> None:
        """Set registers that are not among those of `Abi.pt_regs`."""
        for register, value in values.items():
            Single(self._uc, register).write(value)

    def flush(self, start: int | None = None, end: int | None = None) -> None:
        """Flush translated code, all of it or what overlaps [start, end)."""
        if self._watch is not None:
            self._watch.forget()
        if start is None or end is None or end - start > _FEW_BYTES:
            self._flush_all()
        elif end > start:
            self._uc.ctl_remove_cache(start, end)
            for block in self._blocks(start, end):
                self._clock.executed[block % EXECUTED] = 0
                self._stale.pop(block, None)

    def keep_old(self, address: int, size: int) -> None:
        """Note that text at `address` is about to change and this vCPU is not flushed.

        Blocks that it has executed stay as they are, also if a checkpoint is restored.
        """
        if self._restored:
            # The engine may have code of blocks that have not run since then.
            self._uc.ctl(UC_CTL_TB_FLUSH, UC_CTL_IO_WRITE)
            self._restored = False
        for block in self._blocks(address, address + size):
            if block not in self._stale:
                self._translate(block)  # a checkpoint may have been restored since it ran
            old = self._stale.setdefault(block, {})
            old.setdefault(address, self._memory.read(address, size))

    def stale_text(self, address: int, size: int) -> bytes | None:
        """Return the `size` bytes at `address` as this vCPU executes them, if memory differs.

        If pc is inside these bytes, the text from pc on counts: the vCPU resumes there, and that
        code may be translated anew. Return None if its translated code matches memory.
        """
        if not self._stale:
            return None
        now = self._memory.read(address, size)
        pc = self.registers.pc
        blocks = [pc] if address < pc < address + size else sorted(self._stale)
        for block in blocks:
            text = bytearray(now)
            for at, old in self._stale.get(block, {}).items():
                start, end = max(at, address), min(at + len(old), address + size)
                if start < end:
                    text[start - address : end - address] = old[start - at : end - at]
            if text != now:
                return bytes(text)
        return None

    def _blocks(self, start: int, end: int) -> list[int]:
        """Return the executed blocks that may overlap [start, end)."""
        first = max(start - _FEW_BYTES, 0)
        places = np.arange(first, end, dtype=np.uint64) % np.uint64(EXECUTED)
        return [first + at for at in np.flatnonzero(self._clock.executed[places]).tolist()]

    def _translate(self, block: int) -> None:
        """Have the engine translate the block at `block`, unless it has."""
        if self._spent:
            self._replace_engine()
        if self._long_blocks is not None:
            self._long_blocks.update()
        with suppress(UcError):  # aliases of `executed` need not be code
            self._uc.ctl_request_cache(block)

    def _make_stale(self, stale: dict[int, dict[int, bytes]]) -> None:
        """Translate blocks as they were: `stale` has their old bytes, by block and address."""
        memory = self._memory
        for block, old in stale.items():
            now = {address: memory.read(address, len(data)) for address, data in old.items()}
            for address, data in old.items():
                memory.write(address, data)
            self._translate(block)
            for address, data in now.items():
                memory.write(address, data)

    def save_context(self) -> UcContext:
        """Return all registers, for `restore_context`."""
        context: UcContext = self._uc.context_save()
        return context

    def restore_context(self, context: UcContext) -> None:
        """Go back to what `save_context` of this vCPU returned."""
        self._uc.context_restore(context)

    def save(self) -> Callable[[Sequence[tuple[int, int]]], None]:
        """Return a function that restores this vCPU, after the memory.

        It needs the ranges [start, end) of text that restoring the memory has changed, and
        flushes these. Blocks that were stale are stale again.
        """
        kept = attributes(self, "state", "idle_calls", "_inside")
        ran = np.flatnonzero(self._clock.executed).astype(np.uint32)
        stale = {block: dict(old) for block, old in self._stale.items()}
        context, pages, interrupts = self.save_context(), self._clock.save(), self.interrupts.copy()

        def restore(changed: Sequence[tuple[int, int]]) -> None:
            kept()
            self.restore_context(context)
            if stale or self._stale or len(changed) > _FEW_PAGES:
                self._flush_all()
            else:
                for start, end in changed:
                    self._uc.ctl_remove_cache(start, end)
                self._restored = True
            pages()
            self.interrupts = interrupts.copy()
            self._make_stale(stale)
            self._clock.executed.fill(0)
            self._clock.executed[ran] = 1
            self._stale = {block: dict(old) for block, old in stale.items()}

        return restore

    def _flush_all(self) -> None:
        self._uc.ctl(UC_CTL_TB_FLUSH, UC_CTL_IO_WRITE)
        self._clock.executed.fill(0)
        self._stale.clear()
        self._restored = False

    def _map(self, region: Region) -> None:
        access = UC_PROT_READ
        if region.executable:
            access |= UC_PROT_EXEC
        if region.writable:
            access |= UC_PROT_WRITE
        for start, end in self._memory.mapped(region):
            host = region.host_address + start - region.address
            self._uc.mem_map_ptr(start, end - start, access, host)
            self._faults.mapped(start, end)
        if self._long_blocks is not None:
            self._long_blocks.mapped(region)

    def _unmap(self, region: Region) -> None:
        for start, end in self._memory.mapped(region):
            self._uc.mem_unmap(start, end - start)
            self._faults.unmapped(start, end)
        if self._long_blocks is not None:
            self._long_blocks.unmapped(region)
        if self._watch is not None:
            self._watch.forget()
        self._flush_all()

    def _note_text(self, region: Region, pages: NDArray[np.intp]) -> None:
        if self._long_blocks is not None:
            self._long_blocks.changed(region, pages)

    def _on_interrupt(self, uc: Uc, number: int, data: object) -> None:
        self._trap = number
        uc.emu_stop()
