"""The verbs of the x86 ports, and the constants of the emulator and the tools.

With either word size, a call site is one `call rel32` or one nop of the same size (insn.py), a
call pushes its return address, and `int3` is the breakpoint. Arguments without a register are
on the stack, above the return address. A port adds its facts and its relocations.

Sources: as in insn.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from capstone import CS_ARCH_X86
from unicorn import x86_const
from unicorn.unicorn_const import UC_ARCH_X86, UC_MODE_64

from ...core.arch import Calls, Edit, Effect, Sites
from ...core.crash import Crash
from ...core.encoding import Encoding
from ...core.facts import Breakpoint, Counter, Engine, Register, SitePattern
from ...core.port.base_port import BasePort
from . import callsite, encoding, insn, oops

BREAKPOINT = Breakpoint(insn=insn.INT3, interrupt=3, reported_at=1)
MAX_INSN_SIZE = 15
PROBE_NAMES = ("ax", "bx", "cx", "dx", "si", "di", "bp", "ip", "sp", "flags")
"""Registers as kprobes name them: without the letter of their width."""

SELF_JUMP = bytes((insn.JMP8, 0xFE))

PATTERNS = (SitePattern(b"\xe8", b"\xff"),)
"""A call."""

FLAGS = 0x8D5
"""Bits of the flags that arithmetic changes: CF, PF, AF, ZF, SF and OF."""


MXCSR, FPCW = 0x1F80, 0x37F
"""Values of these registers in C code: all exceptions masked, rounding to nearest."""

INTERRUPTS_ON = 0x202
"""The flags while interrupts are on and nothing was computed."""


def register(name: str) -> Register:
    """Return a register by its name in the manual."""
    number: int = getattr(x86_const, f"UC_X86_REG_{name.upper()}")
    return Register(name, number)


def _random() -> dict[bytes, Counter]:
    """Return RDRAND and RDSEED by their bytes, for all registers of 32 and 64 bits."""
    low = ("ax", "cx", "dx", "bx", "sp", "bp", "si", "di")
    forms: list[tuple[bytes, Sequence[str], int]] = [
        (b"", [f"e{name}" for name in low], 32),
        (b"\x41", [f"r{number}d" for number in range(8, 16)], 32),
        (b"\x48", [f"r{name}" for name in low], 64),
        (b"\x49", [f"r{number}" for number in range(8, 16)], 64),
    ]
    return {
        prefix + bytes((0x0F, 0xC7, first + row)): Counter(
            (register(name).number,), bits=bits, random=True
        )
        for prefix, names, bits in forms
        for first in (0xF0, 0xF8)
        for row, name in enumerate(names)
    }


_TSC = Counter((x86_const.UC_X86_REG_EAX, x86_const.UC_X86_REG_EDX), bits=32)

COUNTERS = {b"\x0f\x31": _TSC, b"\x0f\x01\xf9": _TSC, **_random()}
"""RDTSC, RDTSCP, RDRAND and RDSEED."""

HARDWARE = (
    r"(?:rep )?(?:in|out|ins[bdw]|outs[bdw]) |rdmsr|wrmsr|rdpmc|xsetbv|hlt|mwait|monitor"
    r"|mov [cd]r\d|l[gil]dt |ltr |lmsw |invlpg |invpcid |wbinvd|invd$"
    r"|vm(?:call|mcall|launch|resume|read|write|xon|xoff|ptrld|ptrst|clear|run|load|save)\b"
)
"""Instructions for I/O ports, MSRs, event counters and control registers, and those that only a
hypervisor runs. cli and sti may run: without a boot, no interrupt arrives."""


def engine(uc_mode: int, cs_mode: int, ks_mode: str) -> Engine:
    """Return the emulator, disassembler and assembler for the word size of the modes."""
    return Engine(
        uc_arch=UC_ARCH_X86,
        uc_mode=uc_mode,
        cs_arch=CS_ARCH_X86,
        cs_mode=cs_mode,
        ks_arch="KS_ARCH_X86",
        ks_mode=(ks_mode,),
        cs_parts=_parts("r" if uc_mode == UC_MODE_64 else "e"),
        cs_hardware=HARDWARE,
        counters=COUNTERS,
    )


def _parts(prefix: str) -> dict[str, str]:
    """Return the whole registers by the names of their parts; `prefix` is that of `rax` or `eax`.

    Names that are not registers of the machine are never looked up.
    """
    parts: dict[str, str] = {}
    for letter in "abcd":
        names = (f"e{letter}x", f"{letter}x", f"{letter}l", f"{letter}h")
        parts |= dict.fromkeys(names, f"{prefix}{letter}x")
    for name in ("si", "di", "bp", "sp"):
        parts |= dict.fromkeys((f"e{name}", name, f"{name}l"), f"{prefix}{name}")
    parts |= {f"r{n}{size}": f"r{n}" for n in range(8, 16) for size in "dwb"}
    return parts


@dataclass(frozen=True, slots=True)
class X86Port(BasePort):
    """The verbs of an x86 port; see `core.arch.Port` for the contract of each."""

    @property
    def bits(self) -> int:
        """Width of an address, in bits."""
        return 8 * self.facts.pointer_size

    def enter_call(
        self, function: int, arguments: Sequence[int], sp: int, return_to: int
    ) -> Effect:
        """Return the registers of a call, and its stack: the return address, then arguments."""
        abi, word = self.facts.abi, self.facts.pointer_size
        if len(arguments) > abi.most_arguments:
            raise ValueError(f"a call takes at most {abi.most_arguments} arguments")
        values = [value % (1 << self.bits) for value in arguments]
        pushed = values[len(abi.arguments) :]
        top = sp - word * len(pushed)
        top -= top % abi.stack_align + word
        registers = {abi.pc.name: function, abi.sp.name: top}
        for register, value in zip(abi.arguments, values, strict=False):
            registers[register.name] = value
        stack = b"".join(value.to_bytes(word, "little") for value in (return_to, *pushed))
        return Effect(registers, ((top, stack),))

    def is_return_address(self, before: bytes) -> bool:
        """Return whether `before` ends in a direct or indirect call."""
        return insn.ends_in_call(before)

    def oops(self, crash: Crash) -> tuple[str, ...]:
        """Return the report of a fault."""
        return oops.report(crash, self.facts)

    def encoding(self, ip: int, text: bytes) -> Encoding | None:
        """Return the bit fields of the instruction at `ip`; None for an unknown one."""
        return encoding.encoding(ip, text, self.bits)

    def calls(self, sites: Sites, target: int) -> Calls:
        """Encode a call of `target` at each site, and the nop that disables it."""
        return callsite.calls(self.bits, sites, target)

    def init_nop(self, sites: Sites, mcount: int) -> Edit:
        """Return the edit from `call mcount`, or the nop of `-mnop-mcount`, to the nop."""
        return callsite.init_nop(sites, self.calls(sites, mcount))

    def enable_graph_caller(self, slot: int, caller: int) -> Edit:
        """Return the edit from the nop to `jmp caller` at the slot (`ftrace_mod_jmp`)."""
        site = Sites(np.array([slot], np.uint64))
        return callsite.jumps(self.bits, site, caller).make_call(site)

    def call_target(self, ip: int, text: bytes) -> int | None:
        """Return the target of a direct call or jump; None for other instructions."""
        return callsite.call_target(self.bits, ip, text)

    def emulate(self, registers: Mapping[str, int], ip: int, text: bytes) -> Effect:
        """Return the effect of the nop, call or jump `text`. Raises `ValueError` for other text."""
        target = self.call_target(ip, text)
        return callsite.emulate(self.bits, self.facts.abi, registers, ip, text, target)

    def explain(self, ip: int, expected: bytes, found: bytes) -> str:
        """Return why a site is refused."""
        return callsite.explain(expected, found)
