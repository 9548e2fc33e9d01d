"""Turns of the vCPUs, and runs made of them.

The vCPUs take turns of `SLICE_NS` of virtual time, the one with the lowest time first and
of equals the lowest number. A slice ends early if an interrupt falls due. Nothing depends on
the host's time or on how a run is divided into calls of `run`: what happens is one fixed
sequence of slices. As long as the same vCPU has the next turn and no interrupt falls due, its
slices follow each other without a stop of the engine (`_slices`).

`stop` is the one exception: it ends a run at the end of the current slice, which depends on
the host's time. The slices before and after it are the same as without it.

A run can also stop before an instruction (`run_to`), in the middle of a block and of a
slice. The clock then shows the time of the instructions that ran. The next run counts the rest of
the block and resumes the slice. So such a run is the same slices and the same bytes, timestamps
included, as one without the stop.

A replay may stop even inside a command of the host (`replay`): a `Horizon` is a time of one vCPU,
and at that time `Arrived` is raised through whatever the host is doing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from ..abi import TICK_NS
from ..errors import GuestError, GuestHang, GuestInterrupted, GuestOops
from ..memento import Restore, attributes, in_order
from .clock import Slices
from .vcpu import State, Stop, Vcpu, Why

SLICE_NS = 50_000
"""Virtual ns of one turn."""

OOPS_GRACE_NS = 1_000_000_000
"""Grace period, in virtual ns, for a run to finish after a vCPU has oopsed."""

_LATE_NS = 4 * TICK_NS
"""Virtual ns for which turns follow each other while interrupts are due but disabled."""

STOPS_A_TURN = 500
"""Maximum number of calls and traps answered in one turn, so that `stop` never waits for long."""

BRIEF_NS = 2_000
"""Virtual ns of a turn while CPUs wait for each other: the longest delay of the end of a wait."""

RETURN_NS = 5_000_000
"""Virtual ns to wait for a task to come back to the place where its vCPU was kept."""

_STEP_NS = 64
"""Virtual ns of a turn in `run_while`: a few blocks."""


@dataclass(slots=True)
class Turn:
    """The unfinished part of a vCPU's time slice, kept so that the next run resumes it."""

    vcpu: Vcpu
    deadline: int
    """Virtual ns at which it ends."""
    stops: int = STOPS_A_TURN
    """Calls and traps that the machine may still answer in it."""


class Arrived(Exception):
    """A replay has reached its horizon. `Scheduler.replay` catches it: it is not an error."""


@dataclass(slots=True)
class Held:
    """A vCPU that is kept where it is."""

    vcpu: Vcpu
    pc: int
    sp: int
    pid: int
    turn: Turn | None
    """Its unfinished turn, if it has one."""

    @property
    def here(self) -> bool:
        """Whether the vCPU is at its place, and can run another task at once."""
        registers, local = self.vcpu.registers, self.vcpu.local
        return (
            registers.pc == self.pc
            and registers.sp == self.sp
            and int(local["pid"]) == self.pid
            and not local["irqs_disabled"]
            and not local["need_resched"]
            and not local["preempt_count"]
        )


@dataclass(frozen=True, slots=True)
class Wait:
    """What `run_beside` waits for."""

    done: Callable[[], bool]
    places: frozenset[int]
    wanted: Callable[[Vcpu], bool]
    went_on: Callable[[], None]
    """Called when the wait ends in a later run, because a replay stopped before its end."""


@dataclass(slots=True)
class Horizon:
    """The end of a replay: the first block of vCPU `cpu` that starts at or after `time`.

    If the vCPU sleeps then, or has stopped, the end is when no vCPU has anything left to do before
    `time`. From `watch` on, `visit` is called when a vCPU is about to execute one of `places`.
    Times are virtual ns.
    """

    cpu: int
    time: int
    arrive: Callable[[], None]
    """Called at the end, while the machine is at that instant; then `Arrived` is raised."""
    places: Collection[int] = ()
    watch: int = 0
    visit: Callable[[Vcpu], None] = lambda vcpu: None
    watching: bool = False

    @property
    def next(self) -> int:
        """Virtual ns at which to act next: to begin to watch, or to arrive."""
        return self.time if self.watching or not self.places else self.watch


