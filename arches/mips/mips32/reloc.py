"""o32 relocations of modules: number, formula, field; for both byte orders.

Addresses have 32 bits and wrap around, so two halves make every address: `lui` with one, and
`addiu` or a load with the other. Only a jump or a branch can be too far from its target.

Source: System V ABI, MIPS Processor Supplement, chapter 4, "Relocation".
"""

from __future__ import annotations

from dataclasses import replace

from ....core.elf.relocate import anything
from ..reloc import HI16, TYPES, abi

_TYPES = {**TYPES, HI16: replace(TYPES[HI16], fits=anything)}

ABI = {order: abi(_TYPES, 32, order) for order in ("big", "little")}
"""The relocation types of the ABI, by byte order."""
