"""Which of the return addresses on a stack are those of the calls that led here.

A scan finds more: where functions have left room unused, the stack still holds what
earlier calls had there. A return address counts when the call in front of it is one of
the function that was found last, or of whatever a register held. Where the machine
has delivered an interrupt, the way goes on with the function that was interrupted,
whose registers it has left on the stack.

A function that ended in a jump to another is not on the stack: the way then leads on
with the next function that a register has called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..arch import Port
from ..elf.symbols import Symbol
from ..errors import MemoryFault
from .backtrace import ReturnAddress, Symbols
from .memory import Memory


@dataclass(frozen=True, slots=True)
class _Call:
    """A return address, with the function it lies in and the one that is called."""

    found: ReturnAddress
    function: Symbol
    callee: int | None
    """None where a register says, or a stub."""


class CallChain:
    """Follows calls outwards."""

    def __init__(self, memory: Memory, port: Port, symbols: Symbols) -> None:
        self._memory = memory
        self._port = port
        self._symbols = symbols

    def follow(self, found: Sequence[ReturnAddress], first: int) -> list[ReturnAddress]:
        """`found[first]` and its callers, of return addresses in the order of their places."""
        chain = [found[first]]
        inner = self._function(found[first].address - 1)
        for each in found[first + 1 :]:
            function = self._function(each.address - 1)
            if inner is None or function is None:
                continue
            callee = self._callee(each.address)
            if callee is None or callee == inner.address:
                chain.append(each)
                inner = function
        return chain

    def _function(self, address: int) -> Symbol | None:
        symbol = self._symbols.lookup(address)
        return symbol if isinstance(symbol, Symbol) else None

    def _callee(self, address: int) -> int | None:
        """The function that the call in front of `address` calls; None where a register says."""
        port = self._port
        step, most = port.facts.insn_align, port.facts.max_insn_size
        try:
            before = self._memory.read(address - most, most)
        except MemoryFault:
            return None
        for size in range(step, most + 1, step):
            if port.is_return_address(before[-size:]):
                return port.call_target(address - size, before[-size:])
        return None
