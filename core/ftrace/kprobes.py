"""Kprobes: probed instructions, and how the guest notices that one is executed.

A kprobe at a call site is called from there, as a user of ftrace (KPROBES_ON_FTRACE). At another
instruction it is a breakpoint in the text. The CPU that executes the breakpoint enters the guest's
`exc_breakpoint`, and continues in a slot: a copy of the instruction, followed by a jump back. Slots
are never reused for another address, since a task may be in one for any time. Unarmed kprobes
change no text.

Source: kernel/kprobes.c, 6.1.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from .. import abi
from ..abi import PROBE_RANGES, PT_REGS_NONE
from ..arch import probes_of
from ..elf.symbols import SymbolTable
from ..errors import MemoryFault, TracefsError
from ..kernel.kallsyms import Kallsyms
from ..machine.machine import Machine
from ..machine.memory import PAGE_SIZE, Region
from ..machine.symbols import TRACER
from ..memento import Restore, attributes, in_order
from .entry import CODE_REGIONS, REGS_CALLER, RETURN_TO_HANDLER
from .ftrace import Ftrace
from .ops import FtraceHash, FtraceOps
from .settle import settle
from .trampolines import PLACE, PLACES

HANDLER = "kprobe_ftrace_handler"
"""The guest's function that call sites with a kprobe call."""

SLOT_SIZE = 64
SLOTS_NAME, SLOTS_MODULE = "kprobe_insn_page", "__builtin__kprobes"
"""Names of the slots in kallsyms."""

_MOST_SLOTS = 1024


class BoundaryError(TracefsError):
    """No instruction begins at an address (EILSEQ)."""

    def __init__(self) -> None:
        super().__init__(errno.EILSEQ)


@dataclass(frozen=True, slots=True)
class Kprobe:
    """A probed address."""

    address: int
    site: bool
    """Whether the address is a call site."""
    name: str
    """The function."""
    offset: int
    """Bytes from the start of the function."""
    module: str | None
    slot: int = 0
    """Guest address of the copy of its instruction; 0 for a call site."""
    original: bytes = b""
    """The bytes that the breakpoint replaces."""


