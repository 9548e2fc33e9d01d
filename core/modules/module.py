"""insmod and rmmod: modules in guest memory, and their dependencies.

insmod refuses a module for a wrong vermagic, a symbol that is not exported, a relocation that
does not fit, or an error returned by its init. Nothing of a refused module stays in guest
memory. As in Linux, a call site with unexpected bytes is not such a reason: it shuts ftrace off,
and the module is loaded with its calls as compiled.

A kernel exports the symbols in its `__ksymtab`. A kernel without that section exports all
its global symbols, so that a small kernel needs no tables. A module exports the symbols
in its own `__ksymtab`.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from .. import abi
from ..arch import Function, ModuleStub, Port
from ..elf.image import Image
from ..elf.lines import SourceLines
from ..elf.linker import (
    Layout,
    Linked,
    layout,
    link,
    part_name,
    relocations,
    stub_callees,
    toc_pointer,
)
from ..elf.structs import SHN_UNDEF, STB_GLOBAL
from ..elf.stubs import StubTable
from ..elf.symbols import SymbolTable
from ..errors import GuestError, ImageError, MissingSymbolError, ModuleError, UsageError
from ..ftrace.entry import CALLER, CALLERS, REGS_CALLER
from ..ftrace.ftrace import Ftrace
from ..kernel.kallsyms import Kallsyms
from ..kernel.placed import LOAD, START
from ..machine.function import function_at
from ..machine.machine import Machine
from ..memento import Restore, attributes
from .modinfo import depends, exports, find_exports, image_bytes, image_string, modinfo

STUB_SUFFIX = ".stub"
"""Appended to the callee's name to name a stub for which the kernel has no name."""

THIS_MODULE = ".gnu.linkonce.this_module"
_TRAMPS = {CALLER: "tramp", REGS_CALLER: "tramp_regs"}
"""Fields of `mod->arch` with the addresses of stubs, by the functions they lead to."""
KSYMTABS = ("__ksymtab", "__ksymtab_gpl")
"""Sections with exported symbols."""

_PARAMETERS = "__param"
"""Section with a `struct kernel_param` for each parameter."""

_PARSE_ARGS, _ARGS = "parse_args", "module_args"
"""The kernel's function that sets parameters, and the variable with their text."""

PER_CPU = ".data..percpu"
"""The section of a module's per-CPU data."""


@dataclass(eq=False)
class Module:
    """A loaded module."""

    name: str
    image: Image
    linked: Linked
    depends: tuple[str, ...]
    """Modules whose exports it uses, or that its modinfo names."""
    exports: Mapping[str, int]
    this_module: int | None
    """Guest address of its `struct module`; None if the module has none."""
    port: Port = field(repr=False)
    pending: int | None = None
    """Guest address of an init that was not run, because it needs a booted Linux."""

    @property
    def stubs(self) -> tuple[ModuleStub, ...]:
        """The stubs that its calls use; those of `CALLERS` come last."""
        return self.linked.stubs

    @property
    def base(self) -> int:
        """Address of its first byte."""
        return self.linked.base

    @property
    def size(self) -> int:
        """Its size in guest memory in bytes, a multiple of the page size."""
        return self.linked.size

    def contains(self, address: int) -> bool:
        """Return whether `address` lies in its memory."""
        return self.base <= address < self.base + self.size

    @property
    def sections(self) -> dict[str, int]:
        """Addresses of its loaded sections, by name."""
        names = {section.index: section.name for section in self.image.sections}
        return {names[index]: address for index, address in self.linked.bases.items()}

    @cached_property
    def lines(self) -> SourceLines:
        """Its source lines, if it has debug information."""
        sections = {}
        raws = {s.index: self.image.data(s).copy() for s in self.image.debug_sections()}
        values = self.linked.symbols.address
        try:
            for table in self.image.debug_relocations():
                raw = raws[table.target.index]
                external = self.image.symbols.shndx[table.symbol] == SHN_UNDEF
                found = relocations(table, 0, values, external, self.linked.toc)
                self.port.relocate(self.name, raw, found)
        except (ModuleError, ImageError):
            return SourceLines({}, self.image.facts)
        for section in self.image.debug_sections():
            sections[section.name] = raws[section.index]
        return SourceLines(sections, self.image.facts)

    def source_line(self, address: int) -> tuple[str, int] | None:
        """Return file and line of the code at `address`, if debug information has them."""
        return self.lines.at(address)


