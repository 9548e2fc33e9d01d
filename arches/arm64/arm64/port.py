"""The arm64 port: sites of two nops (`CONFIG_DYNAMIC_FTRACE_WITH_REGS`). Verbs are in ../port.py.

`-fpatchable-function-entry=2` begins each function with two nops and lists their addresses in
the section `__patchable_function_entries`. Nothing calls `_mcount`: ftrace needs only its
address. The first nop becomes `mov x9, x30` for good (`ftrace_init_nop`). The second becomes the
branch: its address is rec.ip, one word after the address in the list (`ftrace_call_adjust`). The
function has done nothing yet at this point, so ftrace_caller finds all arguments in registers,
and ftrace_regs_caller can save them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ....core.facts import CallSites, Facts, SitePattern
from .. import port as arm64
from .. import reloc
from ..callsite import Form
from ..insn import BTI_C, NOP, SAVE_LR, WORD, pack

FACTS = arm64.facts(
    "arm64",
    CallSites(
        size=WORD,
        sections=("__patchable_function_entries",),
        mcount_symbols=("_mcount",),
        call_relocations=frozenset({reloc.CALL26, reloc.JUMP26}),
        relocation_offset=0,
        # No function depends on the values of these at its entry.
        clobbers=frozenset({*(f"x{number}" for number in range(9, 18)), "pstate"}),
        source_offset=WORD,
        landing_pad=pack(BTI_C),
        patterns=(SitePattern(pack(NOP) * 2, b"\xff" * 2 * WORD),),
    ),
    example_offset=WORD,
)

FORM = Form(before=(SAVE_LR,), compiled=(NOP, NOP))


@dataclass(frozen=True, slots=True)
class RegsPort(arm64.Arm64Port):
    """arm64; see `core.arch.Port` for the contract of each verb."""

    facts: Facts = FACTS
    form: Form = FORM
    folder: ClassVar[Path] = Path(__file__).parent


def port() -> RegsPort:
    """The port, as `arches.load` finds it."""
    return RegsPort()
