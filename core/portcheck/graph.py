"""Checks of the graph tracer: calls, returns, and their frame pointers."""

from __future__ import annotations

from collections.abc import Sequence
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

_TRACING, _FRAMES = "a user who traces", "frame pointers of calls"
"""Names of results that later checks reuse, to save a boot or a followed call."""


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
    subject.shared[_TRACING] = user


@check(GRAPH, "interrupts", "interrupts are traced, and return")
def interrupts(subject: PortUnderTest) -> None:
    user = subject.shared.pop(_TRACING, None) or _user(subject)
    if user.session.boot.kallsyms.address("__irqentry_text_start") is None:
        raise Absent("the kernel has no __irqentry_text_start")
    user("echo function_graph > current_tracer; echo > trace; call msleep 2")
    lines = [line.rstrip() for line in user.events()]
    into = [n for n, line in enumerate(lines) if line.endswith("==========> |")]
    out = [n for n, line in enumerate(lines) if line.endswith("<========== |")]
    expect(into, "the trace has no interrupt")
    cpus = len(user.session.boot.machine.vcpus)  # each may be in an interrupt at the clear
    expect(abs(len(into) - len(out)) <= cpus, f"{len(into)} interrupts begin, but {len(out)} end")
    for n in into:
        irq = "do_IRQ() {" in lines[n + 1] if n + 1 < len(lines) else True
        expect(irq, f"an interrupt begins with {lines[n + 1 : n + 2]}, not with do_IRQ")
    user.alive()


@check(GRAPH, "graph in a module", "its calls are traced, and return")
def in_module(subject: PortUnderTest) -> None:
    """Load the module in the far area, if the port has one, so that its calls go through stubs."""
    user = _user(subject)
    user.insmod("crashy", far=True, find=False)
    quiet = user("call crashy_wide; call crashy_recurse 1")  # runs into the call sites
    reach(user.session)
    before = user.text()
    user(f"echo {user.prefix}crashy_* > set_ftrace_filter; echo function_graph > current_tracer")
    said = user("call crashy_wide; call crashy_recurse 1")
    expect(said == quiet, f"the calls print {said!r}, but untraced {quiet!r}")
    expect("crashy_wide = 0x1 (1)" in said, f"a wide result is lost: {said!r}")
    lines = user.events()
    depth = sum("crashy_recurse" in line for line in lines)
    expect(depth == 2, f"the trace has {depth} calls of crashy_recurse, not 2")
    expect(any("crashy_multiply();" in line for line in lines), "crashy_multiply is not traced")
    call = _Followed(subject, user, "crashy_recurse", (1,))
    frames = subject.shared[_FRAMES] = call.follow()
    expect(len(frames) == 2, f"{len(frames)} calls are traced, not 2")
    different = len({*frames}) == len(frames) or not any(frames)
    expect(different, f"nested calls have the same frame pointer: {frames[0]:x}")
    user("echo nop > current_tracer")
    user.alive()
    user.same_text(before)


