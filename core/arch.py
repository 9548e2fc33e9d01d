"""The contract between `core` and an architecture: what a port is.

A port is one object that satisfies `Port`: facts in frozen dataclasses
(`facts.py`), verbs that work on many sites at once. `core` never asks which
architecture it has; whatever differs is a fact or a verb here. A port lives in
a folder of `arches/`, with the same file names in each; what several ports of a
family share lies in the folder above them:

    port.py        the facts, and the verbs put together
    insn.py        one encoder and decoder for each instruction format used
    reloc.py       relocation types of modules: number, formula, field
    stub.py        trampolines of modules; left out where every call reaches
    trampoline.py  those of single users; left out where the kernel makes none
    oops.py        the report of a fault, in the words of this architecture's kernel
    entry.S        ftrace_caller and its kin, assembled when the machine starts
    switch.S       the task switch and the first instructions of the teaching kernel
    kernel.lds     where the teaching kernel is linked
    images/        built kernels and modules

A new port provides, tier by tier; each tier works without the next:

1. **Runs.** `Engine`, `Abi`, `AddressMap`, `enter_call`, `oops`: the machine runs
   code, delivers interrupts, reports faults; `dynftrace sh -c 'call FUNC'` works.
2. **Records.** `CallSites` and `call_adjust`: `dynftrace sites` lists them. Where no
   table does, `Facts.discovery` says how they are found.
3. **Patches.** `init_nop`, `make_nop`, `make_call`, `modify_call`, `entry.S`
   and `update_ftrace_func`: the function tracer works for the kernel.
4. **Modules.** `relocate`, and `stubs` where a call cannot reach.
5. **Returns.** `enable_graph_caller`, and in `entry.S` the slot `ftrace_graph_call`,
   `ftrace_graph_caller` and `return_to_handler`: the graph tracer works.

A port whose kernel makes a trampoline for each user (FTRACE_OPS_FL_ALLOC_TRAMP) has a
member `trampolines` besides (`HasTrampolines`); no other needs to know of it.

`dynftrace port check NAME` says which of it holds (`portcheck/`), for a port of another
package too, which an entry point of the group `dynftrace.arches` names.

Addresses are Python ints or numpy uint64, bytes are numpy uint8. The kernel's
own list of a port's duties is in Documentation/trace/ftrace-design.rst.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .encoding import Encoding
from .facts import Facts, Stub

if TYPE_CHECKING:
    from .crash import Crash

Addresses = NDArray[np.uint64]
"""Guest addresses, shape (n,)."""

Bytes = NDArray[np.uint8]
"""Text bytes, shape (n, width)."""


@dataclass(frozen=True, slots=True)
class Sites:
    """A batch of records a verb works on: n call sites.

    `compiled` is the text before ftrace first changed it, shape (n,
    CallSites.size): where compilers leave several forms, it tells which one a
    site has. `stubs` has, for each target that modules have stubs of, the stub of each
    site's module, shape (n,), 0 where there is none. It comes from the record's
    module (`struct dyn_arch_ftrace` in the kernel).
    """

    ip: Addresses
    stubs: Mapping[int, Addresses] = field(default_factory=dict)
    compiled: Bytes = field(default_factory=lambda: np.empty((0, 0), np.uint8))

    def __len__(self) -> int:
        return len(self.ip)

    def stub(self, target: int) -> Addresses:
        """The stub of `target` in each site's module, 0 where it has none."""
        found = self.stubs.get(target)
        return np.zeros(len(self.ip), np.uint64) if found is None else found


@dataclass(frozen=True, slots=True)
class Edit:
    """What one change of n sites expects to find and wants to write.

    `expected` and `replacement` have shape (n, width) and start at `address`.
    Where `reachable` is false the change cannot be encoded for that site and
    nothing may be written (the kernel's EINVAL). `via` names the stubs that the
    old or the new text goes through, shape (n,) each, 0 for none: core looks at
    them too before anything is written. Where sites differ in size, `lengths` says
    how many bytes of each row count, shape (n,).
    """

    address: Addresses
    expected: Bytes
    replacement: Bytes
    reachable: NDArray[np.bool_]
    via: tuple[Addresses, ...] = ()
    lengths: NDArray[np.intp] | None = None

    def row(self, text: Bytes, row: int) -> bytes:
        """Row `row` of `text`, one of this edit's, as far as it counts."""
        raw: bytes = text[row].tobytes()
        return raw if self.lengths is None else raw[: int(self.lengths[row])]

    def reversed(self) -> Edit:
        """The same change the other way round."""
        return replace(self, expected=self.replacement, replacement=self.expected)


