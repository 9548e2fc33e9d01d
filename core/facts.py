"""The facts of an architecture, as data: everything that `core` reads from a port.

Frozen dataclasses only; a port makes one `Facts` of them. The verbs, and the
recipe for a new port, are in `arch.py`.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Register:
    """A register: its ABI name and its Unicorn number."""

    name: str
    number: int


@dataclass(frozen=True, slots=True)
class Trap:
    """A trap: the meaning of an interrupt number of the emulator."""

    meaning: str
    """The architecture manual's name for it, such as `program interrupt: trap`."""
    illegal: bool
    """Whether the instruction is undefined."""
    reported_at: int | None
    """Where the emulator leaves pc, in bytes after the start of the instruction.

    None if it loses pc: `Port.trapped_at` then finds the instruction.
    """


@dataclass(frozen=True, slots=True)
class Branches:
    """The word of a saved emulator context that marks a branch before its delay slot."""

    context: int
    """Size of a context in bytes, which identifies the emulator's version."""
    offset: int
    """Offset of the 32-bit word in the context, in bytes."""
    mask: int
    """Bits of the word that are 0 outside of delay slots."""


@dataclass(frozen=True, slots=True)
class LongBlocks:
    """Blocks that the emulator cannot translate (core/machine/longblocks.py).

    All instructions are aligned words of 4 bytes.
    """

    most: int
    """Instructions that are safe in one block."""
    ends: tuple[tuple[int, int], ...]
    """Mask and value of instructions that surely end a block; others may too."""


@dataclass(frozen=True, slots=True)
class Counter:
    """The values for which the emulator asks the host when an instruction reads them."""

    registers: tuple[int, ...]
    """The emulator's numbers of the registers that it writes, lowest bits of the value first."""
    bits: int = 64
    """Bits of the value in each register."""
    tick_ns: int = 1
    """Virtual ns from one value to the next."""
    random: bool = False
    """Whether it reads random bits, and not a counter."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Settings of the emulator, disassembler and assembler, as their own constants.

    Those of the assembler, Keystone, are names: a port works without it.
    """

    uc_arch: int
    uc_mode: int
    cs_arch: int
    cs_mode: int
    ks_arch: str
    """A name `KS_ARCH_…`."""
    ks_mode: tuple[str, ...]
    """Names `KS_MODE_…`; their values are added."""
    cs_returns: frozenset[str] = frozenset()
    """Mnemonics of returns, if Capstone has no group for them."""
    cs_calls: frozenset[str] = frozenset()
    """Mnemonics of calls, if Capstone has no group for them."""
    cs_names: Mapping[str, str] = field(default_factory=dict)
    """ABI names of registers by the other names that Capstone prints."""
    cs_parts: Mapping[str, str] = field(default_factory=dict)
    """Registers of `Abi.pt_regs` by the names that Capstone prints for parts of them."""
    cs_own_target: str = ""
    """Regular expression for mnemonics of branches that Capstone prints without a target if
    they branch to themselves."""
    cs_hardware: str = ""
    """Regular expression for instructions, as Capstone prints them, that devices, interrupts or
    page tables would have to answer; empty if they are not watched (core/machine/codewatch.py)."""
    ks_registers: str = ""
    """Regular expression for registers as people type them, if Keystone wants a prefix."""
    ks_prefix: str = ""
    """The prefix that Keystone wants."""
    ks_prelude: str = ""
    """Directives put before a typed line, each ended by `;`."""
    ks_branches: str = ""
    """Regular expression for mnemonics of branches whose targets Keystone cuts to few bits."""
    ks_branch_bits: int = 0
    """Width of such a target in bits, sign bit included; Keystone ignores the higher bits."""
    ks_jumps: str = ""
    """Regular expression for mnemonics of jumps that Keystone encodes only with a number."""
    uc_cpu: int | None = None
    """The emulator's CPU model, if its default lacks instructions."""
    branches: Branches | None = None
    """None if branches have no delay slots."""
    counters: Mapping[bytes, Counter] = field(default_factory=dict)
    """Instructions that read the host's time or random bits (core/machine/codewatch.py)."""
    long_blocks: LongBlocks | None = None
    """None if the emulator translates blocks of any length."""
    survives_exceptions: bool = True
    """Whether the emulator still works after an exception. If not, a new one replaces it."""
    traps: Mapping[int, Trap] = field(default_factory=dict)
    """Traps by the interrupt numbers of the emulator; each becomes an oops."""


@dataclass(frozen=True, slots=True)
class Toc:
    """An ABI in which each function has a pointer to its data (ELFv1's table of contents).

    The address of a function, in C, is that of its descriptor in `opd`: three words of a
    pointer's size with the address of its code, the value `register` must have there, and
    an environment. The code has a symbol of its own, `prefix` and name. Every object has
    one TOC pointer: the address of `section` plus `bias`.
    """

    register: Register
    opd: str
    section: str
    bias: int
    prefix: str


