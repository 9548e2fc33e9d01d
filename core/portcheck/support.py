"""The properties of a port, derived from its image and its verbs.

No port describes itself in words. A site of the teaching kernel is taken as compiled, the
port's verbs turn it into its other forms, and the disassembler shows all of them. The
reach of a call is found by trying calls farther and farther away.
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
from ..kernel.kallsyms import Kallsyms
from ..kernel.kernel import KERNEL, load_kernel
from ..machine.function import function_at
from ..machine.memory import PAGE_SIZE, Memory
from ..modules.module import STUB_SUFFIX
from ..views.call_site import Code
from ..views.disasm import Disassembler

EXAMPLE = "schedule"
"""The function whose site is shown, if the kernel has it."""

MODULE = "usbcore"
"""The module whose sites are compared with the kernel's."""

CALLER = "ftrace_caller"


@dataclass(frozen=True, slots=True)
class StubSupport:
    """The stub through which a module's call reaches a target out of reach."""

    size: int
    """Size in bytes."""
    code: tuple[str, ...]
    """Its instructions."""
    enabled: Code
    """A site that calls the stub."""
    far: bool = False
    """Whether only modules in the far area need stubs."""


@dataclass(frozen=True, slots=True)
class LongSupport:
    """A module's site that is longer than a kernel's, so that it reaches every address."""

    compiled: Code
    disabled: Code
    """The part that changes, disabled."""
    enabled: Code
    """The same part, enabled."""


@dataclass(frozen=True, slots=True)
class Support:
    """The properties of one port."""

    name: str
    bits: int
    byteorder: str
    compiled: Code
    disabled: Code
    enabled: Code
    offsets: tuple[int, int]
    """Minimum and maximum bytes from a function's start to its site, in the port's kernel."""
    reach: tuple[int, int] | None
    """Reach of a site's call in bytes, backwards and forwards; None if unlimited."""
    stub: StubSupport | None
    """The stub of a module's call; None if modules need no stubs."""
    long: LongSupport | None
    """A longer site of a module; None if the sites of modules look like the kernel's."""
    patch_methods: tuple[str, ...]
    site: int = 0
    """Address of the call site shown."""
    listed: bool = True
    """Whether the file lists the call sites; else they are found as the kernel runs."""
    trampolines: tuple[int, ...] = ()
    """Sizes in bytes of the trampolines of single users, one for each caller; empty for none."""


class _Kernel:
    """A port's teaching kernel in memory, with the entry code but without vCPUs."""

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
        """The address that an enabled site calls."""
        return self.entry[CALLER]

    def code(self, address: Addresses, text: NDArray[np.uint8]) -> Code:
        """Return the first row of an edit's text."""
        data = text[0].tobytes()
        return Code(data, self.disasm.line(int(address[0]), data))


def support(port: Port, function: str | None = None) -> Support:
    """Return the properties of `port`, shown at the site of `function` (default: `EXAMPLE`).

    Raises `ImageError`, `MissingSymbolError` and `AssemblyError`, and `UsageError` if the
    kernel has no call site in `function`.
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
    first = port.init_nop(sites, kernel.caller)
    lead = first.lead
    before, _ = kernel.memory.gather(first.address, lead)
    left = first.replacement[:, :lead]
    offsets = _offsets(kernel, ips)
    return Support(
        name=facts.name,
        bits=8 * facts.pointer_size,
        byteorder=facts.byteorder,
        compiled=kernel.code(first.address, np.hstack([before, compiled[:, :length]])),
        disabled=kernel.code(
            call.address - np.uint64(lead), np.hstack([left, call.expected[:, :length]])
        ),
        enabled=kernel.code(
            call.address - np.uint64(lead), np.hstack([left, call.replacement[:, :length]])
        ),
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
    """Return the index in `ips` of the site to show."""
    names = kernel.kallsyms.names_of(ips)
    for wanted in (function or EXAMPLE, kernel.port.facts.abi.text_prefix + (function or EXAMPLE)):
        if wanted in names:
            return names.index(wanted)
    if function is not None:
        raise UsageError(f"this kernel has no call site in a function '{function}'")
    return 0


def _offsets(kernel: _Kernel, ips: Addresses) -> list[int]:
    """Return the offset of each site in its function."""
    symbols = ((ip, kernel.kallsyms.lookup(ip)) for ip in ips.tolist())
    return [ip - symbol.address for ip, symbol in symbols if symbol is not None] or [0]


def _stub(kernel: _Kernel) -> StubSupport | None:
    """Return the stub of ftrace_caller for a module in the farthest area."""
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
    """Return the sizes of a user's trampolines, one for each caller."""
    maker, entry = trampolines_of(kernel.port), kernel.entry
    if maker is None:
        return ()
    behind, func = entry.address + PAGE_SIZE, entry["ftrace_stub"]
    callers = ((name, entry.assembled, entry.address) for name in entry.callers)
    made = [maker.make(code, base, name, behind, func, 0) for name, code, base in callers]
    return tuple(len(each.code) for each in made if each is not None)


def _long(kernel: _Kernel, length: int) -> LongSupport | None:
    """Return the first site of `MODULE`, if it is longer than `length` bytes."""
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
    """Return the reach in bytes, backwards and forwards, of a call from a site like `example`."""
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
    """Return the largest number up to `limit` for which `holds`; all smaller ones hold too."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
