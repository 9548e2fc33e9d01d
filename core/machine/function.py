"""Function pointers: the code that the address of a function in C leads to.

On most machines it is the address of the code. If the ABI has a `Toc`, it is the address of a
descriptor, which holds the address of the code and the TOC pointer that the code expects. The
code has a symbol of its own, and its caller sets that pointer. So the symbol at an address
shows whether it is a descriptor or code.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..arch import Effect, Function, Port
from ..facts import Facts
from .memory import Memory
from .symbols import Names

MOST_CODE = 1024
"""Limit for the code that a port looks at before a call, in bytes."""


def function_at(facts: Facts, memory: Memory, names: Names, pointer: int) -> Function:
    """Return the code and the TOC pointer that `pointer` leads to.

    The address of code leads to itself, with the TOC pointer of its function. Code without a
    descriptor, such as the entry code, uses the kernel's TOC pointer. Raises `MemoryFault` for a
    descriptor that is not mapped.
    """
    toc = facts.abi.toc
    if toc is None:
        return Function(pointer)
    symbol = names.lookup(pointer)
    if symbol is not None:
        if not symbol.function:
            return Function(_word(facts, memory, pointer, 0), _word(facts, memory, pointer, 1))
        own = names.address(symbol.name.removeprefix(toc.prefix))
        if own is not None and own != symbol.address:
            return Function(pointer, _word(facts, memory, own, 1))
    return Function(pointer, kernel_toc(facts, memory, names))


def kernel_toc(facts: Facts, memory: Memory, names: Names) -> int:
    """Return the TOC pointer of the kernel, or 0 without a `Toc` or a kernel.

    It is read from the descriptor of mcount, which every kernel defines.
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
    """Return how a call of `pointer` begins: that of `Port.enter_call`, plus the TOC pointer.

    Raises `MemoryFault` for a descriptor that is not mapped.
    """
    function = function_at(port.facts, memory, names, pointer)
    code = memory.read_mapped(function.code, MOST_CODE)
    effect = port.enter_variadic(code, function.code, arguments, sp, return_to)
    if effect is None:
        effect = port.enter_call(function.code, arguments, sp, return_to)
    toc = port.facts.abi.toc
    if toc is None or function.toc is None:
        return effect
    return Effect({**effect.registers, toc.register.name: function.toc}, effect.stores)


def pointer_to(facts: Facts, names: Names, address: int) -> int | None:
    """Return the pointer by which C calls the function at `address`, or None without one.

    An address that is not code is returned unchanged: it is a pointer already.
    """
    toc = facts.abi.toc
    if toc is None:
        return address
    symbol = names.lookup(address)
    if symbol is None or not symbol.function:
        return address
    if symbol.address != address or not symbol.name.startswith(toc.prefix):
        return None
    return names.address(symbol.name.removeprefix(toc.prefix))


def _word(facts: Facts, memory: Memory, descriptor: int, number: int) -> int:
    return memory.read_int(descriptor + number * facts.pointer_size, facts.pointer_size)
