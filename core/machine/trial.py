"""Trial runs: code is executed on a separate engine to see what it would do.

Which memory an instruction reads and writes depends on addressing modes, sizes and side effects
that differ for each architecture (`push`, `stmw`, `ldp … !`). The emulator knows them all. So a
trial engine gets the state of a vCPU, executes the instruction on copies of the pages that it
touches, and reports the accesses. The machine itself does not notice.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from unicorn import Uc, UcError
from unicorn.unicorn_const import (
    UC_CTL_IO_WRITE,
    UC_CTL_TB_FLUSH,
    UC_CTL_TCG_BUFFER_SIZE,
    UC_CTL_TLB_TYPE,
    UC_HOOK_INTR,
    UC_HOOK_MEM_READ,
    UC_HOOK_MEM_UNMAPPED,
    UC_HOOK_MEM_WRITE,
    UC_MEM_WRITE,
    UC_TLB_VIRTUAL,
)

from ..abi import LOCAL_PAGE_SIZE, LOCAL_PAGES
from ..errors import MemoryFault
from ..facts import Facts
from .memory import PAGE_SIZE, Memory
from .registers import Registers
from .vcpu import Vcpu

MOST_ACCESSES = 64
"""Maximum number of accesses reported for one instruction; `stmw` makes 32."""

_CODE_BUFFER = 1 << 22
"""Bytes of translated code that the engine keeps."""

PageSource = Callable[[int], bytes | None]
"""Returns the content of the page at an address, or None if it is not mapped."""


@dataclass(frozen=True, slots=True)
class Access:
    """Memory that an instruction reads or writes."""

    address: int
    size: int
    """In bytes."""
    before: int
    """The value before the instruction."""
    after: int | None = None
    """The value after it; None if it only reads."""


class TrialEngine:
    """An engine over copies of pages, which are made when code touches them."""

    def __init__(self, facts: Facts) -> None:
        engine = facts.engine
        self.facts = facts
        uc = self.uc = Uc(engine.uc_arch, engine.uc_mode)
        if engine.uc_cpu is not None:
            uc.ctl_set_cpu_model(engine.uc_cpu)
        uc.ctl(UC_CTL_TCG_BUFFER_SIZE, UC_CTL_IO_WRITE, ctypes.c_uint32(_CODE_BUFFER))
        uc.ctl(UC_CTL_TLB_TYPE, UC_CTL_IO_WRITE, ctypes.c_int(UC_TLB_VIRTUAL))
        self.registers = Registers(uc, facts.abi, facts.pointer_size)
        self.new = self.registers.read()
        """The registers of a new engine, by name."""
        self.accesses: list[tuple[int, int, bool]] = []
        """Address, size in bytes, and whether it was a write, of each access so far."""
        self.trapped = False
        """Whether an instruction has trapped since `begin`."""
        self._pages: dict[int, bytes] = {}
        self._source: PageSource = lambda page: None
        uc.hook_add(UC_HOOK_MEM_UNMAPPED, self._on_unmapped)
        uc.hook_add(UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE, self._on_access)
        uc.hook_add(UC_HOOK_INTR, self._on_interrupt)

    def begin(self, source: PageSource) -> None:
        """Forget all pages and accesses; copy pages from `source` from now on."""
        for page in self._pages:
            self.uc.mem_unmap(page, PAGE_SIZE)
        self.uc.ctl(UC_CTL_TB_FLUSH, UC_CTL_IO_WRITE)
        self._pages.clear()
        self.accesses.clear()
        self.trapped = False
        self._source = source

    def step(self, pc: int, count: int = 1) -> bool:
        """Execute `count` instructions at `pc`. Return False if they fault or trap."""
        try:
            self.uc.emu_start(pc, 0, count=count)
        except UcError:
            return False
        return not self.trapped

    def read(self, address: int, size: int, *, before: bool = False) -> bytes:
        """Return bytes of the copied pages: as they are, or as they were `before` the trial."""
        found = b""
        while size > 0:
            page = address & -PAGE_SIZE
            part = min(size, page + PAGE_SIZE - address)
            if before:
                found += self._pages[page][address - page : address - page + part]
            else:
                found += bytes(self.uc.mem_read(address, part))
            address, size = address + part, size - part
        return found

    def _on_unmapped(
        self, uc: Uc, access: int, address: int, size: int, value: int, data: object
    ) -> bool:
        last = address + max(size, 1) - 1
        mapped = False
        for page in sorted({address & -PAGE_SIZE, last & -PAGE_SIZE}):
            content = self._source(page) if page not in self._pages else None
            if content is not None:
                uc.mem_map(page, PAGE_SIZE)
                uc.mem_write(page, content)
                self._pages[page] = content
                mapped = True
        return mapped

    def _on_access(
        self, uc: Uc, access: int, address: int, size: int, value: int, data: object
    ) -> None:
        if len(self.accesses) < 2 * MOST_ACCESSES:
            self.accesses.append((address, size, access == UC_MEM_WRITE))

    def _on_interrupt(self, uc: Uc, number: int, data: object) -> None:
        self.trapped = True
        uc.emu_stop()


class Trials:
    """Trial runs of one machine's vCPUs; the engine is opened at the first one."""

    def __init__(self, facts: Facts, memory: Memory) -> None:
        self._facts = facts
        self._memory = memory
        self._engine: TrialEngine | None = None

    def accesses(self, vcpu: Vcpu, count: int = 1) -> tuple[Access, ...]:
        """Return the memory that the next `count` instructions of `vcpu` read and write.

        They are in the order of the first access to each address. Of an instruction that faults,
        only the accesses before the fault are returned.
        """
        engine = self.engine
        engine.begin(self._seen_by(vcpu))
        # Not by a context, which contains pointers into its own engine.
        engine.registers.pt_regs.write(vcpu.registers.pt_regs.read())
        engine.step(vcpu.registers.pc, count)
        mask = (1 << 8 * self._facts.pointer_size) - 1
        written: dict[tuple[int, int], bool] = {}
        for address, size, write in engine.accesses:
            place = address & mask, size
            written[place] = written.get(place, False) or write
        order = self._memory.byteorder
        found = []
        for (address, size), write in written.items():
            try:
                before = int.from_bytes(engine.read(address, size, before=True), order)
                after = int.from_bytes(engine.read(address, size), order) if write else None
            except (KeyError, UcError):
                continue  # the access that faulted
            found.append(Access(address, size, before, after))
        return tuple(found[:MOST_ACCESSES])

    @property
    def engine(self) -> TrialEngine:
        """The engine, for other trials. Raises `HostMemoryError`."""
        if self._engine is None:
            self._engine = TrialEngine(self._facts)
        return self._engine

    def page(self, address: int) -> bytes | None:
        """Return the page at `address` as all vCPUs see it; None if it is not mapped."""
        try:
            return self._memory.read(address, PAGE_SIZE)
        except MemoryFault:
            return None

    def _seen_by(self, vcpu: Vcpu) -> PageSource:
        """Return the source of the pages as `vcpu` sees them, with its own two CPU-local pages."""
        local = self._facts.map.local
        clock, own = vcpu.clock.tobytes(), vcpu.local.tobytes()
        pages: Mapping[int, bytes] = {
            local + number * LOCAL_PAGE_SIZE: content.ljust(LOCAL_PAGE_SIZE, b"\0")
            for number, content in zip(range(LOCAL_PAGES), (clock, own), strict=True)
        }
        return lambda address: pages.get(address) or self.page(address)
