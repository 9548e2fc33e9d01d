"""x86-64 as it was in 2008: like x86_64, but with call sites after the prologue.

With plain `-pg` a function first makes its frame and then calls mcount. No table lists the
calls: ftraced finds them when they are executed. There are two ways to disable a site: that of
the first patch (`jmp`) and that of the second (`nop`).

    Compiled    e8 rel32          call mcount
    jmp         eb 03 .. .. ..    jmp over the rest
    nop         0f 1f 44 00 00    nopl 0(%rax,%rax,1)
    Enabled     e8 rel32          call ftrace_caller

The jmp takes two bytes. The three bytes after it are never executed; they are always those of
the compiler's call, so that a site has a single disabled text. Enabling writes all five bytes.

Source: the kernel's commits 3d0833953e, dfa60aba04 and d61f82d066; instructions as
in ../insn.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from ....core.arch import Calls, Effect, Sites
from ....core.facts import ExampleSite, Facts, Frames
from .. import insn
from .. import port as x86
from ..x86_64 import port as x86_64

JMP_OVER = bytes((insn.JMP8, insn.REL32_SIZE - insn.JMP8_SIZE))
"""`jmp` over the rest of a call site."""

FACTS = replace(
    x86_64.FACTS,
    name="x86_64-2008",
    abi=replace(
        x86_64.FACTS.abi, frames=Frames(x86.register("rbp"), link=8, words={0: "caller's rbp"})
    ),
    sites=replace(x86_64.FACTS.sites, sections=(), mcount_symbols=("mcount",)),
    nops=("nop", "jmp"),
    discovery=("ftraced", "ftraced-batch"),
    example=ExampleSite(offset=4),
)


@dataclass(frozen=True, slots=True)
class X8664In2008Port(x86_64.X8664Port):
    """x86-64 as of 2008; see `core.arch.Port` for the contract of each verb."""

    facts: Facts = FACTS
    nop: str = FACTS.nops[0]
    folder: ClassVar[Path] = Path(__file__).parent

    def with_nop(self, name: str) -> Self:
        """Return this port with `nop`, or with `jmp` as in the first patch."""
        self.check_nop(name)
        return replace(self, nop=name)

    def call_target(self, ip: int, text: bytes) -> int | None:
        """Return the target of a direct call or jump; None for the jmp of a disabled site."""
        if text.startswith(JMP_OVER):
            return None
        return x86_64.X8664Port.call_target(self, ip, text)

    def emulate(self, registers: Mapping[str, int], ip: int, text: bytes) -> Effect:
        """Return the effect of the nop, call or jump `text`. Raises `ValueError` for other text."""
        if text.startswith(JMP_OVER):
            return Effect({self.facts.abi.pc.name: ip + insn.REL32_SIZE})
        return x86_64.X8664Port.emulate(self, registers, ip, text)

    @property
    def trampolines(self) -> None:
        """None: trampolines came in 2014."""
        return None

    def calls(self, sites: Sites, target: int) -> Calls:
        """Encode a call of `target`, and the nop, or the jmp with the bytes it jumps over."""
        made = x86_64.X8664Port.calls(self, sites, target)
        if self.nop != "jmp":
            return made
        text = np.zeros((len(sites), insn.REL32_SIZE), np.uint8)
        if sites.compiled.size:
            text[:] = sites.compiled
        text[:, : len(JMP_OVER)] = np.frombuffer(JMP_OVER, np.uint8)
        return replace(made, nops=text)


def port() -> X8664In2008Port:
    """The port, as `arches.load` finds it."""
    return X8664In2008Port()
