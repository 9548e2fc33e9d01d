"""The return addresses on a stack that belong to active calls.

A scan of the stack finds more: unused room in a frame still holds return addresses of
earlier calls. If the ABI chains frames (`Abi.frames`), the active calls are those in the
chain. Otherwise they are followed from function to function: the next caller is the first
return address whose call calls the function found last. If no call does, it is the first whose call
goes through a register; a call in entry.S reaches only functions of the tracer. A function that
ended in a jump to another function is not on the stack, so the callers up to the next match are
missed.

If the machine has delivered an interrupt, the chain continues with the registers saved on
the stack, that is with the interrupted function at its interrupted instruction. An NMI has a stack
of its own: `interrupted` begins the chain on the interrupted stack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..elf.symbols import Symbol
from ..machine.backtrace import ReturnAddress, live_places
from ..machine.function import function_at
from ..machine.machine import Machine

HANDLER = "common_interrupt"
"""The function that handles interrupts."""


@dataclass(frozen=True, slots=True)
class _Saved:
    """The registers that an interrupt has saved, and their addresses on the stack."""

    values: Mapping[str, int]
    places: Mapping[str, int]


class CallChain:
    """Follows the calls on one stack, from the innermost outwards."""

    def __init__(
        self,
        machine: Machine,
        found: Sequence[ReturnAddress],
        sites: Sequence[bool],
        is_caller: Callable[[int], bool],
        tracer: range,
        end: int,
        targets: dict[tuple[int, bytes], int | None],
    ) -> None:
        """`found` are the return addresses on the stack, by ascending place, up to `end`.

        `sites` says which of them belong to call sites. `is_caller` says whether an address
        is in code that sites call: ftrace_caller or a trampoline. `tracer` are the addresses
        of entry.S and the tracer's C code. `targets` keeps the targets of calls, by return
        address and the bytes before it: stacks have the same few calls.
        """
        self._targets = targets
        self._memory = machine.memory
        self._symbols = machine.symbols
        self._port = machine.port
        self._abi = machine.port.facts.abi
        self._width = machine.port.facts.pointer_size
        self._found = found
        self._sites = sites
        self._is_caller = is_caller
        self._tracer = tracer
        self._end = end
        self._callees = [self._callee(each.address) for each in found]
        handler = self._symbols.address(HANDLER)
        self._handler: int | None = None
        if handler is not None:
            facts = machine.port.facts
            self._handler = function_at(facts, machine.memory, self._symbols, handler).code

    def live(self, registers: Mapping[str, int]) -> set[int] | None:
        """Return the places of return addresses in the chain of frames; None without a chain."""
        frames = self._abi.frames
        if frames is None:
            return None
        frame = registers[frames.register.name]
        return live_places(self._memory, self._port.facts, frame, self._end)

    def site(self, pc: int, wanted: Sequence[bool] | None, live: set[int] | None) -> int | None:
        """Return the index of the site (one of `wanted` if given) whose call led to `pc`."""
        return self._site(self._entered(pc, live), wanted or self._sites, live)

    def _entered(self, pc: int, live: set[int] | None) -> int:
        """Return the index of the caller's call that led to `pc` in the tracer, or -1.

        A frame of the tracer's C code may still hold words of earlier calls of the caller. So the
        calls are followed from `pc`. If the chain ends early, the first candidate is returned.
        """
        inner, at = self._function(pc), -1
        while inner is not None and inner.address in self._tracer:
            number = self._caller(inner, at + 1, live)
            if number is None:
                break
            at, address = number, self._found[number].address - 1
            if self._is_caller(address):
                return at
            inner = self._function(address)
        inside = (n for n, each in enumerate(self._found) if self._is_caller(each.address - 1))
        return next(inside, -1)

    def _site(self, at: int, wanted: Sequence[bool], live: set[int] | None) -> int | None:
        """Return the index of the site that called the caller with return address `at`.

        The site's place is above the frame that the caller leaves to its callees. A site
        whose function's return address is next to its own is preferred.
        """
        least = self._found[at].place if at >= 0 else None
        if least is not None:
            least += self._width + self._abi.call_frame
        numbers = [
            n
            for n in range(at + 1, len(self._found))
            if wanted[n] and (self._found[n].place or 0) >= (least or 0)
        ]
        if live is not None:
            better = [n for n in numbers if self._found[n].place in live]
        else:
            better = [n for n in numbers if self._beside(n) is not None]
        return next(iter(better or numbers), None)

    def returning_to(self, address: int, live: set[int] | None) -> int | None:
        """Return the index of the active call that returns to `address`, or None.

        The callee may have stored `address` in its frame too, as an argument. So the place
        wanted is above a return address in the function that is called.
        """
        numbers = [n for n, each in enumerate(self._found) if each.address == address]
        if live is not None:
            numbers = [n for n in numbers if self._found[n].place in live] or numbers
        callee = self._callee(address)
        inside = (self._function(each.address - 1) for each in self._found)
        callees = (n for n, each in enumerate(inside) if each and each.address == callee)
        inner = next(callees, -1)
        return next((n for n in numbers if n > inner), next(iter(numbers), None))

    def follow(self, first: int, live: set[int] | None) -> list[ReturnAddress]:
        """Return the address with index `first` and its callers, at places in `live` if given."""
        found = self._found[first]
        return self._follow([found], self._function(found.address - 1), first, live)

    def interrupted(
        self, values: Mapping[str, int], places: Mapping[str, int]
    ) -> list[ReturnAddress]:
        """Return the interrupted instruction and its callers.

        `values` are the interrupted registers, `places` the addresses where they are saved.
        """
        pc, live = self._abi.pc.name, self.live(values)
        chain = [ReturnAddress(values[pc], places[pc])]
        inner, at = self._function(values[pc]), -1
        caller = None if inner is None else self._unsaved(inner, _Saved(values, places), at, live)
        if caller is not None:
            chain.append(caller)
            at += bool(self._found) and self._found[0] is caller
            inner = self._function(caller.address - 1)
        return self._follow(chain, inner, at, live)

    def _follow(
        self, chain: list[ReturnAddress], inner: Symbol | None, at: int, live: set[int] | None
    ) -> list[ReturnAddress]:
        """Add the callers of `inner` to `chain`; the last one found has index `at`, or -1."""
        while inner is not None:
            last = at >= 0 and chain[-1] is self._found[at]
            parent = self._parent(inner, at, live) if last else None
            if parent is not None:
                chain.append(parent)
                inner = self._function(parent.address - 1)
            elif inner.address == self._handler:
                saved = self._interrupted(chain[-1].place or 0)
                if saved is None:
                    break
                live = self.live(saved.values)
                at = self._below(saved.values[self._abi.sp.name], at)
                pc = self._abi.pc.name
                chain.append(ReturnAddress(saved.values[pc], saved.places[pc]))
                inner = self._function(saved.values[pc])
                caller = None if inner is None else self._unsaved(inner, saved, at, live)
                if caller is not None:
                    chain.append(caller)
                    at += at + 1 < len(self._found) and self._found[at + 1] is caller
                    inner = self._function(caller.address - 1)
            else:
                number = self._caller(inner, at + 1, live)
                if number is None:
                    break
                at = number
                chain.append(self._found[at])
                inner = self._function(chain[-1].address - 1)
        return chain

    def _caller(self, inner: Symbol, start: int, live: set[int] | None) -> int | None:
        """Return the index, from `start` on, of the caller of `inner`."""
        rest = range(start, len(self._found))
        if self._is_caller(inner.address):
            return self._site(start - 1, self._sites, live)
        if live is not None:
            return next((n for n in rest if self._found[n].place in live), None)
        direct = (n for n in rest if self._callees[n] == inner.address)
        by_register = (
            n
            for n in rest
            if self._callees[n] is None
            and not self._sites[n]
            and (inner.address in self._tracer or not self._is_caller(self._found[n].address - 1))
        )
        return next(direct, next(by_register, None))

    def _parent(self, inner: Symbol, at: int, live: set[int] | None) -> ReturnAddress | None:
        """Return where `inner` returns to, if index `at` is its site and saved that address.

        If a register holds it, the site has stored it next to its own return address.
        """
        beside = self._beside(at) if self._sites[at] and live is None else None
        return None if beside is None else self._by_link(inner, beside, at, live)

    def _beside(self, at: int) -> ReturnAddress | None:
        """Return the address found in the word below index `at`, if calls use a link register."""
        place = self._found[at].place
        if self._abi.link is None or not at or place is None or self._sites[at - 1]:
            return None
        beside = self._found[at - 1]
        return beside if beside.place == place - self._width else None

    def _unsaved(
        self, inner: Symbol, saved: _Saved, at: int, live: set[int] | None
    ) -> ReturnAddress | None:
        """Return where the interrupted `inner` returns to, if it had not saved that yet.

        At its first instruction, the address is still where the call has put it.
        """
        link, begins = self._abi.link, saved.values[self._abi.pc.name] == inner.address
        if link is None:
            pushed = self._found[at + 1 : at + 2] if begins else ()
            return next((n for n in pushed if n.place == saved.values[self._abi.sp.name]), None)
        back = ReturnAddress(saved.values[link.name], saved.places[link.name])
        if begins and self._is_return(back.address):
            return back
        return self._by_link(inner, back, at, live)

    def _by_link(
        self, inner: Symbol, link: ReturnAddress, at: int, live: set[int] | None
    ) -> ReturnAddress | None:
        """Return `link` if `inner` returns there and the stack does not hold it as well."""
        caller = self._function(link.address - 1)
        if caller is None or caller.address == inner.address or not self._is_return(link.address):
            return None
        number = self._caller(inner, at + 1, live)
        if number is not None and self._found[number].address == link.address:
            return None
        callee = self._callee(link.address)
        if callee is None:
            known = number is not None and self._callees[number] == inner.address
            return None if known else link
        entering = self._is_caller(callee) and self._is_caller(inner.address)
        return link if callee == inner.address or entering else None

    def _below(self, sp: int, at: int) -> int:
        """Return the last index, from `at` on, whose place is below `sp`."""
        for number in range(at + 1, len(self._found)):
            if (self._found[number].place or 0) >= sp:
                return number - 1
        return len(self._found) - 1

    def _interrupted(self, place: int) -> _Saved | None:
        """Return the registers of the interrupt whose handler's return address is at `place`.

        Remains of earlier frames can look like saved registers, but their pc is in no function.
        """
        abi, width = self._abi, self._width
        names = [register.name for register in abi.pt_regs]
        size = width * len(names)
        at_sp = width * names.index(abi.sp.name)
        first = None
        for regs in range(place + -place % abi.stack_align, self._end - size, abi.stack_align):
            gap = self._memory.read_int(regs + at_sp, width) - abi.red_zone - size - regs
            if 0 <= gap < abi.stack_align:
                places = {name: regs + width * row for row, name in enumerate(names)}
                values = {name: self._memory.read_int(at, width) for name, at in places.items()}
                saved = _Saved(values, places)
                if self._function(values[abi.pc.name]) is not None:
                    return saved
                first = first or saved
        return first

    def _function(self, address: int) -> Symbol | None:
        symbol = self._symbols.lookup(address)
        return symbol if isinstance(symbol, Symbol) else None

    def _before(self, address: int) -> bytes:
        """Return the bytes before `address`, at most the length of a call."""
        part = self._memory.mapped_at(address - 1)
        if part is None:
            return b""
        start = max(part[0], address - self._port.facts.max_insn_size)
        return self._memory.read(start, address - start)

    def _is_return(self, address: int) -> bool:
        return self._port.is_return_address(self._before(address))

    def _callee(self, address: int) -> int | None:
        """Return the function that the call before `address` calls; None for a register call."""
        port, before = self._port, self._before(address)
        call = address, before
        if call not in self._targets:
            step = port.facts.insn_align
            sizes = range(step, len(before) + 1, step)
            size = next((each for each in sizes if port.is_return_address(before[-each:])), 0)
            self._targets[call] = port.call_target(address - size, before[-size:]) if size else None
        return self._targets[call]
