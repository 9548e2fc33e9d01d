"""The contract between `core` and an architecture: what a port is.

A port is one object that satisfies `Port`: facts in frozen dataclasses, verbs
that work on many sites at once. `core` never asks which architecture it has;
whatever differs is a fact or a verb here. A port lives in a folder of
`arches/`, with the same file names in each:

    port.py      the facts, and the verbs put together
    insn.py      one encoder and decoder for each instruction format used
    reloc.py     relocation types of modules: number, formula, field
    entry.S      ftrace_caller and its kin, assembled when the machine starts
    switch.S     the task switch and the first instructions of the teaching kernel
    kernel.lds   where the teaching kernel is linked
    images/      built kernels and modules

A new port provides, tier by tier; each tier works without the next:

1. **Runs.** `Engine`, `Abi`, `AddressMap`: the machine runs code, delivers
   interrupts, prints an oops; `dynftrace sh -c 'call FUNC'` works.
2. **Records.** `CallSites` and `call_adjust`: `dynftrace sites` lists them.
3. **Patches.** `init_nop`, `make_nop`, `make_call`, `modify_call`, `entry.S`
   and `update_ftrace_func`: the function tracer works for the kernel.
4. **Modules.** `relocate`, and trampolines where a call cannot reach.

Addresses are Python ints or numpy uint64, bytes are numpy uint8. The kernel's
own list of a port's duties is in Documentation/trace/ftrace-design.rst.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Addresses = NDArray[np.uint64]
"""Guest addresses, shape (n,)."""

Bytes = NDArray[np.uint8]
"""Text bytes, shape (n, width)."""


@dataclass(frozen=True, slots=True)
class Register:
    """A register by its ABI name and its Unicorn number."""

    name: str
    number: int


@dataclass(frozen=True, slots=True)
class Engine:
    """How the emulator, disassembler and assembler are opened (their own constants)."""

    uc_arch: int
    uc_mode: int
    cs_arch: int
    cs_mode: int
    ks_arch: int
    ks_mode: int


@dataclass(frozen=True, slots=True)
class Abi:
    """How code calls code, and what an interrupt must keep.

    `pt_regs` lists the registers an interrupt saves, in the order they lie in
    memory, one `pointer_size` slot each; it contains `pc`, `sp` and the flags.
    """

    pc: Register
    sp: Register
    arguments: tuple[Register, ...]
    result: Register
    pt_regs: tuple[Register, ...]
    link: Register | None
    """Holds the return address of a call; None where the call pushes it."""
    stack_align: int
    """Alignment of `sp` at a call, before the return address is pushed, in bytes."""
    red_zone: int
    """Bytes below `sp` that an interrupt must leave alone."""
    call_frame: int
    """Bytes a caller leaves at `sp` for the callee's use."""


@dataclass(frozen=True, slots=True)
class AddressMap:
    """Where things go in the guest's address space; each a page-aligned address."""

    local: int
    """The CPU-local pages."""
    tracer: int
    """ftrace_caller and the tracer: within branch reach of the kernel's text."""
    modules: int
    modules_end: int
    ring_buffer: int
    hashes: int
    """Call sites of filters, for the list function: two areas of 1 GB each."""
    direct_map: int
    """Free RAM, handed to the kernel's page allocator."""
    host_stack: int
    """Stacks for calls the machine makes on its own."""


@dataclass(frozen=True, slots=True)
class CallSites:
    """How call sites are recognised and how they look."""

    MCOUNT_INSN_SIZE: int
    """Bytes from rec.ip that belong to the site and may change."""
    sections: tuple[str, ...]
    """Sections of a relocatable file that list sites, such as `__mcount_loc`."""
    mcount_symbols: tuple[str, ...]
    """What a site calls as compiled, such as `__fentry__`."""
    call_relocations: frozenset[int]
    """Relocation types of that call, for images without a table."""
    relocation_offset: int
    """rec.ip minus the place of such a relocation, in bytes."""


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A one-step-atomic trap instruction, where the architecture patches by one."""

    insn: bytes
    interrupt: int
    """Interrupt number the emulator reports for it."""
    reported_at: int
    """Where the emulator leaves pc: this many bytes behind the instruction's start."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything about an architecture that is data."""

    name: str
    """As given to `--arch`, such as `x86_64`."""
    elf_machine: str
    """`e_machine` as pyelftools names it, such as `EM_X86_64`."""
    pointer_size: int
    byteorder: str
    """`little` or `big`."""
    engine: Engine
    abi: Abi
    map: AddressMap
    sites: CallSites
    patch_methods: tuple[str, ...]
    """Of `stop_machine`, `breakpoint`, `none`; the first is the default."""
    breakpoint: Breakpoint | None
    max_insn_size: int
    insn_align: int