@dataclass(frozen=True, slots=True)
class Stub:
    """The sizes of a module's stubs, in bytes, and their names."""

    size: int
    align: int
    code: int
    """Size of the instructions at the start; the data they load follows."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The kernel's names of stubs, by callee; other stubs are named after their callee."""


@dataclass(frozen=True, slots=True)
class Frames:
    """Chained stack frames: each begins with the address of its caller's frame."""

    register: Register
    """The register that holds the address of the innermost frame."""
    link: int
    """Offset of the return address in the frame, in bytes."""
    of_caller: bool = False
    """Whether the return address lies in the frame of the caller instead."""
    words: Mapping[int, str] = field(default_factory=dict)
    """Names of the words that the ABI defines in each frame, by their offset in bytes."""


@dataclass(frozen=True, slots=True)
class Abi:
    """The calling convention, and the registers that an interrupt must save.

    `pt_regs` lists the registers an interrupt saves, in the order they have in
    memory, one `pointer_size` slot each; it contains `pc`, `sp` and the flags.
    """

    pc: Register
    sp: Register
    arguments: tuple[Register, ...]
    result: Register
    pt_regs: tuple[Register, ...]
    link: Register | None
    """Holds the return address of a call; None if the call pushes it."""
    stack_align: int
    """Alignment of `sp` at a call, before the return address is pushed, in bytes."""
    red_zone: int
    """Bytes below `sp` that an interrupt must leave alone."""
    call_frame: int
    """Bytes that a caller leaves at `sp` for the callee's use."""
    toc: Toc | None = None
    """None if the address of a function is the address of its code."""
    frames: Frames | None = None
    """None if frames are not chained."""
    saves_link_late: bool = False
    """Whether a function saves its return address at or below its locals.

    The return address found above a function's frame is then its caller's
    (`ARCH_FTRACE_SHIFT_STACK_TRACER`).
    """
    stack_arguments: int = 0
    """Number of arguments beyond `arguments` that `enter_call` can put on the stack."""
    results: tuple[Register, ...] = ()
    """Registers that a result may be in, if there are more than `result`."""
    volatile: Mapping[str, int] = field(default_factory=dict)
    """Registers of `pt_regs` that a function may change, each with a mask of the bits.

    `link` is left out. Only checks use this; if it is empty, they assume arguments and results.
    """
    probe_names: Mapping[str, str] = field(default_factory=dict)
    """Registers of `pt_regs` by the names that kprobes have for them; else by their own."""
    floats: tuple[Register, ...] = ()
    """Floating-point registers, which ftrace must not touch."""
    controls: tuple[tuple[Register, int], ...] = ()
    """Registers that control the CPU, which ftrace must not change: rounding, interrupt masks,
    pointers to per-CPU data. Each has a value with which kernel code may run. Only checks use
    this."""

    @property
    def most_arguments(self) -> int:
        """Largest number of arguments that a call by the machine can have."""
        return len(self.arguments) + self.stack_arguments

    @property
    def text_prefix(self) -> str:
        """Prefix of the names of code, such as a dot; mostly empty."""
        return "" if self.toc is None else self.toc.prefix


@dataclass(frozen=True, slots=True)
class AddressMap:
    """The layout of the guest's address space, as page-aligned addresses."""

    local: int
    """The CPU-local pages."""
    tracer: int
    """ftrace_caller and the tracer: within branch reach of the kernel's text."""
    modules: int
    modules_end: int
    ring_buffer: int
    hashes: int
    hashes_end: int
    """Start of the filters' call sites, for the list function: two areas of equal size."""
    direct_map: int
    """Free RAM that the kernel's page allocator gets."""
    host_stack: int
    """Stacks for calls that the machine makes."""
    window: int = 0
    """Size in bytes of the aligned window in which the code model wants all code that is near
    the kernel's; 0 if the reach of a branch is all that counts."""


@dataclass(frozen=True, slots=True)
class SitePattern:
    """Text at every call site as compiled, whatever the kernel; `mask` says which bits count."""

    value: bytes
    mask: bytes
    offset: int = 0
    """Bytes from the address in the list of sites to this text."""

    @classmethod
    def of_words(cls, byteorder: str, *words: tuple[int, int], offset: int = 0) -> SitePattern:
        """Return the pattern of 32-bit instructions, each a value and a mask."""
        big = byteorder == "big"
        columns = [
            b"".join(each.to_bytes(4, "big" if big else "little") for each in column)
            for column in zip(*words, strict=True)
        ]
        return cls(columns[0], columns[1], offset)


@dataclass(frozen=True, slots=True)
class FlatHeader:
    """How a kernel that is not an ELF file is recognised: bytes at an offset of the file."""

    magic: bytes
    offset: int
    size_at: int | None = None
    """Offset of the word that has the size in memory; None if no word has it."""