class Kprobes:
    """The kprobes of one machine."""

    def __init__(self, machine: Machine, kallsyms: Kallsyms, ftrace: Ftrace) -> None:
        self._machine = machine
        self._kallsyms = kallsyms
        self._ftrace = ftrace
        self._probes = probes_of(machine.port)
        self._slots: dict[tuple[int, bytes], int] = {}
        """Slots by address and instruction."""
        self._prepared: dict[int, Kprobe] = {}
        self._armed: frozenset[int] = frozenset()
        self._following = False
        self._known: dict[str, int] = {}
        names = ("kprobe_table", "kprobe_count", "probe_ranges", "probe_range_count")
        numbers = ("pt_regs_pc", "pt_regs_sp", "pt_regs_link", "kretprobe_trampoline")
        for name in (HANDLER, *names, *numbers):
            address = kallsyms.address(name, TRACER)
            if address is not None:
                self._known[name] = address
        self.available = len(self._known) == 1 + len(names) + len(numbers)
        """Whether the guest can handle kprobes."""
        self.enabled = True
        """Whether armed kprobes change text (`kprobes/enabled`)."""
        self._ops: FtraceOps | None = None
        self._saves_registers = self._registered = False
        if not self.available:
            return
        with suppress(TracefsError):
            self._saves_registers = REGS_CALLER in ftrace.entry.callers
        self._ops = FtraceOps(
            "kprobe_ftrace_ops", self._known[HANDLER], save_regs=self._saves_registers
        )
        self._slots_at = ftrace.entry.end + (2 + PLACES * PLACE // PAGE_SIZE) * PAGE_SIZE
        self._write_registers()
        machine.memory.observe(self._memory_changed, self._memory_gone)

    def _write_registers(self) -> None:
        abi_, memory = self._machine.port.facts.abi, self._machine.memory
        names = [each.name for each in abi_.pt_regs]
        link = PT_REGS_NONE if abi_.link is None else names.index(abi_.link.name)
        for name, row in (
            ("pt_regs_pc", names.index(abi_.pc.name)),
            ("pt_regs_sp", names.index(abi_.sp.name)),
            ("pt_regs_link", link),
        ):
            memory.write_int(self._known[name], row, 4)
        handler = self._ftrace.entry.symbols.get(RETURN_TO_HANDLER)
        if handler is not None:
            memory.write_int(self._known["kretprobe_trampoline"], handler)

    # Memory that probes can read

    def _memory_changed(self, region: Region) -> None:
        if self._following:
            self._write_ranges()

    def _memory_gone(self, region: Region) -> None:
        if self._following:
            self._write_ranges(region)

    def follow_memory(self) -> None:
        """Tell the guest which memory probes can read, from now on."""
        if not self._following:
            self._following = True
            self._write_ranges()

    def _write_ranges(self, gone: Region | None = None) -> None:
        """Tell the guest which memory exists, in as few ranges as possible."""
        memory = self._machine.memory
        merged: list[list[int]] = []
        parts = (
            part
            for region in memory.regions
            if region is not gone
            for part in memory.mapped(region)
        )
        for start, end in sorted(parts):
            if merged and merged[-1][1] == start:
                merged[-1][1] = end
            else:
                merged.append([start, end])
        rows = np.zeros(min(len(merged), PROBE_RANGES), abi.probe_range(memory.byteorder))
        for row, (start, end) in enumerate(merged[:PROBE_RANGES]):
            rows[row] = start, end
        memory.write(self._known["probe_ranges"], rows.tobytes())
        memory.write_int(self._known["probe_range_count"], len(rows), 4)

    # Registration

    @property
    def saves_registers(self) -> bool:
        """Whether a kprobe at a call site gets registers."""
        return self._saves_registers

    @property
    def returns(self) -> bool:
        """Whether functions can be probed at their return."""
        return self._saves_registers and RETURN_TO_HANDLER in self._ftrace.entry.symbols

    @property
    def breakpoints(self) -> bool:
        """Whether kprobes can be at other instructions than call sites."""
        return self._probes is not None

    def prepare(self, address: int) -> Kprobe:
        """Return a kprobe at `address`; nothing is written but its slot.

        Raises `TracefsError`: EINVAL for an address that cannot be probed, EILSEQ if no
        instruction begins there, EOPNOTSUPP if it is no call site and the port has no
        breakpoints for kprobes, ENOMEM without a free slot.
        """
        known = self._prepared.get(address)
        if known is not None:
            return known
        symbol = self._kallsyms.lookup(address)
        if symbol is None or not symbol.function:
            raise TracefsError(errno.EINVAL)
        if not self._traceable(symbol.address, symbol.size):
            raise TracefsError(errno.EINVAL)
        site = self._ftrace.records.find(address) is not None
        offset = address - symbol.address
        found = Kprobe(address, site, symbol.name, offset, symbol.module)
        if not site:
            found = self._with_slot(found, symbol.address)
        self._prepared[address] = found
        return found

    def _traceable(self, start: int, size: int) -> bool:
        """Whether the function has a call site: others are `notrace`."""
        region = self._machine.memory.region_at(start)
        if region is None or region.name in CODE_REGIONS:
            return False
        ips = self._ftrace.records.table["ip"]
        return bool(((ips >= np.uint64(start)) & (ips < np.uint64(start + size))).any())

    def _with_slot(self, kprobe: Kprobe, start: int) -> Kprobe:
        probes = self._probes
        facts = self._machine.port.facts
        if probes is None:
            reason = f"{facts.name} has kprobes at call sites only"
            raise TracefsError(errno.EOPNOTSUPP, f"Operation not supported: {reason}")
        site = self._site_at(kprobe.address)
        if site is not None and site != kprobe.address:
            raise BoundaryError
        size = kprobe.address - start + facts.max_insn_size
        code = self._original_text(start, size)
        length = probes.length(code, start, kprobe.address)
        if length is None:
            raise BoundaryError
        at = kprobe.address - start
        insn = code[at : at + length]
        slot = self._slots.get((kprobe.address, insn))
        if slot is None:
            slot = self._make_slot(kprobe.address, insn)
        return Kprobe(
            *(kprobe.address, False, kprobe.name, kprobe.offset, kprobe.module, slot),
            insn[: len(probes.breakpoint.insn)],
        )

    def _site_at(self, address: int) -> int | None:
        """Return rec.ip of the call site that `address` is in, or None."""
        size = self._machine.port.facts.sites.size
        ips = self._ftrace.records.table["ip"]
        inside = (ips <= np.uint64(address)) & (np.uint64(address) < ips + np.uint64(size))
        found = ips[inside]
        return int(found[0]) if len(found) else None

    def _original_text(self, start: int, size: int) -> bytes:
        """Return text without the breakpoints of kprobes; fewer bytes at the end of memory."""
        memory = self._machine.memory
        mapped = memory.mapped_at(start)
        if mapped is None:
            raise TracefsError(errno.EINVAL)
        text = bytearray(memory.read(start, min(size, mapped[1] - start)))
        for address in self._armed:
            kprobe = self._prepared[address]
            at = address - start
            if not kprobe.site and 0 <= at < len(text):
                text[at : at + len(kprobe.original)] = kprobe.original
        return bytes(text)

    def _make_slot(self, address: int, insn: bytes) -> int:
        assert self._probes is not None
        number = len(self._slots)
        if number >= _MOST_SLOTS:
            raise TracefsError(errno.ENOMEM)
        slot = self._slots_at + number * SLOT_SIZE
        code = self._probes.out_of_line(insn, address, slot)
        if code is None or len(code) > SLOT_SIZE:
            raise TracefsError(errno.EINVAL)
        page, offset = divmod(number * SLOT_SIZE, PAGE_SIZE)
        memory = self._machine.memory
        if not offset:
            where = self._slots_at + page * PAGE_SIZE
            name = f"{SLOTS_NAME}{page}"
            memory.map(where, PAGE_SIZE, name, writable=False)
            table = SymbolTable.of_labels({SLOTS_NAME: where}, where + PAGE_SIZE)
            self._kallsyms.add(table, SLOTS_MODULE)
        memory.write(slot, code)
        self._machine.flush(slot, slot + len(code))
        self._slots[address, insn] = slot
        return slot

    def forget(self, gone: Callable[[int], bool]) -> None:
        """Forget addresses that are gone, as those of an unloaded module; text is not written."""
        self._armed = frozenset(each for each in self._armed if not gone(each))
        self._prepared = {at: each for at, each in self._prepared.items() if not gone(at)}

    def write_table(self, first: Mapping[int, int], place: Callable[[bytes], int]) -> int:
        """Give the guest the registered addresses, each with its first probe.

        `place` stores bytes in the guest. Return their address. No CPU is in the tracer.
        """
        memory = self._machine.memory
        rows = np.zeros(len(first), abi.kprobe(memory.byteorder))
        for row, address in enumerate(sorted(first)):
            rows[row] = address, first[address], self._prepared[address].slot
        at = place(rows.tobytes())
        memory.write_int(self._known["kprobe_table"], at)
        memory.write_int(self._known["kprobe_count"], len(rows), 4)
        return at

    # Arming

    def arm(self, addresses: Sequence[int]) -> None:
        """Arm exactly these prepared kprobes: change call sites, and write breakpoints.

        Raises `TracefsError` (EBUSY, ENODEV; EIO if the text is not what it was) and `FtraceBug`,
        with nothing changed.
        """
        wanted = frozenset(addresses if self.enabled else ())
        before = self._armed
        sites, old_sites = (
            sorted(at for at in chosen if self._prepared[at].site) for chosen in (wanted, before)
        )
        points, old_points = (
            {at for at in chosen if not self._prepared[at].site} for chosen in (wanted, before)
        )
        self._check_text(sorted(points - old_points))
        if sites != old_sites:
            self._set_sites(sites)
        for address in sorted(old_points - points):
            self._write(address, self._prepared[address].original)
        for address in sorted(points - old_points):
            assert self._probes is not None
            self._write(address, self._probes.breakpoint.insn)
        self._armed = wanted

    def _set_sites(self, sites: Sequence[int]) -> None:
        ftrace, ops = self._ftrace, self._ops
        assert ops is not None
        chosen = FtraceHash.of(np.array(sites, np.uint64))
        if not sites:
            ftrace.unregister(ops)
            self._registered = False
            ops.filter_hash = chosen
        elif self._registered:
            ftrace.set_hashes(ops, filter_hash=chosen)
        else:
            ops.filter_hash = chosen
            ftrace.register(ops)
            self._registered = True

    def _check_text(self, addresses: Sequence[int]) -> None:
        for address in addresses:
            original = self._prepared[address].original
            try:
                now = self._machine.memory.read(address, len(original))
            except MemoryFault:
                raise TracefsError(errno.EFAULT) from None
            if now != original:
                name = self._kallsyms.format(address)
                reason = f"the text at {name} has changed since it was probed"
                raise TracefsError(errno.EIO, f"Input/output error: {reason}")

    def _write(self, address: int, text: bytes) -> None:
        self._machine.memory.write(address, text)
        self._machine.flush(address, address + len(text))

    def trapped(self, address: int) -> bool:
        """Whether the guest handles the breakpoint that a CPU has executed at `address`.

        The CPU may have executed old text; memory then holds the instruction again.
        """
        known = self._prepared.get(address)
        if known is None or known.site or self._probes is None:
            return False
        insn = self._probes.breakpoint.insn
        return address in self._armed or self._machine.memory.read(address, len(insn)) != insn

    def settle(self) -> None:
        """Run the vCPUs until none is inside the tracer."""
        settle(self._machine)

    @property
    def armed(self) -> frozenset[int]:
        """Addresses whose text is changed."""
        return self._armed

    def save(self) -> Restore:
        """Return a function that restores the host's part; the machine saves memory and text."""
        names = ("_slots", "_prepared", "_armed", "_following", "enabled")
        parts = [attributes(self, *names)]
        if self._ops is not None:
            parts += [attributes(self, "_registered"), self._ops.save()]
        return in_order(*parts)
