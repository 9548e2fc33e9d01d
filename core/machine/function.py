"""Function pointers: what the address of a function in C leads to.

On most machines it is the address of the code. Where the ABI has a `Toc`, it is
that of a descriptor, which names the code and the TOC pointer the code expects;
the code has a symbol of its own, and whoever enters code has to bring that
pointer. So a pointer is told from the address of code by the symbol there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..arch import Effect, Function, Port
from ..elf.symbols import Symbol
from ..facts import Facts
from .memory import Memory


class Names(Protocol):
    """What is needed of kallsyms."""

    def address(self, name: str) -> int | None:
        """Where `name` is, or None."""
        ...

    def lookup(self, address: int) -> object | None:
        """The `Symbol` that covers `address`."""
        ...


def function_at(facts: Facts, memory: Memory, names: Names, pointer: int) -> Function:
    """What `pointer` leads to; code stands for itself, with the TOC pointer of its function.

    Code that no descriptor names is of the kernel: the entry code is such.
    Raises `MemoryFault` for a descriptor that is not in memory.
    """
    toc = facts.abi.toc
    if toc is None:
        return Function(pointer)
    symbol = names.lookup(pointer)
    if isinstance(symbol, Symbol):
        if not symbol.function:
            return Function(_word(facts, memory, pointer, 0), _word(facts, memory, pointer, 1))
        own = names.address(symbol.name.removeprefix(toc.prefix))
        if own is not None and own != symbol.address:
            return Function(pointer, _word(facts, memory, own, 1))
    return Function(pointer, kernel_toc(facts, memory, names))


def kernel_toc(facts: Facts, memory: Memory, names: Names) -> int:
    """The TOC pointer of the kernel, 0 where the ABI has none or no kernel is loaded.

    Read from the descriptor of what call sites call, which every kernel defines.
    """
    toc = facts.abi.toc
    if toc is None:
        return 0
    for name in facts.sites.mcount_symbols:
        own = names.address(name.removeprefix(toc.prefix))
        if own is not None:
            return _word(facts, memory, own, 1)
    return 0


def enter(
    port: Port,
    memory: Memory,
    names: Names,
    pointer: int,
    arguments: Sequence[int],
    sp: int,
    return_to: int,
) -> Effect:
    """How the function behind `pointer` begins, as `Port.enter_call` and with its TOC pointer.

    Raises `MemoryFault` for a descriptor that is not in memory.
    """
    function = function_at(port.facts, memory, names, pointer)
    effect = port.enter_call(function.code, arguments, sp, return_to)
    toc = port.facts.abi.toc
    if toc is None or function.toc is None:
        return effect
    return Effect({**effect.registers, toc.register.name: function.toc}, effect.stores)


def pointer_to(facts: Facts, names: Names, address: int) -> int | None:
    """The pointer by which C calls the function at `address`; None where it has none.

    An address that is no code is taken for a pointer already.
    """
    toc = facts.abi.toc
    if toc is None:
        return address
    symbol = names.lookup(address)
    if not isinstance(symbol, Symbol) or not symbol.function:
        return address
    if symbol.address != address or not symbol.name.startswith(toc.prefix):
        return None
    return names.address(symbol.name.removeprefix(toc.prefix))


def _word(facts: Facts, memory: Memory, descriptor: int, number: int) -> int:
    return memory.read_int(descriptor + number * facts.pointer_size, facts.pointer_size)
