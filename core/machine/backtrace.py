"""The return addresses on a vCPU's stack, innermost first.

A word of the stack counts as a return address if it lies in a known function and the
instruction before it is a call. Like the kernel's scan without frame pointers, this may
find a call that has already returned. If the ABI keeps return addresses in a link register,
the value of that register comes first.

A function that the graph tracer follows has the address of return_to_handler on the stack.
Its real return address is on the task's ret_stack, whose last entry is the innermost call, and
is reported instead (`ftrace_graph_ret_addr`). Each entry also has a frame pointer, which says
where on the stack the word of its function can be. So a word left by an earlier call never
takes the entry of another function.

The stack may be arbitrarily broken, so nothing here assumes that any address can be read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .. import abi
from ..arch import Port
from ..errors import MemoryFault
from ..facts import Facts
from .memory import Memory
from .symbols import TRACER, Names
from .vcpu import Vcpu

RETURN_TO_HANDLER = "return_to_handler"


@dataclass(frozen=True, slots=True)
class ReturnAddress:
    """The address that a call returns to."""

    address: int
    place: int | None
    """Address of the stack word that holds it; None for the link register."""


@dataclass(frozen=True, slots=True)
class TracedReturn:
    """An entry of a task's ret_stack (`struct ftrace_ret_stack`)."""

    number: int
    """Its index; 0 is the outermost call."""
    func: int
    """The traced function."""
    ret: int
    """The address to which it really returns."""
    fp: int
    """The frame pointer, which must be the same when it returns."""


def backtrace(
    vcpu: Vcpu, memory: Memory, port: Port, symbols: Names, end: int, most: int | None = None
) -> list[ReturnAddress]:
    """Return at most `most` return addresses, from the stack pointer of `vcpu` up to `end`."""
    size = port.facts.pointer_size
    start = vcpu.registers.sp + -vcpu.registers.sp % size
    words = _words(memory, start, end)
    handled = _is_handler(words, symbols)
    rows = np.flatnonzero(handled | _after_calls(words, memory, port))
    real = graph_ret_addrs(vcpu, memory, port, symbols, end)
    found: list[ReturnAddress] = []
    for row in rows.tolist():
        if most is not None and len(found) == most:
            break
        place, address = start + row * size, int(words[row])
        if handled[row]:
            if place in real:
                found.append(ReturnAddress(real[place], place))
        elif symbols.lookup(address - 1) is not None:
            found.append(ReturnAddress(address, place))
    link = vcpu.registers.link
    known = link is not None and symbols.lookup(link) is not None
    if link is not None and known and [each.address for each in found[:1]] != [link]:
        found.insert(0, ReturnAddress(link, None))  # not yet saved by its function
    return found


def _words(memory: Memory, start: int, end: int) -> NDArray[np.uint64]:
    """Return the words from `start` to `end`, or none if `start` is not mapped."""
    region = memory.region_at(start)
    if region is None:
        return np.empty(0, np.uint64)
    size = memory.pointer_size
    count = max(min(end, region.end) - start, 0) // size
    order = "<" if memory.byteorder == "little" else ">"
    return np.frombuffer(memory.read(start, count * size), f"{order}u{size}").astype(np.uint64)


def _after_calls(words: NDArray[np.uint64], memory: Memory, port: Port) -> NDArray[np.bool_]:
    """Return a mask of the `words` that are addresses of code right after a call."""
    code = np.zeros(len(words), np.bool_)
    for region in memory.regions:
        if region.executable:
            # Words that are too low wrap around to offsets beyond the region.
            code |= words - np.uint64(region.address + 1) < np.uint64(region.size)
    before = port.facts.max_insn_size
    after = np.zeros(len(words), np.bool_)
    for row in np.flatnonzero(code).tolist():
        address = int(words[row])
        part = memory.mapped_at(address - 1)
        if part is not None:
            # A function at the start of a region may have a call in its first instructions.
            start = max(part[0], address - before)
            after[row] = port.is_return_address(memory.read(start, address - start))
    return after


def live_places(memory: Memory, facts: Facts, frame: int, end: int) -> set[int]:
    """Return the places of return addresses in the chain of frames from `frame` up to `end`.

    The set is empty if the frames of the port are not chained (`Abi.frames`).
    """
    frames, size = facts.abi.frames, facts.pointer_size
    places: set[int] = set()
    while frames is not None and frame + size <= end:
        try:
            above = memory.read_int(frame, size)
        except MemoryFault:
            break
        places.add((above if frames.of_caller else frame) + frames.link)
        if above <= frame:
            break
        frame = above
    return places


def _is_handler(words: NDArray[np.uint64], symbols: Names) -> NDArray[np.bool_]:
    """Return a mask of the `words` that are the address of return_to_handler."""
    handler = symbols.address(RETURN_TO_HANDLER, TRACER)
    none = np.zeros(len(words), np.bool_)
    return none if handler is None else words == np.uint64(handler)


def graph_ret_addrs(
    vcpu: Vcpu, memory: Memory, port: Port, symbols: Names, end: int
) -> dict[int, int]:
    """Return the real return addresses of stack words with return_to_handler, by their place.

    The word of an entry is the one beside its frame pointer, if the ABI has such a word.
    Otherwise it is the last one below the frame pointer, preferably one in the chain of
    frames. The words lie between the stack pointer of `vcpu` and `end`.
    """
    real: dict[int, int] = {}
    facts = port.facts
    sp, size = vcpu.registers.sp, facts.pointer_size
    start = sp + -sp % size
    handled = _is_handler(_words(memory, start, end), symbols)
    places = [start + row * size for row in np.flatnonzero(handled).tolist()]
    frames = facts.abi.frames
    live: set[int] = set()
    if places and frames is not None:
        frame = vcpu.registers.read()[frames.register.name]
        live = live_places(memory, facts, frame, end)
    for entry in ret_stack(vcpu, memory, port) if places else ():
        ret, fp = entry.ret, entry.fp
        if not start <= fp <= end:
            continue  # on another stack: an NMI has its own
        if frames is not None and frames.of_caller:
            chosen = [place for place in places if place == fp + frames.link]
        elif facts.abi.link is None:
            chosen = [place for place in places if place == fp - facts.pointer_size]
        else:
            below = [place for place in places if place < fp]
            chosen = [place for place in below if place in live] or below
        if chosen:
            real[chosen[-1]] = ret
            places = [place for place in places if place > chosen[-1]]
    return real


def ret_stack(vcpu: Vcpu, memory: Memory, port: Port) -> list[TracedReturn]:
    """Return the entries of the ret_stack in use on `vcpu`, innermost first."""
    layout = abi.ftrace_ret_stack(port.facts.byteorder, port.facts.pointer_size)
    address = int(vcpu.local["ret_stack"])
    if not address:
        return []
    try:
        stack = np.frombuffer(memory.read(address, layout.itemsize), layout)[0]
    except MemoryFault:
        return []
    entries = stack["stack"][: int(stack["index"])]
    return [
        TracedReturn(number, int(entry["func"]), int(entry["ret"]), int(entry["fp"]))
        for number, entry in reversed([*enumerate(entries)])
    ]