class Guest(Protocol):
    """The machine, as far as its scheduler needs it."""

    @property
    def oopses(self) -> Sequence[GuestOops]:
        """The oopses so far."""
        ...

    def wake(self, vcpu: Vcpu) -> bool:
        """Move an idle vCPU to its next interrupt. Return False if it keeps sleeping."""
        ...

    def deliver(self, vcpu: Vcpu) -> bool:
        """Deliver the interrupt that is due, if any. Return False if that killed the vCPU."""
        ...

    def handle(self, vcpu: Vcpu, stop: Stop) -> None:
        """Handle the `stop` of `vcpu`."""
        ...


def _nothing() -> None:
    pass


class Scheduler:
    """Runs the vCPUs of one machine."""

    def __init__(self, vcpus: Sequence[Vcpu], guest: Guest) -> None:
        self._vcpus = vcpus
        self._guest = guest
        self._open: Turn | None = None
        """A turn that has stopped at a place; the next run resumes it."""
        self._wanted: Callable[[Vcpu], bool] = _nowhere
        """Whether a vCPU that has reached a place (`Vcpu.stop_at`) stops there."""
        self._places: Collection[int] = ()
        """The places of `run_to`."""
        self._horizon: Horizon | None = None
        self._held: Held | None = None
        """The vCPU that `run_beside` keeps where it is."""
        self._wait: Wait | None = None
        """What `run_beside` waits for. A replay may end before that: then the next runs wait on."""
        self._patience: int | None = None
        """Virtual ns until which it waits for the task that it keeps, once all else is done."""
        self._found = False
        """Whether a vCPU has reached one of its places."""
        self._slice = SLICE_NS
        """Virtual ns of one turn now."""
        self._away: Held | None = None
        """The vCPU that `run_beside` has kept, if its task has not come back yet."""
        self.stands: int | None = None
        """Number of the vCPU that the last run or step has led to a place."""
        self._reached = 0
        self._running = False
        self._stop = False
        self.between: Callable[[], None] = _nothing
        """Called between two turns of a run, with no turn open, but not in `run_beside`: what
        runs on from there later has other turns."""
        self.begin: Callable[[], None] = _nothing
        """Called when a run begins."""
        self.end: Callable[[], None] = _nothing
        """Called when a run has ended."""

    @property
    def now(self) -> int:
        """Highest virtual time of any vCPU in ns, or the end of an idle run if later."""
        return max(self._reached, *(vcpu.ticks for vcpu in self._vcpus))

    @property
    def alive(self) -> bool:
        """Whether any vCPU can still run."""
        return any(vcpu.state in (State.RUNNING, State.IDLE) for vcpu in self._vcpus)

    @property
    def standstill(self) -> str:
        """Clause that says why no vCPU can run."""
        return f"no CPU is running{self._not_booted}"

    def not_running(self, cpu: int) -> GuestError:
        """Return the error for an action that needs vCPU `cpu` to run."""
        return GuestError(f"CPU {cpu} is not running{self._not_booted}")

    @property
    def _not_booted(self) -> str:
        never = all(vcpu.state is State.OFF for vcpu in self._vcpus)
        return ": the kernel has not booted, but `call` runs its functions" if never else ""

    # Runs

    def run(self, ns: int) -> bool:
        """Run for `ns` of virtual time. Return True if `stop` ended the run early."""
        return self.take_turns(lambda: False, self.now + ns)

    def run_until(self, done: Callable[[], bool], limit_ns: int, what: str) -> None:
        """Run until `done()` holds at the end of a slice; `what` is named in errors.

        `done()` may depend only on state that hypercalls and faults change: it is not called
        between slices without one.

        Raises `GuestHang` after `limit_ns` of virtual time, `GuestOops` or `GuestError` if no
        vCPU is left to get there, `GuestInterrupted` on `stop`.
        """
        oopses = self._guest.oopses
        limit = self.now + limit_ns
        before = len(oopses)

        def settled() -> bool:
            return done() or len(oopses) > before

        if self.take_turns(settled, limit):
            raise GuestInterrupted(what)
        if not done() and len(oopses) > before and self.alive:
            limit = min(limit, self.now + OOPS_GRACE_NS)
            if self.take_turns(done, limit):
                raise GuestInterrupted(what)
        if done():
            return
        if len(oopses) > before:
            raise oopses[before].ended(f"{what} did not finish")
        if not self.alive:
            raise GuestError(f"{what} cannot finish: {self.standstill}")
        raise GuestHang(what, limit_ns)

    def run_to(
        self,
        places: Collection[int],
        wanted: Callable[[Vcpu], bool],
        limit_ns: int,
        what: str,
        ended: Callable[[], str | None] = lambda: None,
    ) -> Vcpu:
        """Run until a vCPU for which `wanted` holds is at one of `places`, and return it.

        A vCPU that is at a place now counts only when it comes there again. `what` is named in
        errors; `ended` may return the reason why no vCPU will get there any more. Raises
        `GuestOops` if a vCPU oopses first, `GuestError` after `limit_ns` of virtual time, and
        `GuestInterrupted` on `stop`.
        """
        oopses = self._guest.oopses
        found: list[Vcpu] = []
        before, limit = len(oopses), self.now + limit_ns

        def stops(vcpu: Vcpu) -> bool:
            if wanted(vcpu):
                found.append(vcpu)
            return bool(found)

        def over() -> bool:
            return bool(found) or len(oopses) > before or ended() is not None

        if self._wait is not None and self._places:
            self._end_wait()  # that of a replay: a vCPU stops at the places of one run
        self._wanted, self._places = stops, places
        try:
            self._stop_at_places()
            stopped = self.take_turns(over, limit)
        finally:
            self._wanted, self._places = _nowhere, ()
            self._stop_at_places()
        if found:
            self.stands = found[0].number
            return found[0]
        if stopped:
            raise GuestInterrupted(f"the run to {what}")
        if len(oopses) > before:
            raise oopses[before].ended(f"{what} was not reached")
        why = ended()
        if why is None and not self.alive:
            why = self.standstill
        raise GuestError(
            f"{what} was not reached: {why}"
            if why
            else f"{what} was not reached within {limit_ns / 1e9:.3g} s of virtual time"
        )

    def run_beside(
        self,
        done: Callable[[], bool],
        limit_ns: int,
        places: Collection[int] = (),
        wanted: Callable[[Vcpu], bool] = lambda vcpu: True,
        worker: int | None = None,
        went_on: Callable[[], None] = _nothing,
    ) -> bool:
        """Run until `done()`, or until a vCPU for which `wanted` holds is at one of `places`.

        A vCPU that stands at a place (`stands`) stays there: as if asleep, it runs only to handle
        interrupts, and the tasks that they wake. It cannot stay while interrupts or preemption
        are off, nor in the task with the pid `worker`. Return False after `limit_ns` of virtual
        time, or if no vCPU is left. `stop` has no effect. For `went_on`, see `Wait`.
        """
        if self._wait is None:  # else a replay has ended in the middle of another one
            self._hold(worker)
        self._wait = Wait(done, frozenset(places), wanted, went_on)
        self._patience, self._found, self._slice = None, False, BRIEF_NS
        self._wanted, self._places = self._stops_waiting, self._wait.places
        limit = self.now + limit_ns
        try:
            self._wait_on()
            self.stands = self._away = None
            while self._take_turns(self._waited, limit) and not self._waited():
                pass  # `stop` has no effect
        finally:
            found = self._found
            self._end_wait()
        return found or done()

    def _stops_waiting(self, vcpu: Vcpu) -> bool:
        """Whether `run_beside` stops, now that `vcpu` is at one of its places."""
        assert self._wait is not None
        self._found = self._found or self._wait.wanted(vcpu)
        return self._found

    def _waited(self) -> bool:
        """Whether the condition of `run_beside` holds."""
        assert self._wait is not None
        if not self._found and not self._wait.done():
            return False
        if self._found or self._held is None or self._held.vcpu.state is not State.RUNNING:
            return True
        self._patience = self.now + RETURN_NS if self._patience is None else self._patience
        return self.now >= self._patience

    def _end_wait(self) -> None:
        """Release the vCPU that was kept, which takes turns as usual again."""
        held = self._held
        self._wanted, self._places, self._held, self._wait = _nowhere, (), None, None
        self._slice, self._open = SLICE_NS, None
        self._stop_at_places()
        if held is not None and held.vcpu.state is State.IDLE and held.here:
            held.vcpu.state = State.RUNNING
            self._open, self.stands = held.turn, held.vcpu.number
        else:
            self._away = held

    def _hold(self, worker: int | None) -> None:
        """Keep the vCPU that has stopped at a place there, unless it runs `worker`."""
        turn, self._open, self._held = self._open, None, None
        number = self.stands if turn is None else turn.vcpu.number
        if number is None:
            self._held = self._away
            return
        vcpu = self._vcpus[number]
        registers, local = vcpu.registers, vcpu.local
        held = Held(vcpu, registers.pc, registers.sp, int(local["pid"]), turn)
        if vcpu.state is State.RUNNING and held.here and held.pid != worker:
            self._held, vcpu.state = held, State.IDLE

    def run_while(self, busy: Callable[[Vcpu], bool], vcpus: Sequence[Vcpu], limit_ns: int) -> None:
        """Run the `busy` ones of `vcpus`, a few blocks each in turn, until no vCPU is busy.

        Stops after `limit_ns` of virtual time. A vCPU that has oopsed makes no progress and is
        left out.
        """
        for _ in range(limit_ns // _STEP_NS):
            running = [vcpu for vcpu in vcpus if vcpu.state is State.RUNNING and busy(vcpu)]
            if not running:
                break
            for vcpu in running:
                self.turn(vcpu, ns=_STEP_NS)

    def sync(self) -> None:
        """Run every vCPU that is not idle for one slice."""
        for vcpu in self._vcpus:
            if vcpu.state is State.RUNNING:
                self.turn(vcpu)

    # Stopping

    def stop(self) -> None:
        """End the current run at the end of its slice; called from another thread.

        That takes less than a few milliseconds, and loses nothing: the next run resumes.
        Does nothing outside a run.
        """
        self._stop = self._running

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Heed `stop` while the context lasts."""
        self._running, self._stop = True, False
        try:
            yield
        finally:
            self._running = self._stop = False

    @property
    def running(self) -> bool:
        """Whether a run is under way."""
        return self._running

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called during the current run."""
        return self._stop

    # Turns

    def take_turns(self, done: Callable[[], bool], target: int) -> bool:
        """Take turns until `done`, or until all vCPUs have reached `target` (virtual ns).

        Return True if `stop` ended it earlier.
        """
        self.begin()
        self.stands = self._away = None
        try:
            return self._take_turns(done, target)
        finally:
            self.end()

    def _take_turns(self, done: Callable[[], bool], target: int) -> bool:
        with self.interruptible():
            while not done():
                if self._wait is not None and self._open is None and self._waited():
                    went_on = self._wait.went_on
                    self._end_wait()  # a replay has ended in its middle, and this run continues
                    self.stands = self._away = None
                    went_on()
                if self._open is not None:
                    turn, self._open = self._open, None
                    self._resume(turn)
                else:
                    vcpu, wake = self._next()
                    if self._horizon is not None:
                        self._check_horizon(min(wake, target) if vcpu is not None else None)
                    if vcpu is None:
                        return False
                    if wake >= target:
                        # Sleeping vCPUs have not moved, but time has passed.
                        self._reached = max(self._reached, target)
                        return False
                    self.turn(vcpu, target=target, done=done)
                if self._stop:
                    return not done()
                if self._open is None and self._slice == SLICE_NS:
                    self.between()
            return False

    def turn(
        self,
        vcpu: Vcpu,
        halt_at: int | None = None,
        ns: int | None = None,
        target: int = 0,
        done: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Run one slice of `ns` of `vcpu` (default: the usual length).

        Its next turns follow at once, before `target` (virtual ns) and until `done()`, if nothing
        else happens between them. Return False if `stop` was called meanwhile. A host call ends
        where the engine halts at `halt_at`: the vCPU does not go idle, and the others have no turns
        until then.
        """
        if vcpu.state is State.IDLE and not self._guest.wake(vcpu):
            return True
        if not self._guest.deliver(vcpu):
            return True
        now = vcpu.ticks
        end = now + (self._slice if ns is None else ns)
        turn = Turn(vcpu, vcpu.interrupts.next_after(now, end))
        return self._resume(turn, halt_at, target, done)

    def _slices(self, vcpu: Vcpu, target: int, alone: bool) -> Slices:
        """Return the turns of `vcpu` between which nothing would happen, up to `target`.

        `alone` means that no other vCPU gets turns meanwhile.
        """
        if self._horizon is not None or self._wait is not None or self._slice != SLICE_NS:
            return Slices()
        due = vcpu.interrupts.next()
        # If they are disabled, other turns follow; `stop` must not wait for long.
        late = max(due, vcpu.ticks) + _LATE_NS
        limit = min(target, late if vcpu.interrupts.only_ticks else due)
        for other in () if alone else self._vcpus:
            if other is not vcpu and other.state in (State.RUNNING, State.IDLE):
                # Of equals, the vCPU with the lowest number is next.
                limit = min(limit, other.wake + (other.number > vcpu.number))
        return Slices(limit, SLICE_NS, due)

    def _resume(
        self,
        turn: Turn,
        halt_at: int | None = None,
        target: int = 0,
        done: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Run the rest of a slice, and the turns after it as `turn` says.

        If it stops at a place, keep it open for the next run. Return False if `stop` was called
        meanwhile.
        """
        vcpu, handled = turn.vcpu, False
        while turn.stops and vcpu.state is State.RUNNING:
            turn.deadline = vcpu.interrupts.until_nmi(turn.deadline)
            horizon, deadline = self._horizon, turn.deadline
            if horizon is not None and horizon.cpu == vcpu.number and horizon.next < deadline:
                if vcpu.ticks >= horizon.next:
                    self._act(horizon, turn)
                    continue
                deadline = horizon.next
            if target and not (handled and done()):
                stop = vcpu.run(deadline, self._slices(vcpu, target, halt_at is not None))
                if vcpu.deadline > turn.deadline:  # it is in a later turn
                    turn.deadline, turn.stops = vcpu.deadline, STOPS_A_TURN
                deadline = max(deadline, vcpu.deadline)
            else:
                stop = vcpu.run(deadline)
            if stop.why is Why.DEADLINE:
                if deadline < turn.deadline:
                    continue
                break
            if stop.why is Why.REACHED:
                if horizon is not None and horizon.watching:
                    self._visit(horizon, turn)
                held = self._held
                if held is not None and held.vcpu is vcpu and held.here:
                    vcpu.hold()
                    vcpu.state = State.IDLE
                    break
                if vcpu.registers.pc in self._places and self._wanted(vcpu):
                    self._open = turn
                    break
                vcpu.pass_by()
                continue
            if stop.why is Why.HALT and halt_at is not None and vcpu.registers.pc == halt_at:
                break
            self._guest.handle(vcpu, stop)
            turn.stops -= 1
            handled = True
        return not self._stop

    def _next(self) -> tuple[Vcpu | None, int]:
        """Return the vCPU whose turn it is, and the virtual time of that turn."""
        best, when = None, 0
        for vcpu in self._vcpus:
            if vcpu.state is State.RUNNING or vcpu.state is State.IDLE:
                wake = vcpu.wake
                if best is None or wake < when:
                    best, when = vcpu, wake
        return best, when

    # Replays

    def replay(self, horizon: Horizon, action: Callable[[], None]) -> bool:
        """Do `action`, which runs the machine, up to `horizon`. Return whether it got there.

        An `action` that is left early is not undone: restore a state that `horizon.arrive` has
        saved.
        """
        self._horizon = horizon
        try:
            action()
        except Arrived:
            return True
        finally:
            self._horizon, self._open = None, None
            self._stop_at_places()
        return False

    def pass_horizon(self, vcpu: Vcpu) -> None:
        """Act on the horizon before `vcpu` executes a single instruction."""
        horizon = self._horizon
        if horizon is None:
            return
        while vcpu.number == horizon.cpu and vcpu.ticks >= horizon.next:
            self._act(horizon, None)
        if horizon.watching and vcpu.registers.pc in horizon.places:
            horizon.visit(vcpu)

    def _check_horizon(self, wake: int | None) -> None:
        """Act on the horizon if the next turn, at `wake` (None: never), is not before it.

        A run that ends before it does not count: what comes next may wake a vCPU.
        """
        while (horizon := self._horizon) is not None and (wake is None or wake >= horizon.next):
            self._reached = max(self._reached, horizon.next)
            self._act(horizon, None)

    def _act(self, horizon: Horizon, turn: Turn | None) -> None:
        """Begin to watch, or arrive. `turn` is the turn that got there, if any."""
        self._open = turn
        if horizon.watching or not horizon.places:
            horizon.arrive()
            raise Arrived
        horizon.watching = True
        for vcpu in self._vcpus:
            if vcpu.state is State.RUNNING and vcpu.registers.pc in horizon.places:
                horizon.visit(vcpu)
        self._open = None
        self._stop_at_places()

    def _visit(self, horizon: Horizon, turn: Turn) -> None:
        if turn.vcpu.registers.pc in horizon.places:
            self._open = turn
            horizon.visit(turn.vcpu)
            self._open = None

    def _stop_at_places(self) -> None:
        """Have the vCPUs stop at the places of this run and those of the horizon."""
        horizon = self._horizon
        watched = horizon.places if horizon is not None and horizon.watching else ()
        held = () if self._held is None else (self._held.pc,)
        for vcpu in self._vcpus:
            vcpu.stop_at({*self._places, *watched, *held})

    # Checkpoints

    def save(self) -> Restore:
        """Return a function that restores the turns, between two runs."""
        waits = ("_wait", "_patience", "_found", "_held", "_slice", "_wanted", "_places")
        kept = [attributes(self, "_reached", "_open", "stands", "_away")]
        if self._open is not None:
            kept.append(attributes(self._open, "stops"))
        if self._wait is not None:
            return in_order(*kept, attributes(self, *waits), self._wait_on)
        return in_order(self._no_wait, *kept)

    def _wait_on(self) -> None:
        """Have the vCPUs stop where `run_beside` needs it."""
        self._stop_at_places()
        if self._held is not None and self._held.vcpu.state is State.IDLE:
            self._held.vcpu.hold()

    def _no_wait(self) -> None:
        """Cancel the wait of `run_beside`."""
        if self._wait is not None:
            self._held = None
            self._end_wait()


def _nowhere(vcpu: Vcpu) -> bool:
    return False