class Modules:
    """The modules of one machine, in the order of loading."""

    def __init__(self, machine: Machine, kernel: Image, kallsyms: Kallsyms, ftrace: Ftrace) -> None:
        self.loaded: list[Module] = []
        self._machine = machine
        self._port = machine.port
        self._kernel = kernel
        self._kallsyms = kallsyms
        self._ftrace = ftrace
        self._coming: list[Callable[[str], None]] = []
        self._gone: list[Callable[[int, int], None]] = []

    def save(self) -> Restore:
        """Return a function that restores which modules are loaded."""
        return attributes(self, "loaded")

    def find(self, name: str) -> Module | None:
        """Return the loaded module `name`; dashes count as underscores."""
        name = name.replace("-", "_")
        return next((module for module in self.loaded if module.name == name), None)

    def part(self, name: str, section: str) -> range:
        """Return the addresses of a section of the loaded module `name`; empty without it."""
        module = self.find(name)
        found = None if module is None else module.image.section(section)
        if module is None or found is None or found.index not in module.linked.bases:
            return range(0)
        start = module.linked.bases[found.index]
        return range(start, start + found.size)

    def users(self, name: str) -> list[str]:
        """Return the names of the loaded modules that depend on `name`."""
        return [module.name for module in self.loaded if name in module.depends]

    def refcnt(self, module: Module) -> int:
        """Return the number of references that the guest holds to `module`."""
        return 0 if module.this_module is None else int(self._this(module)["refcnt"])

    def insmod(
        self,
        file: Image | Path | str,
        far: bool = False,
        replaced: tuple[str, str] | None = None,
        args: str = "",
    ) -> Module:
        """Load a module, make its records, set its parameters, and run its init.

        `args` are parameters, as `name=value` words; one that the module does not have is ignored,
        with a message in the kernel's log. `far` puts it into the area that the kernel uses when
        the near one is full. `replaced` has two symbols: the module's calls of the first become
        calls of the second.

        Raises `UsageError` if the port has only one area, the module does not call the first
        symbol, or the kernel sets no parameters; `ImageError` for an invalid file; `ModuleError`
        with the kernel's errno (EEXIST, ENOEXEC, ENOENT, ENOMEM, EINVAL for a parameter, or the
        result of init); `FtraceBug` if its sites are to be enabled and a slot or trampoline is
        damaged; and `GuestError` if init does not return, after which the module stays loaded in
        its current state.
        """
        image = file if isinstance(file, Image) else Image.load(file, self._port.facts)
        if not image.relocatable:
            raise image.error("not a module: it is linked already")
        try:
            module = self._link(image, far, replaced)
        except ModuleError as error:
            if error.errno in (errno.ENOEXEC, errno.ENOENT):
                self._machine.dmesg.write(self._machine.now, str(error))
            raise
        module.linked.map(self._machine.memory.map, f"module {module.name}")
        module.linked.write(self._machine.memory.write)
        self._kallsyms.add(module.linked.symbols, module.name)
        if module.stubs and self._port.stubs is not None:
            self._kallsyms.add(_stub_names(module), module.name)
        try:
            module = self._finish(module)
            tramps = self._write_tramps(module)
            mod = module.this_module or 0
            stubs = self._ftrace.module_init(
                module.name, image, module.linked.bases, module.stubs, mod, tramps
            )
            module.linked = replace(module.linked, stubs=stubs)
            self.loaded.append(module)
            for coming in self._coming:
                coming(module.name)
            self._init(module, args)
        except GuestError:
            raise
        except BaseException:
            self._take_out(module)
            raise
        return module

    def observe(self, coming: Callable[[str], None], gone: Callable[[int, int], None]) -> None:
        """Call `coming` before a module's init runs, `gone` before its memory [start, end) goes."""
        self._coming.append(coming)
        self._gone.append(gone)

    def rmmod(self, name: str) -> None:
        """Run a module's exit and unload it.

        Raises `ModuleError` (ENOENT if it is not loaded; EBUSY if it is in use, not live,
        or another module depends on it), and `GuestError` if exit does not return.
        """
        module = self.find(name)
        if module is None:
            raise ModuleError(name, errno.ENOENT, f"Module {name} is not currently loaded")
        users = self.users(name)
        if users:
            raise ModuleError(name, errno.EBUSY, f"Module {name} is in use by: {' '.join(users)}")
        if module.this_module is not None:
            this = self._this(module)
            if int(this["refcnt"]) != 0 or int(this["state"]) != abi.ModuleState.LIVE:
                raise ModuleError(name, errno.EBUSY, f"Module {name} is in use")
            leave = int(this["exit"])
            if int(this["init"]) and not leave:
                reason = f"Module {name} has no exit function: it cannot be unloaded"
                raise ModuleError(name, errno.EBUSY, reason)
            self._set_state(module, abi.ModuleState.GOING)
            if leave:
                self._machine.requests.call_as_client(leave, (), "rmmod")
            self._tell("free", module, "rmmod")
        self._take_out(module)

    def source_line(self, address: int) -> tuple[str, int] | None:
        """Return file and line of the code at `address` of a module, if known."""
        for module in self.loaded:
            if module.contains(address):
                return module.source_line(address)
        return None

    # Loading

    def _link(self, image: Image, far: bool, replaced: tuple[str, str] | None) -> Module:
        """Check and relocate a module, without touching guest memory."""
        info = modinfo(image)
        name = info["name"]
        if self.find(name) is not None:
            raise ModuleError(name, errno.EEXIST)
        self._check_vermagic(name, info.get("vermagic"))
        wanted = depends(image)
        used: list[str] = []
        prefix = self._port.facts.abi.text_prefix

        def resolve(symbol: str) -> int | None:
            symbol = symbol.removeprefix(prefix)
            exported = self._kernel_exports.get(symbol)
            if exported is not None:
                return exported
            for other in self.loaded:
                if symbol in other.exports:
                    used.append(other.name)
                    return other.exports[symbol]
            return self._tracer_symbol(symbol)

        linked = self._settle(image, name, resolve, self._area(far), replaced)
        for other in wanted:
            if self.find(other) is None:
                raise ModuleError(
                    name, errno.ENOENT, f"{name}: needs module {other}, which is not loaded"
                )
        needed = tuple(dict.fromkeys([*used, *wanted]))
        return Module(name, image, linked, needed, {}, None, self._port)

    def _area(self, far: bool) -> tuple[int, int]:
        """Return start and end of the area for modules. Raises `UsageError` without a far area."""
        facts = self._port.facts
        if not far:
            return facts.map.modules, facts.map.modules_end
        if facts.modules_far is None:
            raise UsageError(f"{facts.name} has a single module area: --far does not apply")
        return facts.modules_far

    def _settle(
        self,
        image: Image,
        name: str,
        resolve: Callable[[str], int | None],
        area: tuple[int, int],
        replaced: tuple[str, str] | None,
    ) -> Linked:
        """Find a place for `image` in `area`, relocate it, and make its stubs."""
        stubs = self._port.stubs
        if stubs is None:
            where = layout(image)
            base = self._place(name, where, area)
            linked = link(
                *(self._port, image, name, where, base, resolve),
                replaced=replaced,
                shifts=self._shifts,
            )
            return replace(linked, stubs=self._linked_stubs(linked))
        size = stubs.facts.size * (stub_callees(self._port, image) + len(CALLERS))
        where = layout(image, size, stubs.facts.align)
        base = self._place(name, where, area)
        toc = toc_pointer(self._port, image, where, base)
        table = StubTable(stubs, name, base + where.stubs, size, toc, self._function_at)
        where_to = (self._port, image, name, where, base, resolve)
        linked = link(*where_to, toc=toc, stubs=table, replaced=replaced, shifts=self._shifts)
        # A kernel that cannot be traced has no callers.
        with contextlib.suppress(MissingSymbolError):
            for caller, address in self._ftrace.entry.callers.items():
                table.stub_for(address, caller)
        return replace(linked, stubs=table.made)

    def _tracer_symbol(self, symbol: str) -> int | None:
        """Return the address in the tracer that a stub linked into a module leads to."""
        if symbol not in self._port.facts.sites.linked_stubs.values():
            return None
        with contextlib.suppress(MissingSymbolError):
            return self._ftrace.entry.symbols.get(symbol)
        return None

    def _linked_stubs(self, linked: Linked) -> tuple[ModuleStub, ...]:
        """Return the stubs in the module's own code, by address."""
        found = []
        table = linked.symbols
        for symbol, callee in self._port.facts.sites.linked_stubs.items():
            row = table.row_of(symbol)
            target = self._kernel_exports.get(callee) or self._tracer_symbol(callee)
            if row is None or target is None or int(table.shndx[row]) not in linked.bases:
                continue
            address = int(table.address[row])
            section = int(table.shndx[row])
            start = address - linked.bases[section]
            code = linked.content[section][start : start + int(table.size[row])].tobytes()
            if code:
                found.append(ModuleStub(address, code, target, callee))
        return tuple(sorted(found, key=lambda stub: stub.address))

    def _function_at(self, pointer: int) -> Function:
        """Return the function that a pointer leads to. Raises `MemoryFault`."""
        machine = self._machine
        return function_at(self._port.facts, machine.memory, self._kallsyms, pointer)

    def _check_vermagic(self, name: str, found: str | None) -> None:
        """Raise `ModuleError` (ENOEXEC) if the kernel has another vermagic than `found`.

        For a kernel that does not boot here, only write a warning to dmesg: its modules run
        nothing.
        """
        address = self._kernel.symbols.address_of("vermagic")
        if address is None:
            return
        wanted = image_string(self._kernel, address)
        if found == wanted:
            return
        text = f"{name}: version magic '{found or ''}' should be '{wanted}'"
        if self.boots:
            raise ModuleError(name, errno.ENOEXEC, text)
        self._machine.dmesg.write(self._machine.now, text)

    @property
    def _shifts(self) -> dict[str, int]:
        """Bytes to subtract from addresses in a section, by name: per-CPU data has offsets."""
        symbols = self._kernel.symbols
        load, start = symbols.address_of(LOAD), symbols.address_of(START)
        return {} if load is None or start is None else {PER_CPU: load - start}

    @property
    def boots(self) -> bool:
        """Whether the kernel boots here, so that it can run a module's init."""
        return self._kernel.symbols.address_of("_start") is not None

    def _place(self, name: str, where: Layout, area: tuple[int, int]) -> int:
        """Return the lowest free address of `area` that has room."""
        base, end = area
        inside = [module for module in self.loaded if area[0] <= module.base < end]
        for taken in sorted(inside, key=lambda module: module.base):
            if base + where.size <= taken.base:
                break
            base = max(base, taken.base + taken.size)
            base = -(-base // where.align) * where.align
        if not where.size:
            raise ModuleError(name, errno.ENOEXEC, f"{name}: the file has no section to load")
        if base + where.size > end:
            raise ModuleError(name, errno.ENOMEM)
        return base

    def _finish(self, module: Module) -> Module:
        """Read the tables that are valid only after relocation from guest memory."""
        image = module.image
        this = image.section(THIS_MODULE)
        linux = this is not None and _of_linux(image.data(this).tobytes(), module.name)
        if linux:
            module.pending = module.linked.symbols.address_of("init_module")
        elif this is not None and this.index in module.linked.bases:
            layout_ = abi.this_module(self._port.facts.byteorder, self._port.facts.pointer_size)
            if this.size < layout_.itemsize:
                raise image.error(
                    f"its struct module has {this.size} bytes instead of {layout_.itemsize}",
                    section=this,
                    offset=this.offset,
                )
            module.this_module = module.linked.bases[this.index]
        memory, found = self._machine.memory, dict[str, int]()

        def own(address: int, size: int) -> bytes:
            # With a wrong layout of the table, a pointer may lead anywhere, even to the kernel's
            # text.
            return memory.read_mapped(address, size) if module.contains(address) else b""

        for name in KSYMTABS:
            table = image.section(name)
            if table is not None and table.index in module.linked.bases:
                base = module.linked.bases[table.index]
                raw = memory.read(base, table.size)
                found |= exports(raw, base, self._port.facts, own)
        module.exports = found
        return module

    def _init(self, module: Module, args: str) -> None:
        """Run the module's init. Raises `ModuleError` with the errno that init returned."""
        if args and module.this_module is None:
            raise UsageError(f"{module.name}: the kernel has not booted, so it sets no parameters")
        if module.this_module is None:
            return
        self._set_state(module, abi.ModuleState.COMING)
        if args:
            self._set_parameters(module, args)
        self._tell("load", module, "insmod")
        start = int(self._this(module)["init"])
        if start:
            result = self._machine.requests.call_as_client(start, (), "insmod") & 0xFFFF_FFFF
            if result >= 2**31:
                raise ModuleError(module.name, 2**32 - result)
            if result:
                self._machine.dmesg.write(
                    self._machine.now,
                    f"{module.name}: init returned {result}, which is neither 0 nor a negative "
                    "errno; loaded anyway",
                )
        self._set_state(module, abi.ModuleState.LIVE)

    def _set_parameters(self, module: Module, args: str) -> None:
        """Have the kernel set the parameters of the module. Raises `ModuleError`."""
        function, place = (self._kallsyms.address(name) for name in (_PARSE_ARGS, _ARGS))
        if function is None or place is None:
            raise UsageError(f"{module.name}: this kernel does not define {_PARSE_ARGS}()")
        data = args.encode() + b"\0"
        if len(data) > abi.MODULE_ARGS_MAX:
            raise UsageError(f"parameters have at most {abi.MODULE_ARGS_MAX - 1} bytes together")
        this, table = module.this_module or 0, self.part(module.name, _PARAMETERS)
        size = abi.kernel_param(self._port.facts.byteorder, self._port.facts.pointer_size).itemsize
        self._machine.memory.write(place, data)
        result = self._machine.requests.call_as_client(
            function, (this, table.start, len(table) // size), "insmod"
        )
        if result % 2**32 >= 2**31:
            raise ModuleError(module.name, 2**32 - result % 2**32)

    def _tell(self, what: str, module: Module, comm: str) -> None:
        """Have the guest write the trace event module_load or module_free, if it is on."""
        point = self._kallsyms.address(f"__event_module_{what}")
        function = self._kallsyms.address(f"trace_module_{what}")
        memory = self._machine.memory
        if point is None or function is None or memory.region_at(point) is None:
            return
        if memory.read_int(point, 4):
            self._machine.requests.call(function, (module.this_module or 0,), comm)

    def _take_out(self, module: Module) -> None:
        """Remove a module's records, symbols, memory and translated code."""
        for gone in self._gone:
            gone(module.base, module.base + module.size)
        self._ftrace.module_release(module.name)
        self._kallsyms.remove(module.name)
        for part in module.linked.parts:
            self._machine.memory.unmap(part_name(f"module {module.name}", part.name))
        self._machine.flush(module.base, module.base + module.size)
        if module in self.loaded:
            self.loaded.remove(module)

    # Guest memory

    def _this(self, module: Module) -> np.void:
        """Return a copy of the module's `struct module`."""
        facts = self._port.facts
        layout_ = abi.this_module(facts.byteorder, facts.pointer_size)
        assert module.this_module is not None
        raw = self._machine.memory.read(module.this_module, layout_.itemsize)
        this: np.void = np.frombuffer(raw, layout_)[0]
        return this

    def _write_tramps(self, module: Module) -> dict[int, int]:
        """Write the stubs of the callers into `mod->arch`; return their words by target."""
        this = module.image.section(THIS_MODULE)
        if module.this_module is None or this is None or self._port.stubs is None:
            return {}
        facts = self._port.facts
        start = abi.this_module(facts.byteorder, facts.pointer_size).itemsize
        fields = abi.mod_arch_specific(facts.byteorder, facts.pointer_size).fields
        assert fields is not None
        words, prefix = {}, facts.abi.text_prefix
        for stub in module.stubs:
            field = _TRAMPS.get(stub.symbol.removeprefix(prefix))
            offset = None if field is None else start + fields[field][1]
            if offset is not None and offset + facts.pointer_size <= this.size:
                words[stub.target] = module.this_module + offset
                self._machine.memory.write_int(words[stub.target], stub.address)
        return words

    def _set_state(self, module: Module, state: abi.ModuleState) -> None:
        layout_ = abi.this_module(self._port.facts.byteorder, self._port.facts.pointer_size)
        assert module.this_module is not None and layout_.fields is not None
        offset = layout_.fields["state"][1]
        self._machine.memory.write_int(module.this_module + offset, state, 4)

    @property
    def exported(self) -> Mapping[str, int]:
        """Addresses of the symbols that the kernel exports, by name."""
        return self._kernel_exports

    @cached_property
    def _kernel_exports(self) -> dict[str, int]:
        """Addresses of the symbols that the kernel exports, by name."""
        kernel, symbols = self._kernel, self._kernel.symbols
        found: dict[str, int] = {}
        for name in KSYMTABS:
            table = kernel.section(name)
            if table is not None:
                raw, at = kernel.data(table).tobytes(), table.address
                found |= exports(raw, at, kernel.facts, partial(image_bytes, kernel))
        if kernel.section(KSYMTABS[0]) is not None:
            return found
        if not self.boots and (found := find_exports(kernel)):
            return found
        rows = np.flatnonzero(symbols.defined & (symbols.binding == STB_GLOBAL))
        return {symbols.names[row]: int(symbols.address[row]) for row in rows.tolist()}


def _of_linux(this_module: bytes, name: str) -> bool:
    """Return whether a `struct module` is that of Linux, in which the name is not first."""
    return this_module.find(name.encode() + b"\0") > 0


def _stub_names(module: Module) -> SymbolTable:
    """Return names for the stubs of `module`, so that calls of them can be read."""
    prefix, stubs = module.port.facts.abi.text_prefix, module.port.stubs
    known = {} if stubs is None else stubs.facts.names
    names = {}
    for each in module.stubs:
        callee = each.symbol.removeprefix(prefix)
        names[known.get(callee, callee + STUB_SUFFIX)] = each.address
    last = module.stubs[-1]
    return SymbolTable.of_labels(names, last.address + len(last.code))
