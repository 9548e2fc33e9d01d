"""The x86-64 port: facts, and the verbs put together.

Kernel text at 0xffffffff81000000, modules at 0xffffffffa0000000, as on a
machine of the years in which dynamic ftrace was written; everything that is
called lies in the top 2 GB, so a `call rel32` reaches it (insn.py). Calls
follow the System V ABI for AMD64: arguments in rdi, rsi, rdx, rcx, r8, r9, the
result in rax, the stack 16-byte aligned where a call is made, and no red zone
below it, since interrupts land on the same stack.

Sources: System V ABI, AMD64 supplement, section 3.2; the kernel's memory map
in Documentation/arch/x86/x86_64/mm.rst.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from capstone import CS_ARCH_X86, CS_MODE_64
from keystone.keystone_const import KS_ARCH_X86, KS_MODE_64
from numpy.typing import NDArray
from unicorn import x86_const
from unicorn.unicorn_const import UC_ARCH_X86, UC_MODE_64

from ...core.arch import Addresses, Bytes, Edit, Effect, Relocations, Sites
from ...core.crash import Crash
from ...core.facts import Abi, AddressMap, Breakpoint, CallSites, Engine, Facts, Register
from . import insn, oops, reloc

WORD = 8


def _register(name: str) -> Register:
    number: int = getattr(x86_const, f"UC_X86_REG_{name.upper()}")
    return Register(name, number)


_ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
_PT_REGS = (
    *("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp"),
    *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"),
    *("rip", "rflags", "rsp"),
)

FACTS = Facts(
    name="x86_64",
    elf_machine="EM_X86_64",
    pointer_size=WORD,
    byteorder="little",
    engine=Engine(
        uc_arch=UC_ARCH_X86,
        uc_mode=UC_MODE_64,
        cs_arch=CS_ARCH_X86,
        cs_mode=CS_MODE_64,
        ks_arch=KS_ARCH_X86,
        ks_mode=KS_MODE_64,
    ),
    abi=Abi(
        pc=_register("rip"),
        sp=_register("rsp"),
        arguments=tuple(_register(name) for name in _ARGUMENTS),
        result=_register("rax"),
        pt_regs=tuple(_register(name) for name in _PT_REGS),
        link=None,
        stack_align=16,
        red_zone=0,
        call_frame=0,
    ),
    map=AddressMap(
        local=0xFFFF_FFFF_FF50_0000,
        tracer=0xFFFF_FFFF_9000_0000,
        modules=0xFFFF_FFFF_A000_0000,
        modules_end=0xFFFF_FFFF_C000_0000,
        ring_buffer=0xFFFF_C900_0000_0000,
        hashes=0xFFFF_C980_0000_0000,
        hashes_end=0xFFFF_C980_8000_0000,
        direct_map=0xFFFF_8880_0000_0000,
        host_stack=0xFFFF_C9FF_0000_0000,
    ),
    sites=CallSites(
        size=insn.REL32_SIZE,
        sections=("__mcount_loc",),
        mcount_symbols=("__fentry__", "mcount"),
        call_relocations=frozenset({2, 4}),  # R_X86_64_PC32, R_X86_64_PLT32
        relocation_offset=-1,  # the field follows the opcode
        clobbers=frozenset({"rflags"}),
    ),
    patch_methods=("stop_machine", "breakpoint", "none"),
    breakpoint=Breakpoint(insn=insn.INT3, interrupt=3, reported_at=1),
    nops=("nop",),
    max_insn_size=15,
    insn_align=1,
)


@dataclass(frozen=True, slots=True)
class X86Port:
    """x86-64; see `core.arch.Port` for what each verb owes."""

    facts: Facts = FACTS

    def call_adjust(self, addresses: Addresses) -> Addresses:
        """The table names the call itself."""
        return addresses

    def dyn_arch_init(self, mcount: int, caller: int) -> Edit | None:
        """Nothing: sites reach ftrace_caller themselves."""
        return None

    def init_nop(self, sites: Sites, mcount: int) -> Edit:
        """From `call mcount`, or the nop of `-mnop-mcount`, to the nop."""
        expected, reachable = insn.call(sites.ip, _all(sites, mcount))
        nop = np.frombuffer(insn.NOP5, np.uint8)
        already = (sites.compiled == nop).all(axis=1)
        expected[already] = nop
        return Edit(sites.ip, expected, _nops(len(sites)), reachable | already)

    def make_nop(self, sites: Sites, target: int) -> Edit:
        """From `call target` to the nop."""
        expected, reachable = insn.call(sites.ip, _all(sites, target))
        return Edit(sites.ip, expected, _nops(len(sites)), reachable)

    def make_call(self, sites: Sites, target: int) -> Edit:
        """From the nop to `call target`."""
        replacement, reachable = insn.call(sites.ip, _all(sites, target))
        return Edit(sites.ip, _nops(len(sites)), replacement, reachable)

    def modify_call(self, sites: Sites, old: int, new: int) -> Edit:
        """From `call old` to `call new`."""
        expected, was = insn.call(sites.ip, _all(sites, old))
        replacement, reachable = insn.call(sites.ip, _all(sites, new))
        return Edit(sites.ip, expected, replacement, reachable & was)

    def update_ftrace_func(self, slot: int, old: int, new: int) -> Edit:
        """From `call old` to `call new` at the slot."""
        return self.modify_call(Sites(np.array([slot], np.uint64)), old, new)

    def explain(self, ip: int, expected: bytes, found: bytes) -> str:
        """Nothing but what cannot be encoded: this kernel prints the bytes alone."""
        return "out of reach of a call rel32 (+-2 GB)" if expected == found else ""

    def call_target(self, ip: int, text: bytes) -> int | None:
        """Where a call or jump with a fixed target goes."""
        target = insn.rel32_target(ip, text)
        return target if target is not None else insn.jmp8_target(ip, text)

    def emulate(self, registers: Mapping[str, int], ip: int, text: bytes) -> Effect:
        """Do the nop, call or jump `text`; raises `ValueError` for anything else."""
        target = self.call_target(ip, text)
        if target is None:
            size = insn.is_nop(text)
            if not size:
                raise ValueError(f"no call site text: {text.hex(' ')}")
            return Effect({"rip": ip + size})
        if text[0] != insn.CALL:
            return Effect({"rip": target})
        sp = registers["rsp"] - WORD
        back = (ip + insn.REL32_SIZE).to_bytes(WORD, "little")
        return Effect({"rip": target, "rsp": sp}, ((sp, back),))

    def enter_call(
        self, function: int, arguments: Sequence[int], sp: int, return_to: int
    ) -> Effect:
        """The registers and the pushed return address of a call with up to six arguments."""
        if len(arguments) > len(_ARGUMENTS):
            raise ValueError(f"a call takes at most {len(_ARGUMENTS)} arguments")
        sp = sp - sp % self.facts.abi.stack_align - WORD
        registers = {"rip": function, "rsp": sp}
        registers.update(
            (name, value % 2**64) for name, value in zip(_ARGUMENTS, arguments, strict=False)
        )
        return Effect(registers, ((sp, return_to.to_bytes(WORD, "little")),))

    def lengths(self, sites: Sites) -> NDArray[np.intp]:
        """All of it."""
        return np.full(len(sites), self.facts.sites.size, np.intp)

    def with_nop(self, name: str) -> X86Port:
        """There is one form only."""
        if name not in self.facts.nops:
            raise ValueError(f"no nop {name!r}")
        return self

    def has_delay_slot(self, text: bytes) -> bool:
        """No branch has one."""
        return False

    def trapped_at(
        self, number: int, registers: Mapping[str, int], address: int, block: bytes
    ) -> int:
        """Not asked for: the emulator tells of each trap."""
        return address

    def is_return_address(self, before: bytes) -> bool:
        """Whether `before` ends in a direct or indirect call."""
        return insn.ends_in_call(before)

    def oops(self, crash: Crash) -> tuple[str, ...]:
        """The report in the words of the x86 kernel."""
        return oops.report(crash)

    @property
    def stubs(self) -> None:
        """Modules lie within reach of the kernel."""
        return None

    def relocate(self, module: str, text: NDArray[np.uint8], relocations: Relocations) -> None:
        """Apply relocations to one section's bytes."""
        reloc.relocate(module, text, relocations)

    def relocation_name(self, kind: int) -> str:
        """Such as `R_X86_64_PC32`."""
        return reloc.name(kind)

    def entry_source(self) -> str:
        """The text of entry.S."""
        return (files(__package__) / "entry.S").read_text(encoding="utf-8")

    def images(self) -> Path:
        """The folder of built images."""
        return Path(__file__).parent / "images"


def _all(sites: Sites, target: int) -> Addresses:
    """`target` for each site."""
    return np.full(len(sites), target, np.uint64)


def _nops(n: int) -> Bytes:
    return np.tile(np.frombuffer(insn.NOP5, np.uint8), (n, 1))


def port() -> X86Port:
    """The port, as `arches.load` finds it."""
    return X86Port()