@dataclass(frozen=True, slots=True)
class Relocations:
    """One section's relocations with symbols resolved, shape (n,) each.

    `place` is P, the guest address of the field; `symbol` is S; `addend` is A
    (int64). Where `explicit` is false the file uses REL: A stands in the field,
    the port reads it there, and `addend` is 0. `external` says which symbols the
    file itself does not define, and `stub` which calls are to go to a stub: S is
    then the stub's address. `toc` is the object's TOC pointer, 0 without one.
    """

    kind: NDArray[np.uint32]
    offset: NDArray[np.uint64]
    place: Addresses
    symbol: Addresses
    addend: NDArray[np.int64]
    external: NDArray[np.bool_]
    stub: NDArray[np.bool_]
    toc: int = 0
    explicit: bool = True


@dataclass(frozen=True, slots=True)
class Function:
    """What a function pointer of C leads to: code, and the TOC pointer it expects, if any."""

    code: int
    toc: int | None = None


@dataclass(frozen=True, slots=True)
class ModuleStub:
    """A stub of a module: code at `address` that ends up at `target`."""

    address: int
    code: bytes
    target: int
    """Address of the code it leads to."""
    symbol: str
    """The name of that."""
    toc: int = 0
    """The TOC pointer of the module, 0 without one."""


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


class Stubs(Protocol):
    """How an architecture makes the trampolines of its modules."""

    @property
    def facts(self) -> Stub:
        """Sizes."""
        ...

    def needed(self, relocations: Relocations) -> NDArray[np.bool_]:
        """Which relocations are calls that must go through a stub, shape (n,)."""
        ...

    def make(self, address: int, target: Function, toc: int) -> bytes:
        """The stub at `address`, `facts.size` bytes, in a module whose TOC pointer is `toc`.

        Raises `ValueError` for a target or address it cannot be made for.
        """
        ...

    def target(self, address: int, stub: bytes, toc: int) -> int | None:
        """The code the bytes `stub` at `address` lead to; None if they are no stub."""
        ...


@dataclass(frozen=True, slots=True)
class TrampolineCode:
    """A caller of entry.S made over for one user, and where in it, in bytes from its start."""

    code: bytes
    slot: int
    """Is the slot, which `update_ftrace_func` takes as that of the caller."""
    op: int
    """Is the word, of a pointer's size, that the tracer gets as `op`."""


class Trampolines(Protocol):
    """How an architecture makes trampolines for single users (`create_trampoline`)."""

    def make(
        self, entry: EntryCode, base: int, caller: str, address: int, func: int, op: int
    ) -> TrampolineCode | None:
        """The trampoline at `address`, whose slot calls `func`, which gets `op`.

        It does what `caller` does, `entry` being entry.S at `base`: up to the slot it
        is a copy of it, and where that goes on to ftrace_graph_call, so does this. None
        where entry.S is not made for it, or something is out of reach.
        """
        ...


@runtime_checkable
class HasTrampolines(Protocol):
    """A port that may have `Trampolines`; others lack the member."""

    @property
    def trampolines(self) -> Trampolines | None:
        """How trampolines of single users are made; None where all share ftrace_caller."""
        ...


