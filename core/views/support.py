"""What a port does, read off its image and its verbs: how a call site looks, how far it reaches.

Nothing is told by the port in words. A site of the teaching kernel is taken as
the compiler left it, the port's verbs say what it becomes, and the disassembler
reads all of it; how far a call reaches is found by asking for calls farther and
farther away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..arch import Addresses, Port, Sites, trampolines_of
from ..elf.image import Image
from ..elf.linker import layout, link
from ..elf.symbols import SymbolTable
from ..errors import UsageError
from ..ftrace.entry import Entry, load_entry
from ..ftrace.sites import call_sites, calls_of_mcount
from ..kallsyms import Kallsyms
from ..kernel import KERNEL, load_kernel
from ..machine.function import function_at
from ..machine.memory import PAGE_SIZE, Memory
from ..module import STUB_SUFFIX
from .callsite import Code
from .disasm import Disassembler

EXAMPLE = "schedule"
"""The function whose site is shown, where the kernel has it."""

MODULE = "usbcore"
"""The module whose sites are looked at."""

CALLER = "ftrace_caller"


@dataclass(frozen=True, slots=True)
class StubSupport:
    """How a module's call gets to where a call cannot."""

    size: int
    """In bytes."""
    code: tuple[str, ...]
    """Its instructions."""
    enabled: Code
    """A site that goes through it."""
    far: bool = False
    """Whether there is a place for modules near the kernel too, where none is needed."""


@dataclass(frozen=True, slots=True)
class LongSupport:
    """A site of a module that reaches everything by itself, in more words than a kernel's."""

    compiled: Code
    disabled: Code
    """What of it changes, disabled."""
    enabled: Code
    """The same, enabled."""


@dataclass(frozen=True, slots=True)
class Support:
    """One port."""

    name: str
    bits: int
    byteorder: str
    compiled: Code
    disabled: Code
    enabled: Code
    offsets: tuple[int, int]
    """Bytes from a function's start to its site, in the teaching kernel: the least and the most."""
    reach: tuple[int, int] | None
    """How far before and behind itself a site can call, in bytes; None for everywhere."""
    stub: StubSupport | None
    """None where modules need none."""
    long: LongSupport | None
    """None where the sites of modules are as the kernel's."""
    patch_methods: tuple[str, ...]
    site: int = 0
    """Address of the call site that is shown."""
    listed: bool = True
    """Whether something lists the call sites; else they are found as the kernel runs."""
    trampolines: tuple[int, ...] = ()
    """Sizes of those of single users, in bytes: one for each caller; empty for none."""


class _Kernel:
    """A port's teaching kernel in memory, with the entry code, and nothing that runs it."""

    def __init__(self, port: Port) -> None:
        facts = port.facts
        self.port = port
        self.image = Image.load(port.images() / KERNEL, facts)
        self.memory = Memory(facts.byteorder, facts.pointer_size)
        load_kernel(port, self.image, self.memory)
        self.kallsyms = Kallsyms()
        self.kallsyms.add(self.image.symbols)
        self.entry: Entry = load_entry(port, self.image, self.memory, self.kallsyms)
        self.disasm = Disassembler(facts, self.kallsyms)

    @property
    def caller(self) -> int:
        """What an enabled site is to call."""
        return self.entry[CALLER]

    def code(self, address: Addresses, text: NDArray[np.uint8]) -> Code:
        """The first row of an edit's text."""
        data = text[0].tobytes()
        return Code(data, self.disasm.line(int(address[0]), data))


def support(port: Port, function: str | None = None) -> Support:
    """What `port` does, shown at the site of `function`, by default `EXAMPLE`.

    Raises `ImageError`, `MissingSymbolError` and `AssemblyError`, and `UsageError` where
    the kernel has no call site in `function`.
    """
    kernel = _Kernel(port)
    facts = port.facts
    ips = call_sites(port, kernel.image, kernel.memory.read)
    listed = bool(len(ips))
    if not listed:
        ips = calls_of_mcount(port, kernel.image, kernel.memory.read)
    example = _example(kernel, ips, function)
    ip = ips[example : example + 1]
    compiled, _ = kernel.memory.gather(ip, facts.sites.size)
    sites = Sites(ip, compiled=compiled)
    length = int(port.lengths(sites)[0])
    call = port.make_call(sites, kernel.caller)
    offsets = _offsets(kernel, ips)
    return Support(
        name=facts.name,
        bits=8 * facts.pointer_size,
        byteorder=facts.byteorder,
        compiled=kernel.code(sites.ip, compiled[:, :length]),
        disabled=kernel.code(call.address, call.expected[:, :length]),
        enabled=kernel.code(call.address, call.replacement[:, :length]),
        site=int(ip[0]),
        offsets=(min(offsets), max(offsets)),
        reach=_reach(port, sites),
        stub=_stub(kernel),
        long=_long(kernel, length),
        patch_methods=facts.patch_methods,
        listed=listed,
        trampolines=_trampolines(kernel),
    )


