"""What an architecture is, as data: everything `core` reads of a port and never computes.

Frozen dataclasses only; a port makes one `Facts` of them. The verbs, and the
recipe for a new port, are in `arch.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Register:
    """A register by its ABI name and its Unicorn number."""

    name: str
    number: int


@dataclass(frozen=True, slots=True)
class Trap:
    """What an interrupt number of the emulator means that no instruction of ours asked for."""

    meaning: str
    """In the words of the architecture's manual, such as `program interrupt: trap`."""
    illegal: bool
    """Whether the instruction is none."""
    reported_at: int | None
    """Where the emulator leaves pc: this many bytes behind the instruction's start.

    None where it loses pc: `Port.trapped_at` then finds the instruction.
    """


@dataclass(frozen=True, slots=True)
class Branches:
    """Where a saved context of the emulator says that a branch waits for its delay slot."""

    context: int
    """Bytes of a context, which tell the emulator's version."""
    offset: int
    """Of a 32-bit word in it, in bytes."""
    mask: int
    """Its bits that are 0 outside of delay slots."""


@dataclass(frozen=True, slots=True)
class Engine:
    """How the emulator, disassembler and assembler are opened (their own constants)."""

    uc_arch: int
    uc_mode: int
    cs_arch: int
    cs_mode: int
    ks_arch: int
    ks_mode: int
    cs_returns: frozenset[str] = frozenset()
    """Mnemonics of returns, where Capstone has no group of them."""
    cs_calls: frozenset[str] = frozenset()
    """Mnemonics of calls, where Capstone has no group of them."""
    cs_names: Mapping[str, str] = field(default_factory=dict)
    """Capstone's names of registers that this ABI calls otherwise."""
    cs_own_target: str = ""
    """Branches that Capstone shows without target where that is the branch itself: their
    mnemonics, a regular expression."""
    ks_registers: str = ""
    """Registers as people type them, a regular expression, where Keystone wants a prefix."""
    ks_prefix: str = ""
    """That prefix."""
    ks_prelude: str = ""
    """Directives in front of a typed line, each ended by `;`."""
    ks_branches: str = ""
    """Mnemonics of branches to whose targets Keystone grants few bits, a regular expression."""
    ks_branch_bits: int = 0
    """So many, of which the highest is a sign; it takes no others into account."""
    uc_cpu: int | None = None
    """The emulator's CPU model, where the one it takes by itself lacks instructions."""
    branches: Branches | None = None
    """None where branches have no delay slots."""
    traps: Mapping[int, Trap] = field(default_factory=dict)
    """What the emulator reports as interrupts, by its numbers; each is an oops."""


@dataclass(frozen=True, slots=True)
class Toc:
    """An ABI whose functions each bring a pointer to their data (ELFv1's table of contents).

    The address of a function, in C, is that of its descriptor in `opd`: three
    words of a pointer's size, where its code is, the value `register` must have
    there, an environment. The code has a symbol of its own, `prefix` and name.
    Every object has one TOC pointer: the address of `section` and `bias`.
    """

    register: Register
    opd: str
    section: str
    bias: int
    prefix: str


@dataclass(frozen=True, slots=True)
class Stub:
    """What a module's stubs are made of, in bytes."""

    size: int
    align: int
    code: int
    """Instructions at the start; behind them lies data the instructions load."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What the kernel calls the stubs of these callees."""


@dataclass(frozen=True, slots=True)
class Frames:
    """Frames that are chained: each begins with the address of its caller's."""

    register: Register
    """Has the address of the innermost."""
    link: int
    """Where the return address is, in bytes from the frame's start."""
    of_caller: bool = False
    """Whether that is in the frame of the caller."""


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
    toc: Toc | None = None
    """None where the address of a function is that of its code."""
    frames: Frames | None = None
    """None where frames are not chained."""
    saves_link_late: bool = False
    """Whether a function saves its return address below its locals, or beside them, and so the
    one found behind a function's is of its caller's (`ARCH_FTRACE_SHIFT_STACK_TRACER`)."""
    stack_arguments: int = 0
    """How many more than `arguments` the port's `enter_call` takes, and puts on the stack."""

    @property
    def most_arguments(self) -> int:
        """So many arguments a call by the machine may have."""
        return len(self.arguments) + self.stack_arguments

    @property
    def text_prefix(self) -> str:
        """What the names of code begin with, such as a dot; mostly nothing."""
        return "" if self.toc is None else self.toc.prefix


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
    hashes_end: int
    """Call sites of filters, for the list function: two areas, a half for each."""
    direct_map: int
    """Free RAM, handed to the kernel's page allocator."""
    host_stack: int
    """Stacks for calls the machine makes on its own."""


@dataclass(frozen=True, slots=True)
class CallSites:
    """How call sites are recognised and how they look."""

    size: int
    """Bytes from rec.ip that may change: the call (`MCOUNT_INSN_SIZE`), and what goes with it."""
    sections: tuple[str, ...]
    """Sections of a relocatable file that list sites, such as `__mcount_loc`; maybe none."""
    mcount_symbols: tuple[str, ...]
    """What a site calls as compiled, such as `__fentry__`."""
    call_relocations: frozenset[int]
    """Relocation types of calls: of sites in images without a table, and of far callees."""
    relocation_offset: int
    """rec.ip minus the place of such a relocation, in bytes."""
    linked_stubs: Mapping[str, str] = field(default_factory=dict)
    """Symbols of stubs that are linked into modules, with what each leads to."""
    clobbers: frozenset[str] = frozenset()
    """Registers that what a site calls may change, of `Abi.pt_regs`: no code there needs them."""
    source_offset: int = 0
    """Bytes from rec.ip to code that has a source line: where the compiler leaves room at the
    start of a function, its lines begin behind that."""


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A one-step-atomic trap instruction, where the architecture patches by one."""

    insn: bytes
    interrupt: int
    """Interrupt number the emulator reports for it."""
    reported_at: int
    """Where the emulator leaves pc: this many bytes behind the instruction's start."""


@dataclass(frozen=True, slots=True)
class ElfFlags:
    """What `e_flags` says of the ABI a file was built for."""

    mask: int
    allowed: frozenset[int]
    """Values under the mask."""
    name: str
    """What they stand for, such as `ELFv1`."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything about an architecture that is data."""

    name: str
    """As given to `--arch`."""
    elf_machine: str
    """`e_machine` as pyelftools names it, `EM_` and all."""
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
    nops: tuple[str, ...]
    """Ways to disable a site, as given to `--nop`; the first is the default."""
    max_insn_size: int
    insn_align: int
    """Instructions begin at multiples of it; text is stored in no smaller units."""
    elf_flags: ElfFlags | None = None
    """None where they say nothing of importance."""
    modules_far: tuple[int, int] | None = None
    """Where modules go when what is near the kernel is full, and calls need stubs: start
    and end, page-aligned. None where one area is all there is."""
    relative: int | None = None
    """Relocation type of an address in an image that is loaded anywhere, as kernels that can
    be moved are linked (`R_…_RELATIVE`). None where kernels are not."""
    discovery: tuple[str, ...] = ("table",)
    """How call sites are found, as given to `--discovery`; the first is the default.

    Of `table`, which the compiler or the linker made, and `ftraced`: the kernel
    notes each site it runs into.
    """
