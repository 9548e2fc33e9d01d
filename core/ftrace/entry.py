"""ftrace_caller and the tracer in guest memory, within reach of the kernel's text.

The port's entry code (`entry_code.py`) is in the first page of its area, and tracer.o, a
relocatable file of guest C without call sites, is linked after it. Each may use symbols
of the other and of the kernel: the tracer's addresses are fixed before the entry code is
linked, and its relocations are applied afterwards. If the ABI has a TOC, both share
the kernel's, so calls from the kernel need not change it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..abi import LOCAL_PAGES
from ..arch import EntryCode, Port
from ..elf.image import Image
from ..elf.linker import PAGE_SIZE, TEXT, Layout, layout, link, part_name
from ..elf.symbols import SymbolTable
from ..errors import (
    AssemblyError,
    MissingSymbolError,
    ModuleError,
    RelocationOverflow,
    UnknownSymbol,
)
from ..facts import Facts
from ..kernel.kallsyms import Kallsyms
from ..machine.function import kernel_toc
from ..machine.memory import Memory
from ..machine.symbols import TRACER
from .entry_code import entry_code

REGION = "tracer"
"""Name of the region of entry.S; a region of tracer.o also has its part's name at the end."""

CODE_REGIONS = (REGION, part_name(REGION, TEXT))
"""Names of the memory that holds code."""

CALLER = "ftrace_caller"
"""The function that an enabled site calls."""

REGS_CALLER = "ftrace_regs_caller"
"""The function that a site calls for a user that wants registers, on ports that have it."""

SLOTS = {CALLER: "ftrace_call", REGS_CALLER: "ftrace_regs_call"}
"""For each caller, the slot inside it that calls the tracer; callers may share a slot."""

CALLERS = tuple(SLOTS)
"""The functions that a site may call; not every port has the second."""

TRAMPOLINE = "ftrace_trampoline"
"""The name of each copy of a caller that serves one user (trampolines.py)."""

GRAPH_CALL, GRAPH_CALLER, RETURN_TO_HANDLER = (
    "ftrace_graph_call",
    "ftrace_graph_caller",
    "return_to_handler",
)
"""The graph tracer's slot, the function it calls, and where traced functions return to."""

NEEDED = (CALLER, SLOTS[CALLER], "ftrace_stub")
"""Labels that every port's entry.S exports."""

_NAME = "tracer"

_COLOURS = 64
"""Number of page colours.

The emulator's TLB and its table of translated code are indexed by the low bits of the page number,
six at least: the page's colour. Two pages of one colour evict each other.
"""

_DISTANCE = 33 * PAGE_SIZE
"""Bytes from the entry code to the tracer.

The tracer is near the entry code, but its colours differ from those of a small kernel's code: both
begin at round addresses.
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """The entry code and the tracer, loaded."""

    address: int
    code: bytes
    """The entry code for `address`, as loaded."""
    symbols: Mapping[str, int]
    """Addresses of the labels entry.S exports, and of everything tracer.o defines."""
    end: int
    """First address after both."""

    def __getitem__(self, name: str) -> int:
        return self.symbols[name]

    @property
    def assembled(self) -> EntryCode:
        """The code and the offsets of its labels, as the assembler returned them."""
        end = self.address + len(self.code)
        places = {name: at for name, at in self.symbols.items() if self.address <= at < end}
        return EntryCode(self.code, {name: at - self.address for name, at in places.items()})

    @property
    def callers(self) -> dict[str, int]:
        """Addresses of those `CALLERS` that the port has, by name."""
        return {name: self.symbols[name] for name in CALLERS if name in self.symbols}

    def label(self, name: str) -> int:
        """Return the address of `name`. Raises `MissingSymbolError` if entry.S lacks it."""
        if name not in self.symbols:
            raise MissingSymbolError("entry.S", name)
        return self.symbols[name]

    @property
    def slots(self) -> tuple[int, ...]:
        """Addresses of all slots; they all call the same function."""
        return tuple(self.symbols[name] for name in SLOTS.values() if name in self.symbols)

    def slot_of(self, caller: str) -> int:
        """Return the address of the slot inside `caller`."""
        own = self.symbols.get(SLOTS[caller])
        return self.symbols[SLOTS[CALLER]] if own is None else own


def load_entry(
    port: Port, kernel: Image, memory: Memory, kallsyms: Kallsyms, source: str | None = None
) -> Entry:
    """Link and write the entry code and the tracer, and add their symbols.

    `source` replaces the port's entry.S. Raises `MissingSymbolError` for a symbol that
    `kernel` lacks, `AssemblyError`, and `ImageError` for entry.o and tracer.o.
    """
    tracer = Image.load(port.images() / "tracer.o", port.facts)
    address = port.facts.map.tracer
    base = address + _DISTANCE
    where = layout(tracer, data=_data_offset(port.facts, base))
    symbols = _places(tracer, where, base)

    def of_kernel(name: str) -> int:
        found = kernel.symbols.address_of(name)
        if found is None:
            raise MissingSymbolError(str(kernel.path), name)
        return found

    code = entry_code(port, address, lambda name: symbols.get(name) or of_kernel(name), source)
    if len(code.code) > PAGE_SIZE:
        text = port.entry_source() if source is None else source
        raise AssemblyError(f"entry.S has {len(code.code)} bytes; at most {PAGE_SIZE} fit", text)
    for name in NEEDED:
        if name not in code.symbols:
            raise MissingSymbolError("entry.S", name)
    labels = {name: address + offset for name, offset in code.symbols.items()}
    try:
        linked = link(
            *(port, tracer, _NAME, where, base),
            lambda name: labels.get(name) or of_kernel(name),
            toc=kernel_toc(port.facts, memory, kallsyms),
        )
    except UnknownSymbol as error:
        raise MissingSymbolError(str(kernel.path), error.symbol) from error
    except RelocationOverflow as error:
        raise kernel.error(f"it is out of reach of the tracer at {base:#x}: {error}") from error
    except ModuleError as error:
        raise tracer.error(str(error)) from error
    memory.map(address, PAGE_SIZE, REGION, writable=False)
    linked.map(memory.map, REGION)
    memory.write(address, code.code)
    linked.write(memory.write)
    if "nr_pt_regs" in symbols:
        memory.write_int(symbols["nr_pt_regs"], len(port.facts.abi.pt_regs), 4)
    kallsyms.add(SymbolTable.of_labels(labels, address + len(code.code)), TRACER)
    kallsyms.add(linked.symbols, TRACER)
    return Entry(address, code.code, {**symbols, **labels}, base + linked.size)


def _data_offset(facts: Facts, base: int) -> int:
    """Return where the data of a tracer at `base` begin, in bytes from there.

    The data begin at the first colour after the CPU-local pages, so no page of the tracer evicts
    those pages.
    """
    after = facts.map.local // PAGE_SIZE + LOCAL_PAGES
    return (after - base // PAGE_SIZE) % _COLOURS * PAGE_SIZE


def _places(tracer: Image, where: Layout, base: int) -> dict[str, int]:
    """Return the addresses of the symbols that tracer.o defines, loaded at `base`."""
    table = tracer.symbols
    return {
        name: base + where.offsets[shndx] + address
        for name, shndx, address in zip(
            table.names, table.shndx.tolist(), table.address.tolist(), strict=True
        )
        if name and shndx in where.offsets
    }
