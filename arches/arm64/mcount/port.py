"""The arm64-mcount port: sites that call `_mcount` (`-pg`). The verbs are in ../port.py.

The call is behind the prologue, once the frame record is made, and like any other
to the compiler: arguments are in registers that a callee saves, and x0 is given
x30. rec.ip is the `bl`, the only word that changes. Registers as they were on
entry cannot be had here, so there is no ftrace_regs_caller.

switch.S and kernel.lds are those of arm64.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ....core.facts import CallSites, Facts
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
        # What any call may change.
        clobbers=frozenset({*(f"x{number}" for number in range(19)), f"x{LR}", "pstate"}),
    ),
    example_offset=0x1C,
)

FORM = Form(before=(), compiled=())


@dataclass(frozen=True, slots=True)
class McountPort(arm64.Arm64Port):
    """arm64-mcount; see `core.arch.Port` for what each verb owes."""

    facts: Facts = FACTS
    form: Form = FORM
    folder: ClassVar[Path] = Path(__file__).parent


def port() -> McountPort:
    """The port, as `arches.load` finds it."""
    return McountPort()
