"""Defaults for the optional verbs of the contract in `arch.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..arch import (
    Addresses,
    Calls,
    Edit,
    Effect,
    KernelText,
    Probes,
    Relocations,
    Sites,
    Stubs,
    Trampolines,
)
from ..elf.relocate import RelocationAbi
from ..encoding import Encoding
from ..facts import AddressMap, Facts, Register
from .entry_source import read_entry_source


@dataclass(frozen=True, slots=True)
class BasePort:
    """The optional verbs of `Port`, with the defaults that suit most architectures.

    A port inherits from this class, sets `folder` and writes the required verbs. It overrides
    a verb of this class only if it differs.
    """

    facts: Facts

    folder: ClassVar[Path]
    """The folder with entry.S and images/ of this port: `Path(__file__).parent`."""
    relocation_abi: ClassVar[RelocationAbi | None] = None
    """The table of relocation types; None if the port writes `relocate` by itself."""

    def images(self) -> Path:
        """Return the folder of built images."""
        return self.folder / "images"

    def enter_call(
        self, function: int, arguments: Sequence[int], sp: int, return_to: int
    ) -> Effect:
        """Return the registers of a call, for an ABI that passes all arguments in registers.

        Such an ABI has a link register too; other ports override this verb.
        """
        abi = self.facts.abi
        if abi.link is None:
            raise NotImplementedError("a call that stores on the stack")
        if len(arguments) > len(abi.arguments):
            raise ValueError(f"a call takes at most {len(abi.arguments)} arguments")
        frame = sp - abi.call_frame
        frame -= frame % abi.stack_align
        values = {abi.pc.name: function, abi.sp.name: frame, abi.link.name: return_to}
        for register, value in zip(abi.arguments, arguments, strict=False):
            values[register.name] = value % (1 << 8 * self.facts.pointer_size)
        return Effect(values)

    def enter_variadic(
        self, code: bytes, function: int, arguments: Sequence[int], sp: int, return_to: int
    ) -> Effect | None:
        """Return None: all functions take their arguments in the same way."""
        return None

    def unbooted(self, kernel: KernelText) -> Mapping[Register, int]:
        """Return no registers: the kernel's functions need no register that the boot sets."""
        return {}

    def has_delay_slot(self, text: bytes) -> bool:
        """Return False: no branch has a delay slot."""
        return False

    def trapped_at(
        self, number: int, registers: Mapping[str, int], address: int, block: bytes
    ) -> int:
        """Return `address`: the emulator keeps pc at every trap, so core does not ask."""
        return address

    def encoding(self, ip: int, text: bytes) -> Encoding | None:
        """Return None: the port draws no instructions."""
        return None

    def call_adjust(self, addresses: Addresses) -> Addresses:
        """Return `addresses`: the table already names the start of each site."""
        return addresses

    def entry_source(self) -> str:
        """Return the text of entry.S in the port's folder, with the files it includes."""
        path = self.folder / "entry.S"
        if not path.is_file():
            raise NotImplementedError(f"{path} does not exist")
        return read_entry_source(path)

    def calls(self, sites: Sites, target: int) -> Calls:
        """Encode a call of `target` at each site, and the text that disables it.

        This is not a verb of `Port`: three verbs follow from it.
        """
        raise NotImplementedError("neither calls, nor make_nop, make_call and modify_call")

    def make_nop(self, sites: Sites, target: int) -> Edit:
        """Return the edit from the `calls` of `target` to the text that disables them."""
        return self.calls(sites, target).make_nop(sites)

    def make_call(self, sites: Sites, target: int) -> Edit:
        """Return the edit from the disabled text to the `calls` of `target`."""
        return self.calls(sites, target).make_call(sites)

    def modify_call(self, sites: Sites, old: int, new: int) -> Edit:
        """Return the edit from the `calls` of `old` to those of `new`."""
        return self.calls(sites, old).modify_call(sites, self.calls(sites, new))

    def update_ftrace_func(self, slot: int, old: int, new: int) -> Edit:
        """Return the edit from a call of `old` to one of `new`, as at a site."""
        return self.modify_call(Sites(np.array([slot], np.uint64)), old, new)

    def dyn_arch_init(self, mcount: int, caller: int) -> Edit | None:
        """Return None: sites reach ftrace_caller without going through mcount."""
        return None

    def lengths(self, sites: Sites) -> NDArray[np.intp]:
        """Return the full size for each site: all sites have one form."""
        return np.full(len(sites), self.facts.sites.size, np.intp)

    def with_nop(self, name: str) -> Self:
        """Return this port: it has one way to disable sites. Raises `ValueError` for others."""
        self.check_nop(name)
        return self

    def with_map(self, area: AddressMap, far: tuple[int, int] | None) -> Self:
        """Return this port with another address map, and `far` as its far area of modules."""
        return replace(self, facts=replace(self.facts, map=area, modules_far=far))

    def check_nop(self, name: str) -> None:
        """Raise `ValueError` if `name` is not one of `Facts.nops`."""
        if name not in self.facts.nops:
            known = ", ".join(self.facts.nops)
            raise ValueError(f"unknown nop {name!r} (choose from: {known})")

    def explain(self, ip: int, expected: bytes, found: bytes) -> str:
        """Return no explanation: the bytes alone are enough."""
        return ""

    @property
    def stubs(self) -> Stubs | None:
        """None: every call of a module reaches its target."""
        return None

    def redirect_stub(self, code: bytes, target: int) -> bytes | None:
        """Return None: a stub that is linked into a module never changes."""
        return None

    @property
    def trampolines(self) -> Trampolines | None:
        """None: all users share ftrace_caller."""
        return None

    @property
    def probes(self) -> Probes | None:
        """None: kprobes are at call sites only."""
        return None

    def relocate(self, module: str, text: NDArray[np.uint8], relocations: Relocations) -> None:
        """Apply relocations according to `relocation_abi`."""
        if self.relocation_abi is None:
            raise NotImplementedError("no relocation_abi")
        self.relocation_abi.relocate(module, text, relocations)

    def relocation_name(self, kind: int) -> str:
        """Return the name that `relocation_abi` has for a relocation type."""
        if self.relocation_abi is None:
            raise NotImplementedError("no relocation_abi")
        return self.relocation_abi.name(kind)