@check(GRAPH_FP, "frame pointer", "call and return have the same frame pointer")
def frame_pointer(subject: PortUnderTest) -> None:
    frames = subject.shared.get(_FRAMES) or _Followed(subject).follow()
    if not any(frames):
        raise Absent(f"{GRAPH_CALL} passes no frame pointer")


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

    def __init__(
        self,
        subject: PortUnderTest,
        user: User | None = None,
        name: str = NESTED,
        arguments: Sequence[int] = (),
    ) -> None:
        """Begin the call. Raises `Absent` if it cannot be followed."""
        if user is None:
            user = _user(subject)
            user(f"call {name}")  # runs into its call sites
            reach(user.session)
            user.row(name)
            # No code of the guest runs before the call: wrong entry code would end it there.
            user.session.boot.machine.updates.dismiss()
            user("echo function_graph > current_tracer")
        session, self._abi = user.session, subject.port.facts.abi
        function = session.boot.kallsyms.address(name)
        if function is None or len(self._abi.arguments) < 3:
            raise Absent(f"no call can be followed: {name} is missing, or argument registers")
        self._machine = session.boot.machine
        self._end = subject.port.facts.map.host_stack + 0x10_0000
        memory = self._machine.memory
        # The engine looks up the code at a return address before the step ends.
        memory.map(self._end, PAGE, "return address of a check", writable=False)
        memory.map(self._end + PAGE, 16 * PAGE, "stack of a check", executable=False)
        sp = self._end + 8 * PAGE
        names = (memory, session.boot.kallsyms, function, arguments, sp, self._end)
        self._vcpu = self._machine.vcpus[0]
        self._before = self._vcpu.state, self._vcpu.save_context()
        self._vcpu.apply(enter(subject.port, *names), self._machine.memory)
        self._vcpu.state = State.RUNNING
        self._called = _code(user, "prepare_ftrace_return")
        self._returned = _code(user, "ftrace_return_to_handler")
        self._steps = 0
        self.user = user
        self.handler = session.boot.ftrace.entry[RETURN_TO_HANDLER]
        facts = subject.port.facts
        size, align = facts.sites.size, max(facts.insn_align, 1)
        offsets = range(0, size, align) if align > 1 else (0,)
        ips = session.boot.ftrace.records.table["ip"].tolist()
        self._sites = {ip + offset: ip for ip in reversed(ips) for offset in offsets}
        self._site = 0
        self._tracer = range(facts.map.tracer, facts.map.tracer + (1 << 20))

    def follow(self) -> list[int]:
        """Execute the call to its end, and let the CPU resume its interrupted work.

        Return the frame pointer of each traced call.

        Raises `Failure` if a call and its return do not agree, or registers are lost.
        """
        frames: list[int] = []
        open_: list[tuple[int, int]] = []
        results: dict[str, int] = {}
        going_to: int | None = None
        while self.running:
            pc = self._vcpu.registers.pc
            self._site = self._sites.get(pc, self._site)
            if going_to is not None and pc not in self._tracer:
                wrong = f"return_to_handler returns to {pc:x}, not to {going_to:x}"
                expect(pc == going_to, wrong, self.handler)
                now = self._machine.registers(0)
                for name, value in results.items():
                    wrong = f"the result in {name} is {now[name]:x}, not {value:x}"
                    expect(now[name] == value, wrong, self.handler)
                going_to = None
            if pc == self.handler:
                going_to = None
                kept = (self._abi.result, *self._abi.results, self._abi.sp)
                now = self._machine.registers(0)
                results = {each.name: now[each.name] for each in kept}
            elif pc == self._called:
                parent, ip, frame = (self.argument(number) for number in range(3))
                wrong = f"self_addr is {ip:x}, but the call comes from {self._site:x}"
                expect(ip == self._site, wrong, self._site)
                frames.append(frame)
                open_.append((frame, self._word(parent)))
            elif pc == self._returned:
                expect(open_, "a return is traced without its call", self.handler)
                (want, going_to), got = open_.pop(), self.argument(0)
                wrong = f"the call has frame pointer {want:x}, but its return has {got:x}"
                expect(got == want, wrong, self.handler)
                result, retval = results[self._abi.result.name], self.argument(1)
                wrong = f"retval is {retval:x}, but the function returned {result:x}"
                expect(retval == result, wrong, self.handler)
                if going_to in self._tracer:  # a tail call: the caller is traced too
                    going_to = None
            self.step()
        expect(self._at_end and not open_, f"{len(open_)} calls never return")
        self._vcpu.state, context = self._before
        self._vcpu.restore_context(context)
        return frames

    def _word(self, address: int) -> int:
        return self._machine.memory.read_int(address, self.user.session.port.facts.pointer_size)

    @property
    def _at_end(self) -> bool:
        return self._vcpu.registers.pc == self._end

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
        self._machine.step(0)


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


CHECKS = (balanced, results, interrupts, in_module, frame_pointer, bad_frame_pointer, patched)
