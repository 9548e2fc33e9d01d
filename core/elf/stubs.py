"""A module's stubs: for each far callee a stub within reach, made while it is linked.

A branch may be too short for the kernel, or the callee may need a pointer to
data of its own. The call then goes to a stub that does the rest; all calls of
one function share one. The port knows when a stub is needed and what it is
made of; here they are numbered, placed and remembered.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ..arch import Function, ModuleStub, Relocations, Stubs
from ..errors import ModuleError


class StubTable:
    """The stubs of module `name`, one behind the other from `address` on."""

    def __init__(
        self,
        stubs: Stubs,
        name: str,
        address: int,
        size: int,
        toc: int,
        function_at: Callable[[int], Function],
    ) -> None:
        """`size` bytes are free at `address`; `function_at` says what a pointer leads to."""
        self._stubs = stubs
        self._name = name
        self._address = address
        self._room = size // stubs.facts.size
        self._toc = toc
        self._function_at = function_at
        self._made: dict[int, ModuleStub] = {}

    @property
    def made(self) -> tuple[ModuleStub, ...]:
        """The stubs there are, in order of address."""
        return tuple(self._made.values())

    def stub_for(self, pointer: int, symbol: str) -> int:
        """The address of the stub of the function at `pointer`, made if there is none yet.

        Raises `ModuleError` (ENOEXEC) where it cannot be made.
        """
        target = self._function_at(pointer)
        known = self._made.get(target.code)
        if known is not None:
            return known.address
        if len(self._made) == self._room:
            raise ModuleError(self._name, errno.ENOEXEC, f"{self._name}: no room for more stubs")
        address = self._address + len(self._made) * self._stubs.facts.size
        try:
            code = self._stubs.make(address, target, self._toc)
        except ValueError as error:
            raise ModuleError(
                self._name, errno.ENOEXEC, f"module {self._name}: no stub of {symbol}: {error}"
            ) from error
        made = ModuleStub(address, code, target.code, symbol, self._toc)
        self._made[target.code] = made
        return address

    def redirect(self, relocations: Relocations, symbols: Sequence[str]) -> Relocations:
        """The same relocations with the calls that need a stub led to it.

        `symbols` names the symbol of each. Raises `ModuleError`.
        """
        needed = self._stubs.needed(relocations)
        if not needed.any():
            return relocations
        values = relocations.symbol.copy()
        for row in np.flatnonzero(needed).tolist():
            values[row] = self.stub_for(int(values[row]), symbols[row])
        return replace(relocations, symbol=values, stub=needed)
