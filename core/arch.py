"""The contract between `core` and an architecture: the interface of a port.

A port is one object that satisfies `Port`: facts in frozen dataclasses (`facts.py`), and
verbs that work on many call sites at once. `core` never asks which architecture it has:
whatever differs is a fact or a verb here. `BasePort` (`port/base_port.py`) has defaults for
the verbs that few architectures need to write; a port that inherits from it writes the rest.

A port lives in a folder of `arches/`. The same file name means the same thing in each, and
files that several ports of a family share are in the folder above them. Required:

    port.py        the facts, and the verbs put together
    insn.py        one encoder and decoder for each instruction format used, and the table
                   of the forms of a call site: compiled, disabled and enabled
    callsite.py    the text of many call sites at once; the effect of a site; why one is refused
    oops.py        the report of a fault, as this architecture's kernel prints it
    reloc.py       relocation types of modules: number, formula, field
    entry.S        ftrace_caller and the other entry code, assembled when the machine starts
    switch.S       the first instructions of the teaching kernel, and its task switch
    kernel.lds     the link addresses of the teaching kernel
    images/        built kernels and modules

Optional:

    encoding.py    the bit fields of the instructions ftrace meets, for `bits`
    stub.py        stubs of modules, if a call may not reach its target. A stub is code of
                   one module, through which its calls go
    stub.S         the same, if the stubs are linked into the module's file
    trampoline.py  trampolines, if the kernel makes them. A trampoline is the copy of
                   ftrace_caller that serves one user (FTRACE_OPS_FL_ALLOC_TRAMP)
    kprobes.py     the copy of an instruction that a kprobe executes elsewhere
    arguments.py   where a function's arguments are, if its code has to be read to know
    trapped.py     which instruction has trapped, if the emulator loses pc at a trap
    caller.S, graph.S   parts of entry.S that ports of the family share (`port/entry_source.py`)

A new port provides, tier by tier; each tier works without the next:

1. **Runs.** `Engine`, `Abi`, `AddressMap`, `enter_call`, `oops`: the machine runs
   code, delivers interrupts, reports faults; `dynftrace sh -c 'call FUNC'` works.
2. **Records.** `CallSites` and `call_adjust`: `dynftrace sites` lists them.
   `Facts.discovery` says how they are found if no table lists them.
3. **Patches.** `init_nop`, `make_nop`, `make_call`, `modify_call`, `entry.S`
   and `update_ftrace_func`: the function tracer works for the kernel.
4. **Modules.** `relocate`, and `stubs` if a call may not reach its target.
5. **Returns.** `enable_graph_caller`, and in `entry.S` the slot `ftrace_graph_call`,
   `ftrace_graph_caller` and `return_to_handler`: the graph tracer works.

`dynftrace port check NAME` reports which of these a port provides (`portcheck/`). It also takes
ports of other packages, named by an entry point of the group `dynftrace.arches`.

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
from .facts import AddressMap, Breakpoint, Facts, Register, Stub

if TYPE_CHECKING:
    from .crash import Crash

Addresses = NDArray[np.uint64]
"""Guest addresses, shape (n,)."""

Bytes = NDArray[np.uint8]
"""Text bytes, shape (n, width)."""


@dataclass(frozen=True, slots=True)
class Sites:
    """A batch of n call sites that a verb works on.

    `compiled` is the text before ftrace first changed it, shape (n, CallSites.size). It shows
    the form of a site if compilers generate several. `stubs` maps a target to its stub in each
    site's module, shape (n,), 0 for a module without. It comes from the record's module
    (`struct dyn_arch_ftrace` in the kernel).
    """

    ip: Addresses
    stubs: Mapping[int, Addresses] = field(default_factory=dict)
    compiled: Bytes = field(default_factory=lambda: np.empty((0, 0), np.uint8))

    def __len__(self) -> int:
        return len(self.ip)

    def stub(self, target: int) -> Addresses:
        """Return the stub of `target` in each site's module, 0 for a module without."""
        found = self.stubs.get(target)
        return np.zeros(len(self.ip), np.uint64) if found is None else found


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of n sites: the text it expects, and the text it writes.

    `expected` and `replacement` have shape (n, width) and start at `address`. If
    `reachable` is false for a site, its change cannot be encoded and nothing may be
    written (the kernel's EINVAL). `via` names the stubs that the old or the new text goes
    through, shape (n,) each, 0 for none: core compares them too before it writes anything.
    If sites differ in size, `lengths` is how many bytes of each row count, shape (n,).
    """

    address: Addresses
    expected: Bytes
    replacement: Bytes
    reachable: NDArray[np.bool_]
    via: tuple[Addresses, ...] = ()
    lengths: NDArray[np.intp] | None = None
    ip: Addresses | None = None
    """rec.ip of each site, if the change does not begin there; None if it is `address`."""

    @property
    def ips(self) -> Addresses:
        """rec.ip of each site; for other text, where its change begins."""
        return self.address if self.ip is None else self.ip

    @property
    def lead(self) -> int:
        """Bytes before rec.ip; the same for each site."""
        return int(self.ips[0] - self.address[0]) if len(self.address) else 0

    def row(self, text: Bytes, row: int) -> bytes:
        """Return the bytes that count of row `row` of `text`, one of this edit's arrays."""
        raw: bytes = text[row].tobytes()
        return raw if self.lengths is None else raw[: int(self.lengths[row])]

    def reversed(self) -> Edit:
        """Return the change that undoes this one."""
        return replace(self, expected=self.replacement, replacement=self.expected)


@dataclass(frozen=True, slots=True)
class Calls:
    """The text of n sites while they call one target, and while that call is disabled.

    A port that makes `Calls` for any target (`BasePort.calls`) gets three verbs from here:
    `make_nop`, `make_call` and `modify_call`. The arrays have the shapes of those in `Edit`.
    """

    text: Bytes
    nops: Bytes
    reachable: NDArray[np.bool_]
    via: Addresses | None = None
    """The stub that each site calls, 0 if it calls the target itself; None without stubs."""
    lengths: NDArray[np.intp] | None = None

    def make_nop(self, sites: Sites) -> Edit:
        """Return the edit from these calls to the disabled form."""
        return Edit(sites.ip, self.text, self.nops, self.reachable, self._via, self.lengths)

    def make_call(self, sites: Sites) -> Edit:
        """Return the edit from the disabled form to these calls."""
        return self.make_nop(sites).reversed()

    def modify_call(self, sites: Sites, new: Calls) -> Edit:
        """Return the edit from these calls to the `new` ones of the same sites."""
        reachable = self.reachable & new.reachable
        via = (*self._via, *new._via)
        return Edit(sites.ip, self.text, new.text, reachable, via, self.lengths)

    @property
    def _via(self) -> tuple[Addresses, ...]:
        return () if self.via is None else (self.via,)


@dataclass(frozen=True, slots=True)
class Relocations:
    """The relocations of one section with symbols resolved, shape (n,) each.

    `place` is P, the guest address of the field; `symbol` is S; `addend` is A
    (int64). If `explicit` is false the file uses REL: A is in the field,
    the port reads it there, and `addend` is 0. `external` says which symbols the
    file itself does not define, and `stub` which calls go to a stub: S is
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
    """The target of a function pointer in C: code, and the TOC pointer it expects, if any."""

    code: int
    toc: int | None = None


@dataclass(frozen=True, slots=True)
class ModuleStub:
    """A stub: code in one module at `address`, through which its calls reach `target`."""

    address: int
    code: bytes
    target: int
    """Address of the code it leads to."""
    symbol: str
    """Name of that code."""
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


class KernelText(Protocol):
    """A loaded kernel, as far as a port looks for the places that its boot code uses."""

    def address(self, name: str) -> int | None:
        """Return the address of a symbol or of an exported name, or None."""
        ...

    def text(self, place: str | int) -> tuple[int, bytes]:
        """Return address and code of a function, or from an address on; no bytes if unknown."""
        ...


class Stubs(Protocol):
    """How an architecture makes the stubs of its modules."""

    @property
    def facts(self) -> Stub:
        """Sizes and names of stubs."""
        ...

    def needed(self, relocations: Relocations) -> NDArray[np.bool_]:
        """Return which relocations are calls that must go through a stub, shape (n,)."""
        ...

    def make(self, address: int, target: Function, toc: int) -> bytes:
        """Return the stub at `address`, `facts.size` bytes; `toc` is its module's TOC pointer.

        Raises `ValueError` if it cannot be made for this target or address.
        """
        ...

    def target(self, address: int, stub: bytes, toc: int) -> int | None:
        """Return the code the bytes `stub` at `address` lead to; None if they are not a stub."""
        ...


@dataclass(frozen=True, slots=True)
class TrampolineCode:
    """A trampoline: a caller of entry.S copied for one user."""

    code: bytes
    slot: int
    """Offset of the call slot in bytes; `update_ftrace_func` patches the slot."""
    op: int
    """Offset of the word, of a pointer's size, that the tracer gets as `op`."""


class Trampolines(Protocol):
    """How an architecture makes trampolines (`create_trampoline`)."""

    def make(
        self, entry: EntryCode, base: int, caller: str, address: int, func: int, op: int
    ) -> TrampolineCode | None:
        """Return the trampoline at `address` whose slot calls `func` and passes it `op`.

        It is a copy of `caller` of `entry` at `base`, up to the slot, and continues to
        ftrace_graph_call if the caller does. None if entry.S is not written for trampolines,
        or an address is out of reach.
        """
        ...


@runtime_checkable
class HasTrampolines(Protocol):
    """A port with the optional member `trampolines`; `BasePort` has it too."""

    @property
    def trampolines(self) -> Trampolines | None:
        """How trampolines are made; None if all users share ftrace_caller."""
        ...


def trampolines_of(port: Port) -> Trampolines | None:
    """Return how `port` makes trampolines, None if it does not or lacks the member."""
    return port.trampolines if isinstance(port, HasTrampolines) else None


class Probes(Protocol):
    """How an architecture places kprobes at instructions that are not call sites."""

    @property
    def breakpoint(self) -> Breakpoint:
        """The instruction that replaces the probed one."""
        ...

    def length(self, code: bytes, start: int, address: int) -> int | None:
        """Return the size of the instruction at `address`; None if no instruction begins there.

        `code` is the text from the `start` of its function on.
        """
        ...

    def out_of_line(self, insn: bytes, address: int, slot: int) -> bytes | None:
        """Return code for `slot` that has the effect of `insn` at `address` and jumps after it.

        None if it cannot be moved.
        """
        ...


@runtime_checkable
class HasProbes(Protocol):
    """A port with the optional member `probes`; `BasePort` has it too."""

    @property
    def probes(self) -> Probes | None:
        """How kprobes are at any instruction; None if they are at call sites only."""
        ...


def probes_of(port: Port) -> Probes | None:
    """Return how `port` has kprobes at any instruction, None if it has none or lacks the member."""
    return port.probes if isinstance(port, HasProbes) else None


class Port(Protocol):
    """The verbs of an architecture.

    `BasePort` provides a default for each verb under `# optional`. A port must write the verbs
    under `# required` of each tier that it supports.
    """

    # required

    @property
    def facts(self) -> Facts:
        """The architecture as data."""
        ...

    def images(self) -> Path:
        """Return the folder of built images: vmlinux.elf, tracer.o, entry.o, modules NAME.ko."""
        ...

    # Tier 1: calls the machine makes, and faults.
    # required

    def is_return_address(self, before: bytes) -> bool:
        """Return whether `before`, the `max_insn_size` bytes before an address, end in a call."""
        ...

    def oops(self, crash: Crash) -> tuple[str, ...]:
        """Return the lines of a fault's report; the first names the event (`die()`)."""
        ...

    # optional

    def enter_call(
        self, function: int, arguments: Sequence[int], sp: int, return_to: int
    ) -> Effect:
        """Return the registers and stack with which `function(arguments…)` begins.

        The function returns to `return_to`. The stack below `sp` is free: the port aligns
        it and leaves the `call_frame`. Raises `ValueError` for too many arguments.
        """
        ...

    def enter_variadic(
        self, code: bytes, function: int, arguments: Sequence[int], sp: int, return_to: int
    ) -> Effect | None:
        """Like `enter_call`, if `code`, that of `function`, shows that it takes them otherwise.

        An ABI may pass the arguments of functions with `...` in another way. None if `function`
        takes its arguments as all others do.
        """
        ...

    def unbooted(self, kernel: KernelText) -> Mapping[Register, int]:
        """Return the CPU state that functions of a `kernel` that has not booted need.

        These are the registers that boot code sets before the first function in C: the
        pointers to per-CPU data and to the current task. Empty if none is needed or known.
        """
        ...

    def has_delay_slot(self, text: bytes) -> bool:
        """Return whether `text` begins with a branch that has a delay slot."""
        ...

    def trapped_at(
        self, number: int, registers: Mapping[str, int], address: int, block: bytes
    ) -> int:
        """Return where trap `number` of `Engine.traps` was raised, if the emulator lost pc.

        `block` is the code at `address` that ran last, to its end, without a branch in it;
        the other `registers` are as the instruction found them.
        """
        ...

    def encoding(self, ip: int, text: bytes) -> Encoding | None:
        """Return the bit fields of the instruction `text` at `ip`, as the manual draws them.

        None for an instruction that ftrace never writes or meets.
        """
        ...

    # Tier 2: records
    # optional

    def call_adjust(self, addresses: Addresses) -> Addresses:
        """Turn table entries into rec.ip (`ftrace_call_adjust`)."""
        ...

    # Tier 3: patching. Every verb is pure: it computes, core verifies and writes.
    # required

    def init_nop(self, sites: Sites, mcount: int) -> Edit:
        """Return the first change of each site: from the compiler's text to the disabled form.

        Each legal form of `sites.compiled` is its own expectation.
        """
        ...

    def call_target(self, ip: int, text: bytes) -> int | None:
        """Return where the instruction(s) at `ip` call or jump to; None if they do not."""
        ...

    def emulate(self, registers: Mapping[str, int], ip: int, text: bytes) -> Effect:
        """Return the effect of the site `text` at `ip`, for a CPU that hit a breakpoint there.

        Needed if there is a `Facts.breakpoint`. `registers` holds all of `Abi.pt_regs` by
        name. Raises `ValueError`, with the words `no call site`, for any other text.
        """
        ...

    # required, unless `BasePort.calls` is written

    def make_nop(self, sites: Sites, target: int) -> Edit:
        """Return the edit from a call of `target` to the disabled form (`ftrace_make_nop`)."""
        ...

    def make_call(self, sites: Sites, target: int) -> Edit:
        """Return the edit from the disabled form to a call of `target` (`ftrace_make_call`)."""
        ...

    def modify_call(self, sites: Sites, old: int, new: int) -> Edit:
        """Return the edit from a call of `old` to a call of `new` (`ftrace_modify_call`)."""
        ...

    # optional

    def update_ftrace_func(self, slot: int, old: int, new: int) -> Edit:
        """Return the edit of the `ftrace_call` slot at `slot` (`ftrace_update_ftrace_func`)."""
        ...

    def entry_source(self) -> str:
        """Return the text of entry.S. Labels core needs: ftrace_caller, ftrace_call, ftrace_stub.

        With the label `ftrace_regs_caller` the port serves users that want registers. It
        calls the tracer with a `struct pt_regs` as fourth argument: `Abi.pt_regs` in their
        order, a slot of `pointer_size` bytes each, as they are at the traced function's
        entry. If it does not lead through ftrace_call it has a slot ftrace_regs_call.

        With `ftrace_graph_call`, `ftrace_graph_caller` and `return_to_handler` the port
        has the graph tracer. While the word `function_trace_stop` is not 0, each caller
        returns at once (HAVE_FUNCTION_TRACE_MCOUNT_TEST).
        """
        ...

    def dyn_arch_init(self, mcount: int, caller: int) -> Edit | None:
        """Return the change made once, before any site changes (`ftrace_dyn_arch_init`).

        It is one edit of one place, if sites go through mcount to ftrace_caller; else None.
        """
        ...

    def lengths(self, sites: Sites) -> NDArray[np.intp]:
        """Return how many of the `CallSites.size` bytes belong to each site, shape (n,)."""
        ...

    def with_nop(self, name: str) -> Port:
        """Return this port with another of `Facts.nops` for disabled sites.

        Raises `ValueError` for a name that is not one of them.
        """
        ...

    def with_map(self, area: AddressMap, far: tuple[int, int] | None) -> Port:
        """Return this port with `area` as its `Facts.map` and `far` as its `modules_far`."""
        ...

    def explain(self, ip: int, expected: bytes, found: bytes) -> str:
        """Return why a site that holds `found` instead of `expected` is refused, in one clause.

        Uses the message of the architecture's own ftrace code if it has one. Equal texts mean
        that the replacement could not be encoded: the target is out of reach and has no stub.
        Empty if the bytes alone are enough.
        """
        ...

    # Tier 4: modules
    # required, unless `BasePort.relocation_abi` is set

    def relocate(self, module: str, text: NDArray[np.uint8], relocations: Relocations) -> None:
        """Apply relocations to `text`, one section's bytes (1-D, changed in place).

        A call that goes to a stub also gets the instruction that must follow it. Raises
        `RelocationOverflow`, `UnknownRelocation`, or `ModuleError` for a field
        outside the section, for the first that fails and before anything is written.
        """
        ...

    def relocation_name(self, kind: int) -> str:
        """Return the ABI's name of a relocation type, such as `R_X86_64_PC32`."""
        ...

    # optional

    def redirect_stub(self, code: bytes, target: int) -> bytes | None:
        """Return the text `code` of a linked stub with `target` as its new target.

        None if linked stubs never change. It is asked for the stub of mcount in a module
        without a stub of ftrace_caller.
        """
        ...

    @property
    def stubs(self) -> Stubs | None:
        """How stubs of modules are made; None if every call reaches its target without."""
        ...

    # Tier 5: returns
    # required

    def enable_graph_caller(self, slot: int, caller: int) -> Edit:
        """Return the edit from a nop at `slot`, `ftrace_graph_call`, to `caller`.

        The text written is a call, or a branch if `caller` does not return to the slot.
        The reversed edit is `ftrace_disable_ftrace_graph_caller`.
        """
        ...