def _example(kernel: _Kernel, ips: Addresses, function: str | None) -> int:
    """The row of `ips` that is shown."""
    names = kernel.kallsyms.names_of(ips)
    for wanted in (function or EXAMPLE, kernel.port.facts.abi.text_prefix + (function or EXAMPLE)):
        if wanted in names:
            return names.index(wanted)
    if function is not None:
        raise UsageError(f"no function '{function}' with a call site in this kernel")
    return 0


def _offsets(kernel: _Kernel, ips: Addresses) -> list[int]:
    """How far into its function each site is."""
    symbols = ((ip, kernel.kallsyms.lookup(ip)) for ip in ips.tolist())
    return [ip - symbol.address for ip, symbol in symbols if symbol is not None] or [0]


def _stub(kernel: _Kernel) -> StubSupport | None:
    """The stub of ftrace_caller that a module would get, as far away as modules are put."""
    port = kernel.port
    facts, stubs = port.facts, port.stubs
    if stubs is None:
        return None
    address = facts.map.modules if facts.modules_far is None else facts.modules_far[0]
    target = function_at(facts, kernel.memory, kernel.kallsyms, kernel.caller)
    toc = 0 if facts.abi.toc is None else address + PAGE_SIZE + facts.abi.toc.bias
    code = stubs.make(address, target, toc)[: stubs.facts.code]
    name = stubs.facts.names.get(CALLER, CALLER + STUB_SUFFIX)
    names = SymbolTable.of_labels({name: address}, address + stubs.facts.size)
    kernel.kallsyms.add(names, "module")
    ip = np.array([address + PAGE_SIZE], np.uint64)
    sites = Sites(ip, {target.code: np.array([address], np.uint64)})
    call = port.make_call(sites, target.code)
    return StubSupport(
        stubs.facts.size,
        tuple(kernel.disasm.text(insn) for insn in kernel.disasm.decode(address, code)),
        kernel.code(call.address, call.replacement),
        facts.modules_far is not None,
    )


def _trampolines(kernel: _Kernel) -> tuple[int, ...]:
    """The sizes of a user's trampolines, by what they are copies of."""
    maker, entry = trampolines_of(kernel.port), kernel.entry
    if maker is None:
        return ()
    behind, func = entry.address + PAGE_SIZE, entry["ftrace_stub"]
    callers = ((name, entry.assembled, entry.address) for name in entry.callers)
    made = [maker.make(code, base, name, behind, func, 0) for name, code, base in callers]
    return tuple(len(each.code) for each in made if each is not None)


def _long(kernel: _Kernel, length: int) -> LongSupport | None:
    """The first site of the example's module, where it is longer than `length` bytes."""
    port = kernel.port
    path = port.images() / f"{MODULE}.ko"
    if port.stubs is not None or not path.exists():
        return None
    image = Image.load(path, port.facts)
    where = layout(image)
    base = port.facts.map.modules
    linked = link(port, image, MODULE, where, base, kernel.image.symbols.address_of)
    memory = Memory(port.facts.byteorder, port.facts.pointer_size)
    memory.map(base, where.size, MODULE)
    linked.write(memory.write)
    kernel.kallsyms.add(linked.symbols, MODULE)
    ip = call_sites(port, image, memory.read, linked.bases)[:1]
    compiled, _ = memory.gather(ip, port.facts.sites.size)
    mcount = kernel.image.symbols.address_of(port.facts.sites.mcount_symbols[0]) or 0
    sites = Sites(ip, {kernel.caller: np.array([mcount], np.uint64)}, compiled)
    own = int(port.lengths(sites)[0])
    if own == length:
        return None
    call = port.make_call(sites, kernel.caller)
    changed = (call.expected != call.replacement).any(axis=0).nonzero()[0].max() + 1
    step = port.facts.insn_align
    end = -(-int(changed) // step) * step
    return LongSupport(
        kernel.code(ip, compiled[:, :own]),
        kernel.code(call.address, call.expected[:, :end]),
        kernel.code(call.address, call.replacement[:, :end]),
    )


def _reach(port: Port, example: Sites) -> tuple[int, int] | None:
    """The farthest targets before and behind a site like `example` that a call reaches."""
    step = port.facts.insn_align
    middle = 1 << (8 * port.facts.pointer_size - 1)
    site = replace(example, ip=np.array([middle], np.uint64))

    def reaches(distance: int) -> bool:
        return bool(port.make_call(site, middle + distance * step).reachable[0])

    limit = middle // step
    back = _last(lambda count: reaches(-count), limit)
    ahead = _last(reaches, limit - 1)
    return None if back == limit else (back * step, ahead * step)


def _last(holds: Callable[[int], bool], limit: int) -> int:
    """The greatest number up to `limit` that `holds`, which all smaller ones do as well."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
