"""The mipsel port: 32 bits, little-endian, o32. Like mips, in the other byte order.

It shares the entry.S and the relocations of mips.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from ....core.elf.relocate import RelocationAbi
from ....core.facts import Facts
from .. import insn
from .. import port as mips
from ..callsite import Form
from ..mips32 import port as mips32
from ..mips32 import reloc

FACTS = replace(
    mips32.FACTS,
    name="mipsel",
    byteorder="little",
    sites=replace(mips.SITES, patterns=mips.patterns("little")),
    engine=mips32.engine("little"),
    self_jump=insn.pack("little", insn.b(0)),
)
FORM = replace(mips32.FORM, order="little")


@dataclass(frozen=True, slots=True)
class MipselPort(mips32.Mips32Port):
    """mipsel; see `core.arch.Port` for the contract of each verb."""

    facts: Facts = FACTS
    form: Form = FORM
    folder: ClassVar[Path] = Path(__file__).parent
    relocation_abi: ClassVar[RelocationAbi] = reloc.ABI["little"]

    def entry_source(self) -> str:
        """Return the text of the entry.S of mips."""
        return mips32.Mips32Port(self.facts).entry_source()


def port() -> MipselPort:
    """The port, as `arches.load` finds it."""
    return MipselPort()
