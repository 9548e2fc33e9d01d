"""The machine: one memory, its vCPUs, interrupts, hypercalls, faults and time.

The scheduler decides which vCPU runs when (scheduler.py). Interrupts are delivered between
slices, and a slice ends early if one falls due, so they come at their virtual time to the
block. An idle vCPU costs nothing: its clock jumps to its next interrupt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..abi import LOCAL_PAGE_SIZE, LOCAL_PAGES
from ..arch import Addresses, Port, probes_of
from ..crash import Access, Fault
from ..errors import GuestError, GuestOops, MemoryFault, UsageError
from ..memento import Restore, attributes, in_order
from . import hypercall, interrupt, oops
from .dmesg import Dmesg
from .function import function_at
from .memory import Memory
from .requests import Requests
from .scheduler import Scheduler
from .services import NoServices, Services
from .snapshot import Snapshots
from .symbols import TRACER, NoSymbols, Symbols
from .updates import Updates
from .vcpu import State, Stop, Vcpu, Why

MAX_CPUS = 8

NMI_LIMIT_NS = 1_000_000
"""Virtual ns after which an NMI in the middle of a change counts as stuck."""


class Machine:
    """A machine of `port`'s architecture; no code runs before `start`."""

    def __init__(
        self,
        port: Port,
        cpus: int = 2,
        *,
        symbols: Symbols | None = None,
        services: Services | None = None,
        native_clock: bool | None = None,
    ) -> None:
        """Open `cpus` vCPUs (1 to 8) over empty memory; `native_clock` as in `Clock`.

        `symbols` are the kernel's, which may be loaded later: the machine looks up
        `common_interrupt`, `host_request` and the names in its reports. `services` answer the
        guest's questions about tracing. Raises `UsageError` for another number of CPUs.
        """
        if not 1 <= cpus <= MAX_CPUS:
            raise UsageError(f"a machine has 1 to {MAX_CPUS} CPUs, not {cpus}")
        facts = port.facts
        self.port = port
        self.symbols: Symbols = NoSymbols() if symbols is None else symbols
        self.services: Services = NoServices() if services is None else services
        self.memory = Memory(facts.byteorder, facts.pointer_size)
        self.memory.reserve(facts.map.local, LOCAL_PAGES * LOCAL_PAGE_SIZE, "cpu local")
        self.vcpus = tuple(
            Vcpu(number, cpus, facts, self.memory, native_clock=native_clock)
            for number in range(cpus)
        )
        self.snapshots = Snapshots(self.memory)
        """The memory of all checkpoints that still exist."""
        self.dmesg = Dmesg()
        self.oopses: list[GuestOops] = []
        self.fault_address: int | None = None
        """What the last oops was about, if an address."""
        self.scheduler = Scheduler(self.vcpus, self)
        self.requests = Requests(self)
        self.updates = Updates(self)

    # Running

    def start(self, entry: int, stack: int | None = None) -> None:
        """Start vCPU 0 at the function `entry` with interrupts off, on `stack` if given."""
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

    @property
    def now(self) -> int:
        """Virtual ns: as `Scheduler.now`."""
        return self.scheduler.now

    @property
    def alive(self) -> bool:
        """Whether any vCPU can still run."""
        return self.scheduler.alive

    def run(self, ns: int) -> bool:
        """Run for `ns` of virtual time. Return True if `stop` ended the run early."""
        return self.scheduler.run(ns)

    def run_until(self, done: Callable[[], bool], limit_ns: int, what: str) -> None:
        """As `Scheduler.run_until`."""
        self.scheduler.run_until(done, limit_ns, what)

    def sync(self) -> None:
        """Run every vCPU that is not idle for one slice."""
        self.scheduler.sync()

    def stop(self) -> None:
        """End the current run soon; called from another thread, as `Scheduler.stop`."""
        self.scheduler.stop()

    def step(self, cpu: int) -> None:
        """Run one instruction of vCPU `cpu`, together with the one in its delay slot.

        Time passes as in a run: by the length of the instruction. A hypercall is done at the
        end of its block, a breakpoint is handled, a fault is an oops. An idle vCPU has no
        instruction to run: its step is the delivery of its next interrupt. Otherwise
        interrupts wait for the next run, so that stepping stays in the code being looked at.
        Raises `GuestError` if the vCPU is not running.
        """
        vcpu = self._vcpu(cpu)
        if vcpu.state in (State.OFF, State.DEAD):
            raise self.scheduler.not_running(cpu)
        self.scheduler.pass_horizon(vcpu)
        self.scheduler.stands = cpu
        if vcpu.state is State.IDLE:
            self.wake(vcpu)
            self.deliver(vcpu)
            return
        stop = vcpu.step(self.instructions_of_step(vcpu))
        if stop is not None:
            self.handle(vcpu, stop)

    def instructions_of_step(self, vcpu: Vcpu) -> int:
        """Return how many instructions the next step of `vcpu` runs: 2 if one is in a slot."""
        try:
            text = self.memory.read(vcpu.registers.pc, self.port.facts.insn_align)
        except MemoryFault:
            return 1
        return 2 if self.port.has_delay_slot(text) else 1

    # Interrupts

    def wake(self, vcpu: Vcpu) -> bool:
        """Move an idle vCPU to its next interrupt. Return False if it keeps sleeping."""
        vcpu.ticks = vcpu.wake
        if self.symbols.address(interrupt.ENTRY) is None:
            vcpu.interrupts.take(vcpu.ticks)
            return False
        vcpu.state = State.RUNNING
        return True

    def deliver(self, vcpu: Vcpu) -> bool:
        """Deliver the interrupt that is due, if any. Return False if this killed the vCPU."""
        if vcpu.interrupts.nmi_due(vcpu.ticks):
            return self._deliver_nmi(vcpu)
        if vcpu.interrupts.next() > vcpu.ticks or vcpu.local["irqs_disabled"]:
            return True
        entry = self.symbols.address(interrupt.ENTRY)
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

    def send_nmi(self, cpu: int, at: int = 0, period: int = 0) -> None:
        """Deliver an NMI to vCPU `cpu` at virtual time `at` (ns), or now if that has passed.

        With `period` (ns), repeat it that often; missed NMIs are delivered once. Replaces the
        pending NMI, if any. Raises `GuestError` if the kernel handles no NMIs.
        """
        vcpu = self._takes_nmis(cpu)
        vcpu.interrupts.nmi = max(at, vcpu.ticks)
        vcpu.interrupts.nmi_period = period

    def send_nmi_in_change(self, cpu: int) -> None:
        """Deliver an NMI to vCPU `cpu` in the middle of the next change of text.

        Raises `GuestError` as `send_nmi`.
        """
        self._takes_nmis(cpu).interrupts.nmi_in_change = True

    def cancel_nmi(self, cpu: int) -> None:
        """Deliver no more NMIs to vCPU `cpu`; a running one still ends."""
        interrupts = self._vcpu(cpu).interrupts
        interrupts.nmi, interrupts.nmi_period, interrupts.nmi_in_change = None, 0, False

    @property
    def nmi_watchdog(self) -> bool:
        """Whether a vCPU gets the NMIs of the watchdog."""
        return any(vcpu.interrupts.nmi_period == interrupt.WATCHDOG_NS for vcpu in self.vcpus)

    def set_nmi_watchdog(self, on: bool) -> None:
        """Start or stop the NMIs that Linux's watchdog delivers to each running vCPU.

        Raises `GuestError` if the kernel handles no NMIs.
        """
        period = interrupt.WATCHDOG_NS
        for number, vcpu in enumerate(self.vcpus):
            if vcpu.interrupts.nmi_period == period:
                self.cancel_nmi(number)
            if on and vcpu.state not in (State.OFF, State.DEAD):
                self.send_nmi(number, vcpu.ticks + period, period)

    def _takes_nmis(self, cpu: int) -> Vcpu:
        """Return vCPU `cpu`. Raises `GuestError` if it takes no NMIs."""
        if self.symbols.address(interrupt.NMI_ENTRY) is None:
            raise GuestError(f"this kernel handles no NMIs: it has no {interrupt.NMI_ENTRY}")
        vcpu = self._vcpu(cpu)
        if vcpu.state in (State.OFF, State.DEAD):
            raise self.scheduler.not_running(cpu)
        return vcpu

    def nmis_in_change(self) -> Sequence[int]:
        """Return the vCPUs that take an NMI in the middle of the next change of text."""
        return [vcpu.number for vcpu in self.vcpus if vcpu.interrupts.nmi_in_change]

    def take_nmi(self, cpu: int) -> None:
        """Run vCPU `cpu`, although it is stopped, for the length of one NMI."""
        vcpu = self._vcpu(cpu)
        interrupts = vcpu.interrupts
        interrupts.nmi_in_change = False
        if vcpu.state not in (State.RUNNING, State.IDLE):
            return
        kept, idle = (interrupts.nmi, interrupts.nmi_period), vcpu.state is State.IDLE
        vcpu.state = State.RUNNING
        interrupts.nmi, interrupts.nmi_period = vcpu.ticks, 0
        before = interrupts.nmis

        def busy(vcpu: Vcpu) -> bool:
            return interrupts.in_nmi or interrupts.nmis == before

        self.scheduler.run_while(busy, [vcpu], NMI_LIMIT_NS)
        interrupts.nmi, interrupts.nmi_period = kept
        if idle and vcpu.state is State.RUNNING:
            vcpu.state = State.IDLE

    def _deliver_nmi(self, vcpu: Vcpu) -> bool:
        """Deliver an NMI if the CPU can take one. Return False if that killed the vCPU."""
        if vcpu.inside_block:
            return True
        entry = self.symbols.address(interrupt.NMI_ENTRY)
        if entry is None or not vcpu.local["nmi_stack"]:
            vcpu.interrupts.nmi = vcpu.ticks + interrupt.NMI_RETRY_NS
            return True
        vcpu.interrupts.take_nmi(vcpu.ticks)
        try:
            interrupt.deliver_nmi(
                vcpu, vcpu.interrupts, self.memory, self.port, self.symbols, entry
            )
        except MemoryFault as error:
            self._die(vcpu, Fault(Access.INTERRUPT, detail=f"no stack for an NMI: {error}"))
            return False
        return True

    # Reasons for which a vCPU stopped

    def handle(self, vcpu: Vcpu, stop: Stop) -> None:
        """Handle the `stop` of `vcpu`."""
        match stop.why:
            case Why.CALL:
                try:
                    hypercall.dispatch(self, vcpu)
                except (hypercall.GuestFault, MemoryFault) as error:
                    detail = f"bad hypercall: {error}"
                    self._die(vcpu, Fault(Access.OTHER, detail=detail))
            case Why.INTERRUPT:
                self._trap(vcpu, stop.number)
            case Why.HALT:
                vcpu.state = State.IDLE
                vcpu.idle_calls += 1
            case Why.FAULT:
                assert stop.fault is not None
                self._die(vcpu, stop.fault)
            case Why.DEADLINE | Why.REACHED:
                pass

    def _trap(self, vcpu: Vcpu, number: int) -> None:
        facts = self.port.facts
        known = facts.breakpoint
        if known is not None and number == known.interrupt:
            ip = vcpu.registers.pc - known.reported_at
            if not self.services.breakpoint(vcpu.number, ip) and not self._probed(vcpu, ip):
                vcpu.registers.pc = ip
                self._die(vcpu, Fault(Access.OTHER, detail="unexpected breakpoint"))
            return
        probes = probes_of(self.port)
        if probes is not None and number == probes.breakpoint.interrupt:
            ip = vcpu.registers.pc - probes.breakpoint.reported_at
            if self._probed(vcpu, ip):
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

    def _probed(self, vcpu: Vcpu, ip: int) -> bool:
        """Have the guest handle the breakpoint at `ip`. Return False if it is not a kprobe's."""
        probes, entry = probes_of(self.port), self.symbols.address(interrupt.TRAP_ENTRY, TRACER)
        if probes is None or entry is None or not self.services.kprobe(ip):
            return False
        try:
            interrupt.deliver_trap(vcpu, self.memory, self.port, self.symbols, entry, ip)
        except MemoryFault as error:
            self._die(vcpu, Fault(Access.INTERRUPT, detail=f"no stack for a breakpoint: {error}"))
        return True

    def _trapped_at(self, vcpu: Vcpu, number: int) -> int:
        """Return the address at which `vcpu` raised trap `number`."""
        address, size = vcpu.block
        try:
            block = self.memory.read(address, size)
        except MemoryFault:
            return address
        return self.port.trapped_at(number, vcpu.registers.read(), address, block)

    def _die(self, vcpu: Vcpu, fault: Fault) -> None:
        """Oops: stop `vcpu` for good, with a report in dmesg and in `oopses`."""
        vcpu.state = State.DEAD
        self.fault_address = fault.address
        count = len(self.oopses) + 1
        crash = oops.gather(vcpu, self.memory, self.port, self.symbols, fault, count)
        lines = self.port.oops(crash)
        self._note(vcpu, fault.detail or lines[0], lines)

    def _note(self, vcpu: Vcpu, reason: str, lines: tuple[str, ...]) -> None:
        for line in lines:
            self.dmesg.write(vcpu.ticks, line)
        pc = vcpu.registers.pc
        self.oopses.append(GuestOops(reason, cpu=vcpu.number, pc=pc, report=lines))
        self.services.died(vcpu.number)

    def panic(self, vcpu: Vcpu, text: bytes) -> None:
        """Stop every vCPU: the guest on `vcpu` panics with the message `text`."""
        said = text.rstrip(b"\0\n").decode("ascii", "backslashreplace")
        prefix = "Kernel panic - not syncing: "
        reason = prefix + said.removeprefix(prefix)
        for other in self.vcpus:
            other.state = State.DEAD
        self._note(vcpu, reason, (reason, f"CPU: {vcpu.number} PID: {int(vcpu.local['pid'])}"))

    # Code and registers

    def flush(
        self,
        start: int | None = None,
        end: int | None = None,
        cpus: Sequence[int] | None = None,
    ) -> None:
        """Flush translated code in [start, end), or everywhere, of all vCPUs or of `cpus`.

        This is the kernel's `flush_icache_range`. A vCPU that is left out continues to run the
        old bytes of code that it has run before.
        """
        for vcpu in self.vcpus if cpus is None else [self._vcpu(cpu) for cpu in cpus]:
            vcpu.flush(start, end)

    def keep_old(self, addresses: Addresses, size: int, flushed: Sequence[int]) -> None:
        """Note that `size` bytes at each of `addresses` are about to change.

        vCPUs that are not in `flushed` keep the old text that they have executed.
        """
        for vcpu in self.vcpus:
            if vcpu.number not in flushed:
                for address in addresses.tolist():
                    vcpu.keep_old(address, size)

    def registers(self, cpu: int) -> dict[str, int]:
        """Return the registers of vCPU `cpu` by name, in the order of pt_regs."""
        return self._vcpu(cpu).registers.read()

    def set_registers(self, cpu: int, values: Mapping[str, int]) -> None:
        """Change registers of vCPU `cpu`. Raises `UsageError` for an unknown name."""
        self._vcpu(cpu).registers.write(values)

    def take_time(self, cpu: int, ns: int) -> int:
        """Advance the clock of vCPU `cpu` by `ns`; return its virtual time in ns."""
        vcpu = self._vcpu(cpu)
        vcpu.ticks += ns
        return vcpu.ticks

    def answer(self, cpu: int) -> None:
        """End the hypercall in which vCPU `cpu` waits, with the result 0."""
        hypercall.answer(self._vcpu(cpu), 0)

    def _vcpu(self, cpu: int) -> Vcpu:
        if not 0 <= cpu < len(self.vcpus):
            raise UsageError(f"CPU {cpu} does not exist: valid CPUs are 0-{len(self.vcpus) - 1}")
        return self.vcpus[cpu]

    # Checkpoints

    def save(self) -> Restore:
        """Return a function that restores the machine, between two runs.

        Restoring flushes changed text on every vCPU, except for text that was already stale.
        """
        image = self.snapshots.take()
        vcpus = [vcpu.save() for vcpu in self.vcpus]

        def memory() -> None:
            changed = self.snapshots.restore(image)
            for vcpu in vcpus:
                vcpu(changed)

        log, asked = self.dmesg.save(), in_order(self.requests.save(), self.updates.save())
        own = attributes(self, "oopses", "fault_address")
        return in_order(memory, log, asked, self.scheduler.save(), own)
