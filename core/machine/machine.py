"""The machine: one memory, its vCPUs in turn, interrupts, faults and time.

The vCPUs take turns of `SLICE_NS` of virtual time, the one with the lowest time
first and of equals the lowest number. A slice ends early where an interrupt
falls due, and interrupts are delivered between slices, so they come at their
virtual time to the block. An idle vCPU costs nothing: its time jumps to its
next interrupt. Nothing depends on the host's time or on how a run is divided
into calls of `run`: what happens is one fixed sequence of slices.

`stop` is the exception that proves it: it ends a run at the end of the slice
that is running, which is a matter of the host's time, but the slices before and
after it are the same as without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ..abi import LOCAL_PAGE_SIZE, LOCAL_PAGES, Hypercall, RequestKind, Vector
from ..arch import Port
from ..crash import Access, Fault
from ..errors import (
    GuestError,
    GuestHang,
    GuestInterrupted,
    GuestOops,
    MemoryFault,
    UsageError,
)
from . import borrow, hypercall, interrupt, oops, reach
from .dmesg import Dmesg
from .function import function_at
from .memory import Memory
from .oops import NoSymbols, Symbols
from .request import Requests
from .snapshot import Snapshot, copy_memory, put_memory
from .turn import Turn
from .vcpu import State, Stop, Vcpu, Why

SLICE_NS = 50_000
MAX_CPUS = 8

REQUEST_LIMIT_NS = 10_000_000_000
"""Virtual time a call or a workload may take when the caller names no limit."""

OOPS_GRACE_NS = 1_000_000_000
"""How much longer something is waited for once a vCPU has died meanwhile."""

BreakpointHandler = Callable[[int, int], bool]
FtraceHandler = Callable[[Hypercall], int]
TraceStackHandler = Callable[[Vcpu, int], Sequence[int]]
StackMaxHandler = Callable[[Vcpu, int, int], None]
TraceHandler = Callable[[int, int, int, int], int]


class Machine:
    """A machine of `port`'s architecture; nothing runs before `start`."""

    def __init__(self, port: Port, cpus: int = 2, *, native_clock: bool | None = None) -> None:
        """Open `cpus` vCPUs (1 to 8) over empty memory; `native_clock` as in `Clock`.

        Raises `UsageError` for another number of CPUs.
        """
        if not 1 <= cpus <= MAX_CPUS:
            raise UsageError(f"a machine has 1 to {MAX_CPUS} CPUs, not {cpus}")
        facts = port.facts
        self.port = port
        self.memory = Memory(facts.byteorder, facts.pointer_size)
        self.memory.reserve(facts.map.local, LOCAL_PAGES * LOCAL_PAGE_SIZE, "cpu local")
        self.vcpus = tuple(
            Vcpu(number, cpus, facts, self.memory, native_clock=native_clock)
            for number in range(cpus)
        )
        self.dmesg = Dmesg()
        self.requests = Requests(self.memory)
        self.symbols: Symbols = NoSymbols()
        """Set by whoever loads the kernel: `common_interrupt` and `host_request` are found here."""
        self.breakpoint_handler: BreakpointHandler | None = None
        """Called with (cpu, address of the breakpoint); true when it dealt with it."""
        self.ftrace_handler: FtraceHandler | None = None
        """Called with FTRACE_INIT or FTRACE_UPDATE, when the guest asks; returns the result."""
        self.trace_stack_handler: TraceStackHandler | None = None
        """Called with (vcpu, ip or 0) when a tracer asks who called a site (TRACE_STACK)."""
        self.stack_max_handler: StackMaxHandler | None = None
        """Called with (vcpu, bytes in use, ip) when more of a stack is used (STACK_MAX)."""
        self.trace_handler: TraceHandler | None = None
        """Called with (cpu, struct func_probe, ip, parent_ip) for TRACE_CONTROL; the result."""
        self.reached: Callable[[Vcpu], bool] | None = None
        """Called where a vCPU has come to a place (`Vcpu.stop_at`); true to stop there."""
        self.oopses: list[GuestOops] = []
        self._open: Turn | None = None
        """A turn that has stopped at a place: the next run goes on with it."""
        self._reached = 0
        self._running = False
        self._stop = False

    @property
    def now(self) -> int:
        """Virtual ns: the time of the vCPU that is farthest on, or the end of an idle run."""
        return max(self._reached, *(vcpu.ticks for vcpu in self.vcpus))

    @property
    def alive(self) -> bool:
        """Whether any vCPU can still run."""
        return any(vcpu.state in (State.RUNNING, State.IDLE) for vcpu in self.vcpus)

    # Running

    def start(self, entry: int, stack: int | None = None) -> None:
        """Have vCPU 0 begin the function `entry`, interrupts off, on `stack` if one is given."""
        vcpu = self.vcpus[0]
        abi = self.port.facts.abi
        function = function_at(self.port.facts, self.memory, self.symbols, entry)
        values = {abi.pc.name: function.code}
        if abi.toc is not None and function.toc is not None:
            values[abi.toc.register.name] = function.toc
        if stack is not None:
            values[abi.sp.name] = stack
        vcpu.registers.write(values)
        vcpu.state = State.RUNNING

    def run(self, ns: int) -> bool:
        """Let the machine run for `ns` more of virtual time; whether `stop` ended it before."""
        return self.take_turns(lambda: False, self.now + ns)

    def run_until(self, done: Callable[[], bool], limit_ns: int, what: str) -> None:
        """Run until `done()` holds at the end of a slice; `what` is named in errors.

        Raises `GuestHang` after `limit_ns` of virtual time, `GuestError` when no
        vCPU is left to get there, `GuestInterrupted` on `stop`.
        """
        limit = self.now + limit_ns
        deaths = len(self.oopses)

        def settled() -> bool:
            return done() or len(self.oopses) > deaths

        if self.take_turns(settled, limit):
            raise GuestInterrupted(what)
        if not done() and len(self.oopses) > deaths and self.alive:
            limit = min(limit, self.now + OOPS_GRACE_NS)
            if self.take_turns(done, limit):
                raise GuestInterrupted(what)
        if done():
            return
        if len(self.oopses) > deaths:
            fault = self.oopses[deaths]
            raise GuestOops(
                f"{what} did not finish: CPU {fault.cpu} has stopped: {fault}",
                cpu=fault.cpu,
                pc=fault.pc,
                report=fault.report,
            )
        if not self.alive:
            raise GuestError(f"{what} cannot finish: no CPU is running")
        raise GuestHang(what, limit_ns)

    def sync(self) -> None:
        """Let every vCPU that runs go through one slice."""
        for vcpu in self.vcpus:
            if vcpu.state is State.RUNNING:
                self.turn(vcpu)

    def stop(self) -> None:
        """End the run in progress, from another thread, when its slice is over.

        That takes less than a few milliseconds, and loses nothing: the next run
        goes on. Without a run in progress it does nothing.
        """
        self._stop = self._running

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """While this lasts, `stop` is heard."""
        self._running, self._stop = True, False
        try:
            yield
        finally:
            self._running = self._stop = False

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called in what goes on."""
        return self._stop

    def step(self, cpu: int) -> None:
        """Run one instruction of vCPU `cpu`, and the one in its delay slot with it.

        Time passes as in a run: by the length of the instruction. A call of the
        machine is done at the end of its block, a breakpoint is handled, a fault is
        an oops. An idle vCPU has no instruction to run: its step is the delivery of
        its next interrupt. Otherwise interrupts wait for the next run, so that
        stepping stays in the code one looks at. Raises
        `GuestError` when the vCPU is not running.
        """
        vcpu = self._vcpu(cpu)
        if vcpu.state in (State.OFF, State.DEAD):
            raise GuestError(f"CPU {cpu} is not running")
        if vcpu.state is State.IDLE:
            self._wake(vcpu)
            self._deliver(vcpu)
            return
        stop = vcpu.step(2 if self._delayed(vcpu) else 1)
        if stop is not None:
            self._handle(vcpu, stop)

    def _delayed(self, vcpu: Vcpu) -> bool:
        """Whether the next instruction of `vcpu` has a delay slot."""
        try:
            text = self.memory.read(vcpu.registers.pc, self.port.facts.insn_align)
        except MemoryFault:
            return False
        return self.port.has_delay_slot(text)

    def turn(self, vcpu: Vcpu, halt_at: int | None = None, ns: int = SLICE_NS) -> bool:
        """One slice of `ns` of `vcpu`; false when `stop` was called meanwhile.

        Where the engine halts at `halt_at`, the vCPU does not go idle.
        """
        if vcpu.state is State.IDLE and not self._wake(vcpu):
            return True
        if not self._deliver(vcpu):
            return True
        now = vcpu.ticks
        return self._go_on(Turn(vcpu, vcpu.interrupts.next_after(now, now + ns)), halt_at)

    def _go_on(self, turn: Turn, halt_at: int | None = None) -> bool:
        """Take a turn to its end, or to a place to stop at, from where it goes on as if it had not.

        False when `stop` was called meanwhile.
        """
        vcpu = turn.vcpu
        while turn.stops and vcpu.state is State.RUNNING:
            stop = vcpu.run(turn.deadline)
            if stop.why is Why.DEADLINE:
                break
            if stop.why is Why.REACHED:
                if self.reached is not None and self.reached(vcpu):
                    self._open = turn
                    break
                vcpu.pass_by()
                continue
            if stop.why is Why.HALT and halt_at is not None and vcpu.registers.pc == halt_at:
                break
            self._handle(vcpu, stop)
            turn.stops -= 1
        return not self._stop

    def take_turns(self, done: Callable[[], bool], target: int) -> bool:
        """Take turns until `done`, or all have reached `target`; whether `stop` ended it."""
        with self.interruptible():
            while not done():
                if self._open is not None:
                    turn, self._open = self._open, None
                    self._go_on(turn)
                else:
                    vcpu, wake = self._next()
                    if vcpu is None:
                        return False
                    if wake >= target:
                        # Sleepers have not moved, but the time has passed.
                        self._reached = max(self._reached, target)
                        return False
                    self.turn(vcpu)
                if self._stop:
                    return not done()
            return False

    def _next(self) -> tuple[Vcpu | None, int]:
        """Whose turn it is, and at what time."""
        best, when = None, 0
        for vcpu in self.vcpus:
            if vcpu.state is State.RUNNING or vcpu.state is State.IDLE:
                wake = vcpu.wake
                if best is None or wake < when:
                    best, when = vcpu, wake
        return best, when

    def _wake(self, vcpu: Vcpu) -> bool:
        """Move an idle vCPU on to its next interrupt; false if it sleeps on regardless."""
        vcpu.ticks = vcpu.wake
        if self._interrupt_entry() is None:
            vcpu.interrupts.take(vcpu.ticks)
            return False
        vcpu.state = State.RUNNING
        return True

    def _interrupt_entry(self) -> int | None:
        """Where interrupts go; None for a kernel that takes none."""
        return self.symbols.address("common_interrupt")

    def _deliver(self, vcpu: Vcpu) -> bool:
        """Deliver what is due, if the guest takes interrupts; false if that killed the vCPU."""
        if vcpu.interrupts.next() > vcpu.ticks or vcpu.local["irqs_disabled"]:
            return True
        entry = self._interrupt_entry()
        if entry is None:
            return True
        vector = vcpu.interrupts.take(vcpu.ticks)
        assert vector is not None
        try:
            interrupt.deliver(vcpu, self.memory, self.port, self.symbols, entry, vector)
        except MemoryFault as error:
            detail = f"no stack for interrupt {vector}: {error}"
            self._die(vcpu, Fault(Access.INTERRUPT, detail=detail))
            return False
        return True

    # What a vCPU stopped for

    def _handle(self, vcpu: Vcpu, stop: Stop) -> None:
        match stop.why:
            case Why.CALL:
                try:
                    hypercall.dispatch(self, vcpu)
                except (hypercall.GuestFault, MemoryFault) as error:
                    detail = f"bad call of the machine: {error}"
                    self._die(vcpu, Fault(Access.OTHER, detail=detail))
            case Why.INTERRUPT:
                self._trap(vcpu, stop.number)
            case Why.HALT:
                vcpu.state = State.IDLE
                vcpu.idle_calls += 1
            case Why.FAULT:
                assert stop.fault is not None
                self._die(vcpu, stop.fault)
            case Why.DEADLINE:
                pass

    def _trap(self, vcpu: Vcpu, number: int) -> None:
        facts = self.port.facts
        known = facts.breakpoint
        if known is not None and number == known.interrupt:
            ip = vcpu.registers.pc - known.reported_at
            handler = self.breakpoint_handler
            if handler is None or not handler(vcpu.number, ip):
                vcpu.registers.pc = ip
                self._die(vcpu, Fault(Access.OTHER, detail="unexpected breakpoint"))
            return
        trap = facts.engine.traps.get(number)
        if trap is None:
            self._die(vcpu, Fault(Access.OTHER, detail=f"unexpected interrupt {number:#04x}"))
            return
        if trap.reported_at is None:
            vcpu.registers.pc = self._trapped_at(vcpu, number)
        else:
            vcpu.registers.pc -= trap.reported_at
        access = Access.ILLEGAL if trap.illegal else Access.OTHER
        self._die(vcpu, Fault(access, detail=trap.meaning))

    def _trapped_at(self, vcpu: Vcpu, number: int) -> int:
        """Where `vcpu` raised trap `number`, which the engine does not say."""
        address, size = vcpu.block
        try:
            block = self.memory.read(address, size)
        except MemoryFault:
            return address
        return self.port.trapped_at(number, vcpu.registers.read(), address, block)

    def _die(self, vcpu: Vcpu, fault: Fault) -> None:
        """Stop `vcpu` for good, with a report in dmesg and in `oopses`."""
        vcpu.state = State.DEAD
        count = len(self.oopses) + 1
        crash = oops.gather(vcpu, self.memory, self.port, self.symbols, fault, count)
        lines = self.port.oops(crash)
        self._note(vcpu, fault.detail or lines[0], lines)

    def _note(self, vcpu: Vcpu, reason: str, lines: tuple[str, ...]) -> None:
        for line in lines:
            self.dmesg.write(vcpu.ticks, line)
        pc = vcpu.registers.pc
        self.oopses.append(GuestOops(reason, cpu=vcpu.number, pc=pc, report=lines))

    def panic(self, vcpu: Vcpu, text: bytes) -> None:
        """Stop every vCPU: the guest on `vcpu` has given up, saying `text`."""
        said = text.rstrip(b"\0\n").decode("ascii", "backslashreplace")
        prefix = "Kernel panic - not syncing: "
        reason = prefix + said.removeprefix(prefix)
        for other in self.vcpus:
            other.state = State.DEAD
        self._note(vcpu, reason, (reason, f"CPU: {vcpu.number} PID: {int(vcpu.local['pid'])}"))

    # Requests

    def request_call(
        self,
        function: int,
        arguments: Sequence[int] = (),
        comm: str = "call",
        limit_ns: int = REQUEST_LIMIT_NS,
    ) -> int:
        """Call a guest function and return its result, an unsigned number.

        In a task of the guest where the kernel serves requests, else on vCPU 0
        borrowed for it. Raises `UsageError` for arguments that do not fit, and
        what `run_until` raises.
        """
        reach.finish_started(self, limit_ns)
        address = self.request_address()
        if address is None:
            if self.vcpus[0].state is State.DEAD:
                raise GuestError("CPU 0 has stopped: nothing can be called before a reboot")
            return self._borrow(function, arguments, limit_ns)
        sequence = self.requests.fill(
            address, RequestKind.CALL, function=function, arguments=arguments, comm=comm
        )
        return self._request(sequence, "the call", limit_ns)

    def request_workload(self, name: str, count: int = 1, limit_ns: int = REQUEST_LIMIT_NS) -> int:
        """Run `count` rounds of the guest's workload `name` and return its result.

        Raises as `request_call`, and `GuestError` on a kernel that serves no requests.
        """
        reach.finish_started(self, limit_ns)
        address = self.request_address()
        if address is None:
            raise GuestError("this kernel has no workloads: it defines no host_request")
        sequence = self.requests.fill(
            address, RequestKind.WORKLOAD, name=name, count=count, comm=name[:15]
        )
        return self._request(sequence, f"workload {name}", limit_ns)

    def request_address(self) -> int | None:
        """Where requests go; None for a kernel that has not come up or serves none."""
        if self.vcpus[0].state is State.OFF or self._interrupt_entry() is None:
            return None
        return self.symbols.address("host_request")

    def _request(self, sequence: int, what: str, limit_ns: int) -> int:
        vcpu = self.vcpus[0]
        if vcpu.state is State.DEAD:
            raise GuestError(f"{what} cannot start: CPU 0 has stopped; reboot")
        vcpu.interrupts.send(Vector.REQUEST, self.now)
        self.run_until(lambda: self.requests.finished(sequence), limit_ns, what)
        return self.requests.result(sequence) % (1 << 8 * self.memory.pointer_size)

    def _borrow(self, function: int, arguments: Sequence[int], limit_ns: int) -> int:
        most = self.port.facts.abi.most_arguments
        if len(arguments) > most:
            raise UsageError(f"a call takes at most {most} arguments")
        with self.interruptible():
            return borrow.call(self, function, arguments, limit_ns)

    # Code and registers

    def flush(
        self,
        start: int | None = None,
        end: int | None = None,
        cpus: Sequence[int] | None = None,
    ) -> None:
        """Have vCPUs (all, or `cpus`) see new code in [start, end), or everywhere.

        The kernel's `flush_icache_range`: a vCPU left out goes on running the
        old bytes where it has run them before.
        """
        for vcpu in self.vcpus if cpus is None else [self._vcpu(cpu) for cpu in cpus]:
            vcpu.flush(start, end)

    def registers(self, cpu: int) -> dict[str, int]:
        """The registers of vCPU `cpu` by name, in the order of pt_regs."""
        return self._vcpu(cpu).registers.read()

    def set_registers(self, cpu: int, values: Mapping[str, int]) -> None:
        """Change registers of vCPU `cpu`; raises `UsageError` for an unknown name."""
        self._vcpu(cpu).registers.write(values)

    def _vcpu(self, cpu: int) -> Vcpu:
        if not 0 <= cpu < len(self.vcpus):
            raise UsageError(f"no CPU {cpu}; there are {len(self.vcpus)}")
        return self.vcpus[cpu]

    # Going back

    def snapshot(self) -> Snapshot:
        """The machine as it is, between runs."""
        return Snapshot(
            regions=copy_memory(self.memory),
            vcpus=tuple(vcpu.save() for vcpu in self.vcpus),
            dmesg=self.dmesg.save(),
            requests=self.requests.save(),
            oopses=tuple(self.oopses),
            reached=self._reached,
            turn=None if self._open is None else replace(self._open),
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot of this machine."""
        put_memory(self.memory, snapshot.regions)
        for vcpu, saved in zip(self.vcpus, snapshot.vcpus, strict=True):
            vcpu.restore(saved)
        self.dmesg.restore(snapshot.dmesg)
        self.requests.restore(snapshot.requests)
        self.oopses = list(snapshot.oopses)
        self._reached = snapshot.reached
        self._open = None if snapshot.turn is None else replace(snapshot.turn)