@dataclass(frozen=True, slots=True)
class Sites:
    """A batch of records a verb works on: n call sites.

    `trampoline` is the address each site must call instead of its target
    because it cannot reach it (0 where the target is called directly). Core
    fills it from the record's module (`struct dyn_arch_ftrace` in the kernel).
    """

    ip: Addresses
    trampoline: Addresses

    def __len__(self) -> int:
        return len(self.ip)


@dataclass(frozen=True, slots=True)
class Guard:
    """Bytes elsewhere (a trampoline) that must be as expected before a site changes."""

    address: int
    expected: bytes
    meaning: str
    """What the bytes are, for the report: `stub of ftrace_caller`."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What one change of n sites expects to find and wants to write.

    `expected` and `replacement` have shape (n, width) and start at `address`.
    Where `reachable` is false the change cannot be encoded for that site and
    nothing may be written (the kernel's EINVAL).
    """

    address: Addresses
    expected: Bytes
    replacement: Bytes
    reachable: NDArray[np.bool_]
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True, slots=True)
class Relocations:
    """One section's relocations with symbols resolved, shape (n,) each.

    `place` is P, the guest address of the field; `symbol` is S; `addend` is A
    (int64). Where `explicit` is false the file uses REL: A stands in the field,
    the port reads it there, and `addend` is 0.
    """

    kind: NDArray[np.uint32]
    offset: NDArray[np.uint64]
    place: Addresses
    symbol: Addresses
    addend: NDArray[np.int64]
    explicit: bool = True


@dataclass(frozen=True, slots=True)
class Trampoline:
    """A stub of a module: code at `address` that ends up at `target`."""

    address: int
    code: bytes
    target: int
    symbol: str


@dataclass(frozen=True, slots=True)
class EntryCode:
    """`entry.S` assembled: bytes and the offsets of the labels it exports."""

    code: bytes
    symbols: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Effect:
    """Register values by ABI name, and bytes to store at guest addresses."""

    registers: Mapping[str, int]
    stores: tuple[tuple[int, bytes], ...] = ()


class Port(Protocol):
    """The verbs of an architecture."""

    @property
    def facts(self) -> Facts:
        """The architecture as data."""
        ...

    # Tier 2: records

    def call_adjust(self, addresses: Addresses) -> Addresses:
        """Turn table entries into rec.ip (`ftrace_call_adjust`)."""
        ...

    # Tier 3: patching. Every verb is pure: it computes, core verifies and writes.

    def init_nop(self, sites: Sites, compiled: Bytes, mcount: int) -> Edit:
        """First change of a site: from what the compiler left to the disabled form.

        `compiled` is the text as loaded, shape (n, MCOUNT_INSN_SIZE): where a
        compiler may leave several forms, each legal one is its own expectation.
        """
        ...

    def make_nop(self, sites: Sites, target: int) -> Edit:
        """From a call of `target` to the disabled form (`ftrace_make_nop`)."""
        ...

    def make_call(self, sites: Sites, target: int) -> Edit:
        """From the disabled form to a call of `target` (`ftrace_make_call`)."""
        ...

    def modify_call(self, sites: Sites, old: int, new: int) -> Edit:
        """From a call of `old` to a call of `new` (`ftrace_modify_call`)."""
        ...

    def update_ftrace_func(self, slot: int, old: int, new: int) -> Edit:
        """Change the `ftrace_call` slot at `slot` (`ftrace_update_ftrace_func`)."""
        ...

    def call_target(self, ip: int, text: bytes) -> int | None:
        """Where the instruction(s) at `ip` call or jump to; None if they do not."""
        ...

    def emulate(self, registers: Mapping[str, int], ip: int, text: bytes) -> Effect:
        """What the site `text` at `ip` would do, for a CPU caught by a breakpoint there.

        `registers` holds pc and sp by ABI name.
        """
        ...

    # Tier 1: calls the machine makes

    def enter_call(
        self, function: int, arguments: Sequence[int], sp: int, return_to: int
    ) -> Effect:
        """How `function(arguments…)` begins: registers and stack, returning to `return_to`.

        The stack below `sp` is free: the port aligns it and leaves the `call_frame`.
        """
        ...

    def is_return_address(self, before: bytes) -> bool:
        """Whether `before`, the `max_insn_size` bytes in front of an address, end in a call."""
        ...

    # Tier 4: modules

    def relocate(self, module: str, text: NDArray[np.uint8], relocations: Relocations) -> None:
        """Apply relocations to `text`, one section's bytes (1-D, changed in place).

        Raises `RelocationOverflow`, `UnknownRelocation`, or `ModuleError` for a
        field outside the section, for the first that fails and before anything
        is written.
        """
        ...

    def relocation_name(self, kind: int) -> str:
        """The ABI's name of a relocation type, such as `R_X86_64_PC32`."""
        ...

    # Sources and images

    def entry_source(self) -> str:
        """The text of entry.S. Labels core needs: ftrace_caller, ftrace_call, ftrace_stub."""
        ...

    def images(self) -> Path:
        """The folder of built images: vmlinux.elf, tracer.o and the modules NAME.ko."""
        ...
