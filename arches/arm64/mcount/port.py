"""The arm64-mcount port: sites that call `_mcount` (`-pg`). The verbs are in ../port.py.

The call comes after the prologue, once the frame record is made. To the compiler it is a call
like any other: the arguments are in callee-saved registers, and x0 holds x30. rec.ip is the
address of the `bl`, the only word that changes. The registers at the function's entry are lost
at this point, so the port has no ftrace_regs_caller.

switch.S and kernel.lds are those of arm64.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ....core.facts import CallSites, Facts, SitePattern
from .. import port as arm64
from .. import reloc
from ..callsite import Form
from ..insn import LR, WORD

FACTS = arm64.facts(
    "arm64-mcount",
    CallSites(
        size=WORD,
        sections=("__mcount_loc",),
        mcount_symbols=("_mcount",),
        call_relocations=frozenset({reloc.CALL26, reloc.JUMP26}),
        relocation_offset=0,
        # Registers that any call may change.
        clobbers=frozenset({*(f"x{number}" for number in range(19)), f"x{LR}", "pstate"}),
        # bl, after mov x0, x30
        patterns=(
            SitePattern.of_words(
                "little", (0xAA1E_03E0, 2**32 - 1), (0x9400_0000, 0xFC00_0000), offset=-WORD
            ),
        ),
    ),
    example_offset=0x1C,
)

FORM = Form(before=(), compiled=())


@dataclass(frozen=True, slots=True)
class McountPort(arm64.Arm64Port):
    """arm64-mcount; see `core.arch.Port` for the contract of each verb."""

    facts: Facts = FACTS
    form: Form = FORM
    folder: ClassVar[Path] = Path(__file__).parent


def port() -> McountPort:
    """The port, as `arches.load` finds it."""
    return McountPort()
