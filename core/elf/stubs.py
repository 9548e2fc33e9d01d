"""The stubs of a module: one within reach for each far callee, made while linking.

A branch may not reach the kernel, or the callee may need a pointer to its own data. The call then
goes to a stub that sets the pointer or branches on, and all calls of one function share a stub. The
port decides when a stub is needed, and makes its code. This module allocates and keeps them.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ..arch import Function, ModuleStub, Relocations, Stubs
from ..errors import ModuleError


class StubTable:
    """The stubs of module `name`, one after the other from `address` on."""

    def __init__(
        self,
        stubs: Stubs,
        name: str,
        address: int,
        size: int,
        toc: int,
        function_at: Callable[[int], Function],
    ) -> None:
        """Use `size` free bytes at `address`; `function_at` returns a pointer's function."""
        self._stubs = stubs
        self._name = name
        self._address = address
        self._room = size // stubs.facts.size
        self._toc = toc
        self._function_at = function_at
        self._made: dict[int, ModuleStub] = {}

    @property
    def made(self) -> tuple[ModuleStub, ...]:
        """The stubs made so far, by address."""
        return tuple(self._made.values())

    def stub_for(self, pointer: int, symbol: str) -> int:
        """Return the address of the stub of the function at `pointer`; make it if necessary.

        Raises `ModuleError` (ENOEXEC) if it cannot be made.
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
                self._name,
                errno.ENOEXEC,
                f"module {self._name}: cannot make a stub of {symbol}: {error}",
            ) from error
        made = ModuleStub(address, code, target.code, symbol, self._toc)
        self._made[target.code] = made
        return address

    def redirect(self, relocations: Relocations, symbols: Sequence[str]) -> Relocations:
        """Return `relocations` with the calls that need a stub redirected to it.

        `symbols` has the symbol name of each. Raises `ModuleError`.
        """
        needed = self._stubs.needed(relocations)
        if not needed.any():
            return relocations
        values = relocations.symbol.copy()
        for row in np.flatnonzero(needed).tolist():
            values[row] = self.stub_for(int(values[row]), symbols[row])
        return replace(relocations, symbol=values, stub=needed)