def trampolines_of(port: Port) -> Trampolines | None:
    """The `trampolines` of `port`, None where it has none or no such member."""
    return port.trampolines if isinstance(port, HasTrampolines) else None


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

    def dyn_arch_init(self, mcount: int, caller: int) -> Edit | None:
        """What changes once, before any site does (`ftrace_dyn_arch_init`); None for nothing.

        One edit of one place, where sites go through mcount to ftrace_caller.
        """
        ...

    def init_nop(self, sites: Sites, mcount: int) -> Edit:
        """First change of a site: from what the compiler left to the disabled form.

        Each legal form of `sites.compiled` is its own expectation.
        """
        ...

    def lengths(self, sites: Sites) -> NDArray[np.intp]:
        """How many of the `CallSites.size` bytes belong to each site, shape (n,)."""
        ...

    def with_nop(self, name: str) -> Port:
        """The same port with another of `Facts.nops` for disabled sites; raises `ValueError`."""
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

    def enable_graph_caller(self, slot: int, caller: int) -> Edit:
        """From a nop at `slot`, `ftrace_graph_call`, to a call of `caller`.

        The same edit the other way round is `ftrace_disable_ftrace_graph_caller`.
        """
        ...

    def explain(self, ip: int, expected: bytes, found: bytes) -> str:
        """Why a site that should hold `expected` and holds `found` is refused, in one clause.

        In the words of the architecture's own ftrace code where it has some. Equal
        texts mean that the replacement could not be encoded: the target is out of
        reach and no stub of it is there. Empty where there is no more to say.
        """
        ...

    def call_target(self, ip: int, text: bytes) -> int | None:
        """Where the instruction(s) at `ip` call or jump to; None if they do not."""
        ...

    def encoding(self, ip: int, text: bytes) -> Encoding | None:
        """The bit fields of the instruction `text` at `ip`, as the manual draws them.

        None for one that ftrace never writes or meets: nothing is said of it.
        """
        ...

    def emulate(self, registers: Mapping[str, int], ip: int, text: bytes) -> Effect:
        """What the site `text` at `ip` would do, for a CPU caught by a breakpoint there.

        `registers` holds all of `Abi.pt_regs` by name.
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

    def has_delay_slot(self, text: bytes) -> bool:
        """Whether the instruction `text` begins with is one with the next: a branch delayed."""
        ...

    def trapped_at(
        self, number: int, registers: Mapping[str, int], address: int, block: bytes
    ) -> int:
        """Where the trap `number` of `Engine.traps` was raised, if the emulator lost pc.

        `block` is the code at `address` without a branch in it that ran last, to its
        end; the other `registers` are as the instruction found them.
        """
        ...

    def is_return_address(self, before: bytes) -> bool:
        """Whether `before`, the `max_insn_size` bytes in front of an address, end in a call."""
        ...

    def oops(self, crash: Crash) -> tuple[str, ...]:
        """The lines of the report of a fault, the first saying what happened (`die()`)."""
        ...

    # Tier 4: modules

    @property
    def stubs(self) -> Stubs | None:
        """How modules reach what a call cannot; None where every call reaches."""
        ...

    def relocate(self, module: str, text: NDArray[np.uint8], relocations: Relocations) -> None:
        """Apply relocations to `text`, one section's bytes (1-D, changed in place).

        A call that goes to a stub also gets what must stand behind it. Raises
        `RelocationOverflow`, `UnknownRelocation`, or `ModuleError` for a field
        outside the section, for the first that fails and before anything is written.
        """
        ...

    def relocation_name(self, kind: int) -> str:
        """The ABI's name of a relocation type, such as `R_X86_64_PC32`."""
        ...

    # Sources and images

    def entry_source(self) -> str:
        """The text of entry.S. Labels core needs: ftrace_caller, ftrace_call, ftrace_stub.

        With `ftrace_regs_caller` there may be users that want registers: it has the
        tracer called with a `struct pt_regs` as fourth argument, `Abi.pt_regs` in their
        order, a slot of `pointer_size` bytes each, as they are at the traced function's
        entry. Where it does not lead through ftrace_call it has a slot ftrace_regs_call.

        With `ftrace_graph_call`, `ftrace_graph_caller` and `return_to_handler` there is
        the graph tracer. While the word `function_trace_stop` is not 0, each caller
        returns at once (HAVE_FUNCTION_TRACE_MCOUNT_TEST).
        """
        ...

    def images(self) -> Path:
        """The folder of built images: vmlinux.elf, tracer.o and the modules NAME.ko."""
        ...