@dataclass(frozen=True, slots=True)
class CallSites:
    """How call sites are recognised, and their size."""

    size: int
    """Bytes from rec.ip that may change: the call (`MCOUNT_INSN_SIZE`) and its companions."""
    sections: tuple[str, ...]
    """Sections of a relocatable file that list sites, such as `__mcount_loc`; may be empty."""
    mcount_symbols: tuple[str, ...]
    """Names of the function that a site calls as compiled, such as `__fentry__`."""
    call_relocations: frozenset[int]
    """Relocation types of calls: they find sites in images without a table, and far callees."""
    relocation_offset: int
    """rec.ip minus the place of such a relocation, in bytes."""
    linked_stubs: Mapping[str, str] = field(default_factory=dict)
    """Symbols of stubs that are linked into modules, each with the symbol it leads to."""
    clobbers: frozenset[str] = frozenset()
    """Registers of `Abi.pt_regs` that the callee of a site may change: no code there needs them."""
    kept: Mapping[str, int] = field(default_factory=dict)
    """Bits of those registers that code at a site needs all the same, as a mask each."""
    landing_pad: bytes = b""
    """The instruction with which functions begin if the CPU checks indirect branches."""
    patterns: tuple[SitePattern, ...] = ()
    """Patterns that find the list of sites in a kernel without symbols; one match is enough."""
    max_offset: int | None = None
    """Maximum bytes from the start of a function to its site in the kernel of this architecture
    (`FTRACE_MCOUNT_MAX_OFFSET`); None if it does not check that."""
    source_offset: int = 0
    """Bytes from rec.ip to code with a source line. If the compiler leaves room at the start
    of a function, its lines begin after that room."""


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A trap instruction that one store can write, for patching by breakpoint."""

    insn: bytes
    interrupt: int
    """Interrupt number that the emulator reports for it."""
    reported_at: int
    """Where the emulator leaves pc, in bytes after the start of the instruction."""


@dataclass(frozen=True, slots=True)
class ElfFlags:
    """The bits of `e_flags` that name the ABI a file was built for."""

    mask: int
    allowed: frozenset[int]
    """Values under the mask that are accepted."""
    name: str
    """The ABI that these values stand for, such as `ELFv1`."""


@dataclass(frozen=True, slots=True)
class ExampleSite:
    """A call site of the teaching kernel that shows the particularity of a port."""

    function: str = "schedule"
    offset: int = 0
    """Bytes from the start of the function to its call site."""
    module: str = ""
    """The module to load first; empty for a function of the kernel."""


class FileFacts(Protocol):
    """The facts needed to read a file: those of a port, or of an architecture without one."""

    @property
    def name(self) -> str: ...
    @property
    def elf_machine(self) -> int: ...
    @property
    def pointer_size(self) -> int: ...
    @property
    def byteorder(self) -> str: ...
    @property
    def sites(self) -> CallSites: ...
    @property
    def max_insn_size(self) -> int: ...
    @property
    def insn_align(self) -> int: ...
    @property
    def elf_flags(self) -> ElfFlags | None: ...
    @property
    def relative(self) -> int | None: ...
    @property
    def flat(self) -> FlatHeader | None: ...


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything about an architecture that is data."""

    name: str
    """The port's name, as given to `--arch`."""
    elf_machine: int
    """`e_machine`, such as 3 for EM_386."""
    pointer_size: int
    byteorder: str
    """`little` or `big`."""
    engine: Engine
    abi: Abi
    map: AddressMap
    sites: CallSites
    patch_methods: tuple[str, ...]
    """Of `PATCH_METHODS`; the first is the default."""
    breakpoint: Breakpoint | None
    nops: tuple[str, ...]
    """Ways to disable a site, as given to `--nop`; the first is the default."""
    max_insn_size: int
    insn_align: int
    """Alignment of instructions in bytes; text is stored in no smaller units."""
    elf_flags: ElfFlags | None = None
    """None if they say nothing about the ABI."""
    modules_far: tuple[int, int] | None = None
    """Start and end, page-aligned, of the area for modules that are out of reach of the
    kernel, so that their calls need stubs. None if there is one module area only."""
    relative: int | None = None
    """Relocation type of an address in an image that can be loaded anywhere, as movable
    kernels are linked (`R_…_RELATIVE`). None if kernels are not movable."""
    discovery: tuple[str, ...] = ("table",)
    """How call sites are found, of `DISCOVERIES`; the first is the default."""
    example: ExampleSite = ExampleSite()
    unwritable: int = errno.EPERM
    """The errno with which this architecture's ftrace fails if it cannot write text."""
    flat: FlatHeader | None = None
    """None if flat kernels have no header of their own."""
    self_jump: bytes = b""
    """Bytes in memory of a jump to itself: a wrong text that does no harm."""
