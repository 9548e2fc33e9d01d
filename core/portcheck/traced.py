"""A call of a traced function on a bare engine, with C functions that do the worst.

The entry code may rely only on the ABI. So each C function that it calls here changes every
register that the ABI lets a function change, and every byte of the stack that does not belong to
the caller. After each instruction an interrupt overwrites the stack below the red zone. So a value
that the entry code has not saved in the right place is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from unicorn import Uc

from ..arch import Edit
from ..facts import Facts
from ..ftrace.entry import CALLER, GRAPH_CALL, GRAPH_CALLER
from .bench import (
    PAGE,
    STACK,
    TOC,
    argument,
    code_of,
    entered,
    registers,
    stack_argument,
    stop,
)
from .outcome import expect
from .subject import PortUnderTest

TRACER = "tracer"
"""Name of the C function that a slot calls."""

PREPARE, HANDLER = "prepare_ftrace_return", "ftrace_return_to_handler"
"""The C functions of the graph tracer."""

OP = "function_trace_op"
OP_VALUE = 0x5A5A_1230

_TRACER_AT = 0x1B00
_ARGUMENTS = {TRACER: 4, HANDLER: 2}
_GARBAGE = bytes(range(0x81, 0xC1))
_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class CCall:
    """A call of a C function by the entry code."""

    name: str
    arguments: tuple[int, ...]
    sp: int
    """The stack pointer before the call pushed anything."""
    parent: int | None
    """The word that the first argument points to; None if it does not point to the stack."""


@dataclass(frozen=True, slots=True)
class State:
    """The state that a site must preserve."""

    registers: dict[str, int]
    others: dict[str, int]
    """Floating-point registers, and control registers of the CPU."""
    sp: int
    stack: bytes
    """The stack from `sp` up."""


class Traced:
    """A function entered on a bare engine; `run` executes it."""

    def __init__(self, subject: PortUnderTest, start: int, end: int) -> None:
        """Enter the function at `start`; there is text from there to `end`."""
        self._subject, self._port = subject, subject.port
        self.uc: Uc = entered(subject, start, end)
        self.calls: list[CCall] = []
        self.on_call: Callable[[CCall], None] = lambda call: None
        """Called for each C function, before it returns."""
        self.result: int | None = None
        """The result of the C functions; None for any value."""
        abi = self._port.facts.abi
        self._saved = {each.name for each in abi.pt_regs}
        self._pushed = 0 if abi.link is not None else self._port.facts.pointer_size
        places = {code_of(subject, at): name for name, at in subject.called.items()}
        self._functions = {**places, subject.base + _TRACER_AT: TRACER}
        if OP in subject.labels:
            self.uc.mem_write(subject.labels[OP], self._word(OP_VALUE))

    def call_tracer(self) -> None:
        """Patch all slots of the callers to call the tracer."""
        subject = self._subject
        for name in dict.fromkeys(subject.slot_of(caller) for caller in subject.callers):
            ftrace_stub, tracer = subject.labels["ftrace_stub"], subject.base + _TRACER_AT
            self.patch(self._port.update_ftrace_func(name, ftrace_stub, tracer))

    def call_graph(self) -> None:
        """Patch the slot of the graph tracer to call ftrace_graph_caller."""
        labels = self._subject.labels
        self.patch(self._port.enable_graph_caller(labels[GRAPH_CALL], labels[GRAPH_CALLER]))

    def load(self, address: int) -> None:
        """Write the kernel's code at `address`, up to the end of its page."""
        start = address // PAGE * PAGE
        if not any(first <= start <= last for first, last, _ in self.uc.mem_regions()):
            self.uc.mem_map(start, PAGE)
        end = min(start + PAGE, self._subject.text[1])
        self.uc.mem_write(address, self._subject.read(address, end - address))

    def patch(self, edit: Edit, row: int = 0) -> None:
        """Write the replacement of one row."""
        self.uc.mem_write(int(edit.address[row]), edit.row(edit.replacement, row))

    def run(self, start: int, end: int) -> None:
        """Run from `start` to `end`. Raises `Failure` if `end` is not reached."""
        uc, pc = self.uc, self._port.facts.abi.pc.number
        at = start
        for _ in range(_LIMIT):
            name = self._functions.get(at)
            if name is None:
                uc.emu_start(at, 0, count=1)
                at = int(uc.reg_read(pc))
            else:
                at = self._c_function(name)
            self._interrupt()
            if at == end:
                return
        expect(False, f"execution does not get to {end:x}; pc is {at:x}", start)

    def state(self) -> State:
        """Return the registers and the stack."""
        abi = self._port.facts.abi
        sp = int(self.uc.reg_read(abi.sp.number))
        top = self._subject.base + STACK + PAGE // 8
        own = sp + abi.call_frame
        stack = bytes(self.uc.mem_read(own, max(top - own, 0)))
        if abi.frames is not None and abi.frames.register == abi.sp:  # the back chain
            stack = bytes(self.uc.mem_read(sp, self._port.facts.pointer_size)) + stack
        apart = (*abi.floats, *(register for register, _ in abi.controls))
        others = {each.name: int(self.uc.reg_read(each.number)) for each in apart}
        others = {name: value for name, value in others.items() if name not in self._saved}
        return State(registers(self.uc, self._port), others, sp, stack)

    def set(self, name: str, value: int) -> None:
        """Set one of the registers of `pt_regs`."""
        numbers = {each.name: each.number for each in self._port.facts.abi.pt_regs}
        self.uc.reg_write(numbers[name], value)

    def regs(self, call: CCall) -> dict[str, int]:
        """Return the `pt_regs` that the tracer gets."""
        facts, at = self._port.facts, call.arguments[3]
        names = [each.name for each in facts.abi.pt_regs]
        raw = bytes(self.uc.mem_read(at, facts.pointer_size * len(names)))
        return dict(zip(names, np.frombuffer(raw, self._dtype).tolist(), strict=True))

    def set_regs(self, call: CCall, values: Mapping[str, int]) -> None:
        """Change the `pt_regs` that the tracer gets."""
        words = [values[each.name] for each in self._port.facts.abi.pt_regs]
        self.uc.mem_write(
            call.arguments[3], np.array(words, np.uint64).astype(self._dtype).tobytes()
        )

    @property
    def _dtype(self) -> str:
        order = "<" if self._port.facts.byteorder == "little" else ">"
        return f"{order}u{self._port.facts.pointer_size}"

    def _c_function(self, name: str) -> int:
        """Do the worst that the C function at pc may do, and return its return address."""
        port, uc = self._port, self.uc
        abi, size = port.facts.abi, port.facts.pointer_size
        count = _ARGUMENTS.get(name, 3)
        entry_sp = int(uc.reg_read(abi.sp.number))
        sp = entry_sp + self._pushed
        values = tuple(argument(port, uc, n, self._pushed) for n in range(count))
        stack = range(self._subject.base + STACK - PAGE, self._subject.base + STACK + PAGE // 8)
        parent = self._read(values[0]) if values[0] in stack else None
        call = CCall(name, values, sp, parent)
        self.calls.append(call)
        if abi.toc is not None:
            toc = uc.reg_read(abi.toc.register.number)
            expect(toc == TOC, f"{name} is called with {abi.toc.register.name} {toc:x}")
        self.on_call(call)
        back = self._read(entry_sp) if abi.link is None else int(uc.reg_read(abi.link.number))
        for number in range(len(abi.arguments), count):
            uc.mem_write(stack_argument(port, sp, number), _GARBAGE[:size])
        room = abi.call_frame - size * len(abi.arguments)  # arguments that it may store there
        if abi.call_frame and room >= 0:
            uc.mem_write(sp + room, _GARBAGE[: abi.call_frame - room])
        if abi.frames is not None and abi.frames.of_caller:
            uc.mem_write(sp + abi.frames.link, _GARBAGE[:size])
        uc.mem_write(sp - 4 * len(_GARBAGE), _GARBAGE * 4)
        changed = abi.volatile or dict.fromkeys(
            (each.name for each in (*abi.arguments, *abi.results, abi.result)), 2**64 - 1
        )
        numbers = {each.name: each.number for each in abi.pt_regs}
        limit = (1 << 8 * size) - 1
        for n, (register, mask) in enumerate(changed.items()):
            old = int(uc.reg_read(numbers[register]))
            uc.reg_write(numbers[register], (old ^ mask & (0xA5A5_A5A5_A5A5_A5A5 + n)) & limit)
        if self.result is not None:
            uc.reg_write(abi.result.number, self.result)
        uc.reg_write(abi.sp.number, sp)
        uc.reg_write(abi.pc.number, back)
        return back

    def _interrupt(self) -> None:
        """Overwrite the stack as an interrupt does."""
        abi = self._port.facts.abi
        below = int(self.uc.reg_read(abi.sp.number)) - abi.red_zone
        self.uc.mem_write(below - len(_GARBAGE), _GARBAGE)

    def _word(self, value: int) -> bytes:
        little = self._port.facts.byteorder == "little"
        return value.to_bytes(self._port.facts.pointer_size, "little" if little else "big")

    def _read(self, address: int) -> int:
        little = self._port.facts.byteorder == "little"
        data = self.uc.mem_read(address, self._port.facts.pointer_size)
        return int.from_bytes(data, "little" if little else "big")


@dataclass(frozen=True, slots=True)
class Run:
    """A site's function run to the end of its site, disabled and enabled."""

    row: int
    ip: int
    text: bytes
    """The enabled site."""
    aligned: bool
    """Whether the stack pointer has the ABI's alignment when the site calls."""
    before: State
    """The state after the disabled site."""
    after: State
    """The state after the enabled site."""
    calls: tuple[CCall, ...]


PLAIN, GRAPH, STOPPED = "plain", "graph", "stopped"
"""Kinds of runs: the tracer only, the graph tracer too, or with function_trace_stop set."""

TRACE_STOP = "function_trace_stop"
"""A word in entry.S; while it is not 0, nothing is traced."""


def runs(subject: PortUnderTest, caller: str = CALLER, kind: str = PLAIN) -> list[Run]:
    """Run the sites that checks execute, with calls of `caller`; each is run once."""
    key = ("runs", caller, kind)
    if key not in subject.shared:
        rows = subject.some if (caller, kind) == (CALLER, PLAIN) else subject.few
        subject.shared[key] = [_run(subject, caller, kind, row) for row in rows]
    made: list[Run] = subject.shared[key]
    return made


def at_site(subject: PortUnderTest, edit: Edit, row: int) -> Traced:
    """Return a function at its site, which holds the replacement of `edit`; slots call tracers."""
    ip, start, end = bounds(subject, edit, row)
    called = Traced(subject, start, end)
    called.patch(subject.first_change, row)
    called.patch(edit, row)
    called.call_tracer()
    if start != ip:
        called.run(start, ip)
    return called


def bounds(subject: PortUnderTest, edit: Edit, row: int) -> tuple[int, int, int]:
    """Return the ip of a site, the start of its function, and the end of the site."""
    ip, size = int(subject.sites.ip[row]), len(edit.row(edit.replacement, row))
    return ip, subject.start_of(ip), int(edit.address[row]) + size


def _run(subject: PortUnderTest, caller: str, kind: str, row: int) -> Run:
    edit = subject.port.make_call(subject.sites, subject.labels[caller])
    ip, start, end = bounds(subject, edit, row)
    if ("disabled", row) not in subject.shared:
        called = at_site(subject, edit.reversed(), row)
        called.run(ip, end)
        subject.shared["disabled", row] = called.state()
    called = at_site(subject, edit, row)
    if kind == GRAPH:
        called.call_graph()
    if kind == STOPPED:
        stop(called.uc, subject, subject.labels[TRACE_STOP])
    sp = int(called.uc.reg_read(subject.port.facts.abi.sp.number))
    called.run(ip, end)
    aligned = start == ip or sp % subject.port.facts.abi.stack_align == 0
    text = edit.row(edit.replacement, row)
    after, calls = called.state(), tuple(called.calls)
    return Run(row, ip, text, aligned, subject.shared["disabled", row], after, calls)


def same_state(run: Run, facts: Facts, which: str = "after the nop", what: str = "it") -> None:
    """Raise `Failure` for a difference between the states of `run`.

    Registers that sites clobber may differ, but only in bits that `Abi.volatile` allows if it
    lists the register, and not in those of `CallSites.kept`. `which` and `what` name the states
    before and after.
    """
    volatile = facts.abi.volatile
    needed = facts.sites.kept
    free = {n: volatile.get(n, -1) & ~needed.get(n, 0) for n in facts.sites.clobbers}
    before, after = run.before, run.after
    for names, found in ((before.registers, after.registers), (before.others, after.others)):
        for name, value in names.items():
            wrong = f"{name} is {found[name]:x} after {what}, but {value:x} {which}"
            kept = (found[name] ^ value) & ~free.get(name, 0)
            expect(not kept, wrong, run.ip, b"", run.text)
    pairs = zip(before.stack, after.stack, strict=True)
    at = next((n for n, pair in enumerate(pairs) if len({*pair}) > 1), None)
    wrong = f"the stack of the traced function is changed at +{at or 0:#x}"
    expect(at is None, wrong, run.ip, b"", run.text)
