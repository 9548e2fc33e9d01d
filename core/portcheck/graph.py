"""Checks of the graph tracer: calls, returns, and their frame pointers."""

from __future__ import annotations

from contextlib import suppress

from ..errors import GuestError
from ..ftrace.entry import GRAPH_CALL, RETURN_TO_HANDLER
from ..machine.function import enter
from ..machine.vcpu import State
from .bench import PAGE
from .check import DYNAMIC_GRAPH, GRAPH, GRAPH_FP, check
from .equilibrium import reach
from .outcome import Absent, expect
from .subject import PortUnderTest
from .user import User

EXAMPLE = "filemap_read"
"""A function that calls others and never sleeps."""

NESTED = "sys_getppid"
"""A system call that needs no arguments and no open file."""

_STEPS = 20_000


@check(GRAPH, "graph", "each traced call has its return")
def balanced(subject: PortUnderTest) -> None:
    user = _user(subject)
    user.row(EXAMPLE)
    user(f"echo {user.prefix}{EXAMPLE} > set_graph_function")
    user("echo function_graph > current_tracer; run syscalls")
    lines = user.events()
    opened = sum(line.endswith("{") for line in lines)
    closed = sum(line.rpartition("|")[2].strip() == "}" for line in lines)
    expect(opened, f"the trace has no call of {EXAMPLE}")
    expect(opened == closed, f"the trace has {opened} calls, but {closed} returns")


@check(GRAPH, "results", "functions return the same as untraced")
def results(subject: PortUnderTest) -> None:
    user = _user(subject)
    quiet = user("run syscalls")
    user("echo function_graph > current_tracer")
    said = user("run syscalls")
    expect(said == quiet, f"`run syscalls` prints {said!r}, but untraced {quiet!r}")
    user.alive()


@check(GRAPH_FP, "frame pointer", "call and return have the same frame pointer")
def frame_pointer(subject: PortUnderTest) -> None:
    call = _Followed(subject)
    frames: list[int] = []
    passed: set[int] = set()
    while call.running:
        if call.entering:
            frames.append(call.argument(2))
            passed.add(frames[-1])
        elif call.returning:
            expect(frames, "a return is traced without its call", call.handler)
            want, got = frames.pop(), call.argument(0)
            wrong = f"the call has frame pointer {want:x}, but its return has {got:x}"
            expect(got == want, wrong, call.handler)
        call.step()
    if not any(passed):
        raise Absent(f"{GRAPH_CALL} passes no frame pointer")
    expect(not call.running and not frames, f"{len(frames)} calls never return")


@check(GRAPH_FP, "bad frame pointer", "a return with a different one is reported")
def bad_frame_pointer(subject: PortUnderTest) -> None:
    call = _Followed(subject)
    while call.running and not call.returning:
        if call.entering and not call.argument(2):
            raise Absent(f"{GRAPH_CALL} passes no frame pointer")
        call.step()
    good = call.argument(0)
    bad = good ^ subject.port.facts.abi.stack_align
    call.set_argument(0, bad)
    with suppress(GuestError):
        while call.running and not call.user.session.boot.machine.oopses:
            call.step()
    wanted = f"Bad frame pointer: expected {good:x}, received {bad:x}"
    report = call.user.session.boot.machine.dmesg.text()
    expect(wanted in report, f"dmesg does not say `{wanted}`", call.handler)


class _Followed:
    """A call on CPU 0 while the graph tracer is on, executed step by step."""

    def __init__(self, subject: PortUnderTest) -> None:
        """Begin the call. Raises `Absent` if it cannot be followed."""
        user = _user(subject)
        user(f"call {NESTED}")  # runs into its call sites
        reach(user.session)
        user.row(NESTED)
        user("echo function_graph > current_tracer")
        session, self._abi = user.session, subject.port.facts.abi
        function = session.boot.kallsyms.address(NESTED)
        if function is None or len(self._abi.arguments) < 3:
            raise Absent(f"no call can be followed: {NESTED} is missing, or argument registers")
        self._machine = session.boot.machine
        self._end = subject.port.facts.map.host_stack + 0x10_0000
        self._machine.memory.map(self._end, 16 * PAGE, "stack of a check", executable=False)
        sp = self._end + 8 * PAGE
        names = (self._machine.memory, session.boot.kallsyms, function, (), sp, self._end)
        self._vcpu = self._machine.vcpus[0]
        self._vcpu.apply(enter(subject.port, *names), self._machine.memory)
        self._vcpu.state = State.RUNNING
        self._called = _code(user, "prepare_ftrace_return")
        self._returned = _code(user, "ftrace_return_to_handler")
        self._steps = 0
        self.user = user
        self.handler = session.boot.ftrace.entry[RETURN_TO_HANDLER]

    @property
    def running(self) -> bool:
        """Whether the call has not returned yet."""
        return self._vcpu.registers.pc != self._end and self._steps < _STEPS

    @property
    def entering(self) -> bool:
        """Whether a function has just been called."""
        return self._vcpu.registers.pc == self._called

    @property
    def returning(self) -> bool:
        """Whether a function has just returned."""
        return self._vcpu.registers.pc == self._returned

    def argument(self, number: int) -> int:
        """Return argument `number` of the C function at pc."""
        return self._machine.registers(0)[self._abi.arguments[number].name]

    def set_argument(self, number: int, value: int) -> None:
        """Set argument `number` of the C function at pc."""
        self._machine.set_registers(0, {self._abi.arguments[number].name: value})

    def step(self) -> None:
        """Execute one instruction."""
        self._steps += 1
        self.user.session.step(0)


@check(DYNAMIC_GRAPH, "graph patched", "enabling and disabling restores the text")
def patched(subject: PortUnderTest) -> None:
    user = _user(subject)
    before = user.text()
    slot = user.session.boot.ftrace.entry[GRAPH_CALL]
    size = subject.port.facts.sites.size
    nop = user.session.boot.machine.memory.read(slot, size)
    user("echo function_graph > current_tracer")
    changed = user.session.boot.machine.memory.read(slot, size) != nop
    expect(changed, "enabling the graph tracer does not change the slot", slot, b"", nop)
    user("run syscalls; echo nop > current_tracer")
    found = user.session.boot.machine.memory.read(slot, size)
    expect(found == nop, "disabling the graph tracer does not restore the slot", slot, nop, found)
    user.alive()
    user.same_text(before)


def _user(subject: PortUnderTest) -> User:
    """Return a user. Raises `Absent` for a port without a graph tracer."""
    if GRAPH_CALL not in subject.labels:
        raise Absent(f"entry.S has no {GRAPH_CALL}")
    user = User(subject)
    if "function_graph" not in user("cat available_tracers").split():
        raise Absent("available_tracers does not list function_graph")
    return user


def _code(user: User, name: str) -> int:
    """Return the address of a function of the tracer, or 0."""
    entry, prefix = user.session.boot.ftrace.entry.symbols, user.prefix
    return entry.get(prefix + name) or entry.get(name) or 0


CHECKS = (balanced, results, frame_pointer, bad_frame_pointer, patched)
