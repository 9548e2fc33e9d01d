"""The mipsel port: 32 bits, little-endian, o32. What mips is, in the other byte order.

Its entry.S is that of mips, and so is its relocation of modules.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ....core.facts import Facts
from ..callsite import Form
from ..mips32 import port as mips32

FACTS = replace(mips32.FACTS, name="mipsel", byteorder="little", engine=mips32.engine("little"))
FORM = replace(mips32.FORM, order="little")


@dataclass(frozen=True, slots=True)
class MipselPort(mips32.Mips32Port):
    """mipsel; see `core.arch.Port` for what each verb owes."""

    facts: Facts = FACTS
    form: Form = FORM

    def entry_source(self) -> str:
        """The text of the entry.S of mips."""
        return (self.folder.parent / "mips32" / "entry.S").read_text(encoding="utf-8")

    @property
    def folder(self) -> Path:
        """Where the files of this port lie."""
        return Path(__file__).parent


def port() -> MipselPort:
    """The port, as `arches.load` finds it."""
    return MipselPort()
