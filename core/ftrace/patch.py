"""The one place where text is written: read, compare, write, flush.

An `Edit` has the expected and the new text of n places. All places are compared first; if
one differs, or its page cannot be read or written, nothing is written and `FtraceBug` names
it. Then the phases of the chosen method are performed (phases.py), each with all places at
once: translated code is this machine's instruction cache, and a vCPU that is not flushed
goes on running the old bytes.

stop_machine does not stop NMIs. One that comes in the middle of a change (`nmi CPU change`)
comes after the first word of the first place was written, or between the steps of breakpoint.

A change that is watched is not written at once. Its phases and the data that the host writes
between them are recorded, everything is put back, and a `Patch` waits to be performed phase by
phase (`watched`, `next`). So the middle of a change is a state like any other: it can be saved,
and the machine can run in it.

A change that the guest prepares is recorded too, and performed at once: a task of the guest stops
all CPUs, or makes them execute sync_core(), and asks for the writes (`poke`). If the guest
cannot, the host writes between two instructions, which takes no virtual time.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..abi import MultiStop, TextPoke, UpdateMethod
from ..arch import Addresses, Bytes, Edit, ModuleStub, Port
from ..errors import FtraceBug, FtraceBugType, GuestError, MemoryFault, UsageError
from ..memento import Restore, attributes
from .phases import (
    BREAKPOINT,
    DATA,
    NMI_ENTER,
    NONE,
    SITES,
    SLOTS,
    STOP_MACHINE,
    Act,
    Patch,
    Phase,
    Round,
    Write,
    by_stoppers,
    merged,
    phases_of,
)

__all__ = [
    "BREAKPOINT",
    "NMI_ENTER",
    "NONE",
    "STOP_MACHINE",
    "Patcher",
    "joined",
    "stub_target",
]

UNDER_WAY = "a patch is under way: type `patch finish`, or `patch next` for its next phase"


PLACE_NS = 64
"""Virtual ns in which a CPU changes one place: about sixteen instructions that read, compare, write
and flush. The host does that work, so no instructions of the guest can be counted."""

_BY_GUEST = {
    STOP_MACHINE: UpdateMethod.STOP_MACHINE,
    NMI_ENTER: UpdateMethod.STOP_MACHINE,
    BREAKPOINT: UpdateMethod.BREAKPOINT,
}
"""The guest's part in a method; the other methods need no help from the guest."""

_STATES = {Act.PREPARE: MultiStop.PREPARE, Act.DISABLE_IRQ: MultiStop.DISABLE_IRQ}


@dataclass(frozen=True, slots=True)
class Timing:
    """Duration of a change that the guest prepared, in virtual ns."""

    method: str
    places: int
    cpu: int
    """The CPU that wrote."""
    asked: int
    first: int
    """The beginning of the first write."""
    last: int
    """The end of the last write."""
    ended: int


class Updates(Protocol):
    """The changes that the guest prepares, as far as patching needs them."""

    @property
    def pending(self) -> bool: ...

    def obstacle(self) -> str | None: ...

    def ask(self, method: UpdateMethod) -> None: ...

    def wake(self) -> None: ...

    def state(self) -> MultiStop: ...

    def run(
        self, done: Callable[[], bool], after: MultiStop | None, went_on: Callable[[], None]
    ) -> bool: ...


class Text(Protocol):
    """Guest memory, as far as patching needs it."""

    def read(self, address: int, size: int) -> bytes: ...

    def write(self, address: int, data: bytes) -> None: ...

    def gather(self, addresses: Addresses, width: int) -> tuple[Bytes, NDArray[np.bool_]]: ...

    def scatter(self, addresses: Addresses, data: Bytes) -> None: ...

    def writable(self, addresses: Addresses, width: int) -> NDArray[np.bool_]: ...

    def logged(self) -> AbstractContextManager[list[tuple[Addresses, Bytes, Bytes]]]: ...


class Processors(Protocol):
    """The machine, as far as patching needs it."""

    @property
    def memory(self) -> Text: ...

    @property
    def updates(self) -> Updates: ...

    @property
    def now(self) -> int: ...

    def save(self) -> Restore: ...

    def take_time(self, cpu: int, ns: int) -> int: ...

    def answer(self, cpu: int) -> None: ...

    def flush(
        self, start: int | None = None, end: int | None = None, cpus: Sequence[int] | None = None
    ) -> None: ...

    def keep_old(self, addresses: Addresses, size: int, flushed: Sequence[int]) -> None: ...

    def sync(self) -> None: ...

    def nmis_in_change(self) -> Sequence[int]: ...

    def take_nmi(self, cpu: int) -> None: ...

    def registers(self, cpu: int) -> Mapping[str, int]: ...

    def set_registers(self, cpu: int, values: Mapping[str, int]) -> None: ...


def stub_target(port: Port, stub: ModuleStub, found: bytes) -> int | None:
    """Return the address that `stub` leads to if it holds `found`, or None if it is damaged."""
    if port.stubs is None:
        return port.call_target(stub.address, found)
    return port.stubs.target(stub.address, found, stub.toc)


_NO_TARGETS = np.empty(0, np.uint64)

MOST_PERFORMED = 200
"""Phases that a patcher remembers."""


class Performed(NamedTuple):
    """A phase that was performed."""

    ns: int
    """Virtual ns at its start.

    `Act.DISABLE_IRQ` starts when all CPUs have done it, because the guest does not announce it.
    """
    act: Act
    safe: bool


class Patcher:
    """Applies edits to the text of a machine."""

    def __init__(self, machine: Processors, port: Port) -> None:
        self._machine = machine
        self._port = port
        self._method = port.facts.patch_methods[0]
        self.flush_cpus: tuple[int, ...] | None = None
        """vCPUs to flush after a write; None means all.

        Leaving one out demonstrates a stale instruction cache.
        """
        self.watching = False
        """Whether the next change of text stops in front of its first phase."""
        self.watched_ip: int | None = None
        """The site to show, and to stop at; None for the first one that changes."""
        self.patch: Patch | None = None
        """The watched change that is under way."""
        self.performed: tuple[Performed, ...] = ()
        """The last phases, at most `MOST_PERFORMED`, oldest first."""
        self.after: Callable[[], None] | None = None
        """What the command does after the change that is under way; see `_went_on`."""
        self._recording: list[Round] | None = None
        """The rounds of the change that is being recorded."""
        self._log: list[tuple[Addresses, Bytes, Bytes]] = []
        """What the host writes while a change is recorded."""
        self._under_breakpoint: Edit | None = None
        """The edit whose breakpoints are in the text now."""
        self._may = 0
        """Number of phases that the guest may have performed now."""
        self._syncing = False
        """Whether the guest's CPUs execute sync_core() now."""
        self._waiting: int | None = None
        """The CPU that waits in the middle of its writes, with all CPUs stopped."""
        self.last: Timing | None = None
        """The last change that the guest prepared."""
        self._asked = 0
        """Virtual ns at which the guest was asked for the change under way."""
        self._wrote: list[tuple[int, int, int]] = []
        """For each write of it: the CPU, and virtual ns at its beginning and its end."""

    @property
    def obstacle(self) -> str | None:
        """Why the guest cannot prepare a change by the present method; None if it can."""
        if self._method not in _BY_GUEST:
            return f"{self._method} needs nothing of it"
        return self._machine.updates.obstacle()

    @property
    def method(self) -> str:
        """How text is written: one of the port's `patch_methods`."""
        return self._method

    @method.setter
    def method(self, method: str) -> None:
        known = self._port.facts.patch_methods
        if method not in known:
            raise UsageError(f"unknown patch method {method!r} (choose from: {', '.join(known)})")
        self._method = method

    def save(self) -> Restore:
        """Return a function that restores the method, the vCPUs to flush and the patch."""
        names = "_method", "flush_cpus", "watching", "watched_ip", "patch", "last"
        own = "_under_breakpoint", "_may", "_syncing", "_waiting", "_asked", "_wrote"
        return attributes(self, *names, *own, "performed", "after")

    @property
    def under_way(self) -> Patch | None:
        """The change that the guest performs without a stop, if `goto` leads into its middle."""
        patch = self.patch
        return patch if patch is not None and patch.guest and not patch.watched else None

    @property
    def phase(self) -> int:
        """Number of phases before the one in which the change that is under way is now."""
        assert self.patch is not None
        done, act, state = self.patch.done, self.patch.current.act, self._machine.updates.state()
        if act is Act.PREPARE:  # the guest asks for the writes, not for the states before
            return done + {MultiStop.DISABLE_IRQ: 1, MultiStop.RUN: 2}.get(state, 0)
        return done - (act is Act.EXIT and state is MultiStop.RUN)

    @property
    def unfinished(self) -> Act | None:
        """The last phase of a change by the host alone, if `goto` has left it unfinished."""
        last = self.performed[-1].act if self.performed and self.patch is None else None
        if self._under_breakpoint is not None or last in (Act.FIRST_HALF, Act.SLICE):
            return last
        return None

    def verify(self, edit: Edit, stubs: Sequence[ModuleStub] = ()) -> None:
        """Compare every place with the expected text, then the `stubs` that the calls use.

        Raises `FtraceBug` for the first place that differs (EINVAL), cannot be encoded
        (EINVAL), cannot be read (EFAULT) or cannot be written (`Facts.unwritable`).
        """
        if not len(edit.address):
            return
        found, readable = self._machine.memory.gather(edit.address, edit.expected.shape[1])
        same = found == edit.expected
        if edit.lengths is not None:
            same |= np.arange(same.shape[1]) >= edit.lengths[:, None]
        writable = self._machine.memory.writable(edit.address, edit.expected.shape[1])
        same_text = edit.reachable if same.all() else edit.reachable & same.all(axis=1)
        right = readable & same_text & writable
        if not right.all():
            row = int(np.argmin(right))
            ip, at = int(edit.ips[row]), int(edit.address[row])
            expected, there = edit.row(edit.expected, row), edit.row(found, row)
            if not readable[row]:
                raise FtraceBug(ip, errno=errno.EFAULT, expected=expected, address=at)
            if same_text[row]:
                number = self._port.facts.unwritable
                raise FtraceBug(ip, errno=number, expected=expected, address=at)
            reason = self._port.explain(at, expected, there)
            raise FtraceBug(
                ip,
                errno=errno.EINVAL,
                expected=expected,
                found=there,
                address=at,
                reason=reason,
            )
        for stub in stubs:
            self._verify_stub(edit, stub)

    def _verify_stub(self, edit: Edit, stub: ModuleStub) -> None:
        """Raise `FtraceBug` for the first word of `stub` that insmod did not write."""
        users = np.any([via == np.uint64(stub.address) for via in edit.via], axis=0)
        ip = int(edit.ips[int(np.argmax(users))])
        try:
            found = self._machine.memory.read(stub.address, len(stub.code))
        except MemoryFault:
            raise FtraceBug(ip, errno=errno.EFAULT, address=stub.address) from None
        if found == stub.code:
            return
        step = self._port.facts.insn_align
        differ = (at for at, (a, b) in enumerate(zip(stub.code, found, strict=True)) if a != b)
        at = next(differ) // step * step
        leads = stub_target(self._port, stub, found)
        reason = f"the stub of {stub.symbol} at {stub.address:x} "
        if leads is None:
            reason += f"leads nowhere: it is damaged at +{at:#x}"
        elif leads == stub.target:
            reason += f"is not what insmod wrote: it differs at +{at:#x}"
        else:
            reason += f"leads elsewhere: addr {leads:x} does not match expected {stub.target:x}"
        raise FtraceBug(
            ip,
            errno=errno.EINVAL,
            expected=stub.code[at : at + step],
            found=found[at : at + step],
            address=stub.address + at,
            reason=reason,
        )

    def stub_target(self, stub: ModuleStub) -> int | None:
        """Return the address that `stub` leads to now; None if it is no longer a stub."""
        try:
            found = self._machine.memory.read(stub.address, len(stub.code))
        except MemoryFault:
            return None
        return stub_target(self._port, stub, found)

    def apply(
        self,
        edit: Edit,
        method: str | None = None,
        stubs: Sequence[ModuleStub] = (),
        of_sites: bool = False,
        type: FtraceBugType = FtraceBugType.UPDATE,
        targets: Addresses = _NO_TARGETS,
    ) -> None:
        """Verify all of `edit`, then write it by `method` (default: the patcher's own).

        Only changes `of_sites` have NMIs in the middle. If a watched change later finds other text,
        its report names `type` and `targets`.

        Raises `FtraceBug` with nothing written. If anything else ends it early, the text is
        put back.
        """
        self.verify(edit, stubs)
        if not len(edit.address):
            return
        method = self.method if method is None else method
        cpus = tuple(self._machine.nmis_in_change()) if of_sites else ()
        what = SITES if of_sites else SLOTS
        phases = phases_of(edit, method, self._port.facts, cpus, what)
        if self._recording is not None:
            before = self._logged()
            self._recording.append(Round(phases, before, edit.ips, type, targets))
            for write in phases_of(edit, STOP_MACHINE, self._port.facts)[0].writes:
                self._machine.memory.scatter(write.address, write.new)
            self._log.clear()
            return
        try:
            for phase in phases:
                self._perform(phase)
        except BaseException:
            self._under_breakpoint = None
            self.put_back(edit)
            raise

    def put_back(self, edit: Edit) -> None:
        """Write the text that `edit` found, at once, while no vCPU runs."""
        if len(edit.address):
            self._perform(phases_of(edit.reversed(), STOP_MACHINE, self._port.facts)[0])

    def _perform(self, phase: Phase, watched: bool = False) -> None:
        """Write and flush as `phase` says, then run the vCPUs that the phase lets run."""
        machine = self._machine
        self._note(phase, machine.now)
        if phase.edit is not None:
            self._under_breakpoint = phase.edit
        # vCPUs run between two watched phases: until they are flushed, their text is stale.
        slow = watched and self.patch is not None and self.patch.watched
        flushed = () if slow and not phase.told else self.flush_cpus
        for write in phase.writes:
            if flushed is not None and write.text:
                machine.keep_old(write.address, write.new.shape[1], flushed)
            machine.memory.scatter(write.address, write.new)
        for start, end in phase.flushes:
            machine.flush(start, end, self.flush_cpus)
        if watched and self.patch is not None:
            # A replay may end while the guest runs: this phase is already done.
            self.patch = replace(self.patch, done=self.patch.done + 1)
        for cpu in phase.nmis:
            machine.take_nmi(cpu)
        if phase.runs:
            machine.sync()
        if phase.edit is None:
            self._under_breakpoint = None

    def _note(self, phase: Phase, ns: int) -> None:
        """Remember that `phase` has begun at `ns`."""
        last = Performed(ns, phase.act, phase.safe)
        self.performed = (*self.performed[1 - MOST_PERFORMED :], last)

    # A change that is watched

    @property
    def held(self) -> bool:
        """Whether the CPUs are held in the middle of a patch, so that the machine cannot run."""
        return self.patch is not None and self.patch.held

    def check_idle(self) -> None:
        """Raise `UsageError` if a patch is under way."""
        if self.patch is not None:
            raise UsageError(UNDER_WAY)

    def check_may_run(self) -> None:
        """Raise `UsageError` while a patch holds all CPUs."""
        if self.held:
            raise UsageError("the patch holds all CPUs now: type `patch next` first")

    def end_of_command(self) -> None:
        """Note the end of a command: later changes do not join a waiting patch."""
        if self.patch is not None:
            self.patch = replace(self.patch, joinable=False)

    @property
    def joinable(self) -> bool:
        """Whether a change can join the waiting patch."""
        return self.patch is not None and self.patch.joinable and not self.patch.done

    @contextmanager
    def recorded(
        self, rollback: Callable[[], tuple[Callable[[], object], ...]], watched: bool
    ) -> Iterator[None]:
        """Record the changes that are applied in the context, instead of performing them.

        Afterwards memory is as it was before, and `patch` waits in front of its first phase; if
        it is watched, of the first one that writes the watched site. `rollback` returns the
        callbacks that undo the whole change on the host. Further changes join a waiting patch.
        """
        guest = self.obstacle is None
        waits, self._recording = self.patch, []
        if waits is not None:
            self._scatter(waits.writes)
        try:
            with self._machine.memory.logged() as self._log:
                yield
                rest = self._logged()
            rounds = tuple(self._recording)
            if rounds:
                phases = merged(rounds, rest)
                if guest and self._method != BREAKPOINT:
                    phases = by_stoppers(phases)
                patch = Patch(phases, rounds, rollback(), guest=guest, watched=watched)
                self._scatter(each.reversed() for each in reversed(patch.writes))
                self.patch = patch if waits is None else waits.joined(patch)
        finally:
            self._recording, self._log = None, []
            if waits is not None:
                self._scatter(each.reversed() for each in reversed(waits.writes))
        if self.patch is not None and watched and self.watched_ip is not None:
            self._go_to(self.watched_ip)

    def _logged(self) -> tuple[Write, ...]:
        """Return the data that the host has written since the last edit."""
        found = tuple(Write(*each, DATA) for each in self._log)
        self._log.clear()
        return found

    def _scatter(self, writes: Iterator[Write] | tuple[Write, ...]) -> None:
        for write in writes:
            self._machine.memory.scatter(write.address, write.new)

    def _go_to(self, ip: int) -> None:
        """Perform the phases before the first one that writes the site at `ip`."""
        patch, size = self.patch, self._port.facts.sites.size
        assert patch is not None
        here = (number for number, each in enumerate(patch.phases) if each.covers(ip, size))
        before = next(here, 0)
        while before and patch.phases[before - 1].stopping:
            before -= 1  # once the CPUs stop, none can reach the site any more
        for _ in range(before):
            self.next()

    def next(self) -> Phase:
        """Perform the next phase of the patch that is under way, and return it.

        Raises `UsageError` without one. Raises `FtraceBug` if text is not what the patch left
        there or cannot be written: then everything is as before the change.
        """
        patch = self.patch
        if patch is None:
            raise UsageError("no patch is under way: type `patch watch on`, then enable a tracer")
        phase = patch.current
        if not patch.guest:
            self._do(phase)
        elif self._machine.updates.obstacle() is not None and not self._machine.updates.pending:
            self.patch = patch.at_once()
            return self.next()
        else:
            self._next_by_guest(patch)
            self._went_on()
        return phase

    def _do(self, phase: Phase) -> None:
        """Check and perform `phase`, the current one."""
        self._check(phase)
        self._perform(phase, watched=True)
        if self.patch is not None and self.patch.done == len(self.patch.phases):
            self.patch = None

    # A change that the guest prepares

    def perform(self) -> None:
        """Perform the recorded patch, all of it, with the guest's help.

        Raises `FtraceBug` and `GuestError` with everything as it was before.
        """
        patch = self.patch
        if patch is None:
            return
        try:
            self._run_guest(patch, len(patch.phases))
        except GuestError:
            self.patch = None  # memory is as it was
            raise

    def _next_by_guest(self, patch: Patch) -> None:
        """Run the guest until the current phase of `patch` is performed."""
        phase = patch.current
        if self._waiting is None:
            self._run_guest(patch, patch.done + 1, _STATES.get(phase.act), phase)
            return
        cpu = self._waiting
        self._do(phase)
        if self.patch is None or self.patch.current.stopping:
            self._waiting = None
            if self.patch is not None:
                self._begin_exit(self.patch.current)
            self._machine.answer(cpu)

    def _run_guest(
        self,
        patch: Patch,
        until: int,
        state: MultiStop | None = None,
        phase: Phase | None = None,
    ) -> None:
        """Run the guest until `until` phases are performed, or all CPUs are in `state`."""
        machine, updates = self._machine, self._machine.updates
        restore = machine.save(), self.save()
        self._may = until
        if not updates.pending:
            self._asked, self._wrote = machine.now, []
            updates.ask(_BY_GUEST[patch.phases[0].method])
        elif patch.phases[0].method == BREAKPOINT:
            updates.wake()
        if phase is not None and phase.method != BREAKPOINT and not phase.stopping:
            state = MultiStop.RUN
        last = until == len(patch.phases)

        def done() -> bool:
            now = self.patch
            return not last and (now is None or now.done >= until)

        try:
            alive = updates.run(done, state, self._went_on)
        except GuestError:
            for each in restore:
                each()
            raise
        if not alive:
            self._finish_at_once()
        elif state is not None and self.patch is not None and self.patch.done < until:
            self._pass(until)

    def _finish_at_once(self) -> None:
        """Perform the rest after a CPU has oopsed, so that no other CPU sees half of the change."""
        while self.patch is not None:
            self.patch = self.patch.at_once()
            if self.patch.done == len(self.patch.phases):
                self.patch = None
            else:
                self._do(self.patch.current)

    @contextmanager
    def followed(self, after: Callable[[], None]) -> Iterator[None]:
        """Return a context in which a change is followed by the command's call of `after`."""
        self.after = after
        try:
            yield
        finally:
            self.after = None

    def _went_on(self) -> None:
        """Finish the command's work after a change, if `goto` left the command in its middle."""
        if self.patch is None and self.after is not None:
            after, self.after = self.after, None
            after()

    def _pass(self, done: int) -> None:
        """Note that the guest has performed `done` phases by now."""
        if self.patch is None:
            return
        for phase in self.patch.phases[self.patch.done : done]:
            if phase.act is Act.PREPARE:
                self._note(phase, self._asked)
            elif phase.stopping:
                self._note(phase, self._machine.now)
        self.patch = replace(self.patch, done=done)

    def poke(self, cpu: int) -> TextPoke | None:
        """Perform the phases that may be performed now: `cpu` has prepared the others.

        Return what the guest does next; None leaves it waiting, with all CPUs stopped. Raises
        `FtraceBug`.
        """
        patch = self.patch
        if patch is None or not patch.guest:
            return TextPoke.DONE
        if self._syncing:
            self._syncing = False
            self._pass(patch.done + 1)
            self._under_breakpoint = None if patch.current.edit is None else self._under_breakpoint
        while (patch := self.patch) is not None and patch.done < len(patch.phases):
            phase = patch.current
            if phase.act is Act.EXIT:
                self._begin_exit(phase)
                return TextPoke.DONE
            if phase.stopping:
                self._pass(patch.done + 1)
                continue
            if phase.method == BREAKPOINT and patch.done >= self._may:
                return TextPoke.WAIT
            if patch.held and patch.done >= self._may:
                self._waiting = cpu
                return None
            if phase.act is Act.SYNC:
                return self._begin_sync(phase)
            self._check(phase)
            begin = self._machine.take_time(cpu, 0)
            self._perform(phase, watched=True)
            places = sum(len(each.address) for each in phase.writes if each.text)
            self._wrote.append((cpu, begin, self._machine.take_time(cpu, places * PLACE_NS)))
        return TextPoke.DONE

    def _begin_sync(self, phase: Phase) -> TextPoke:
        """Have the guest's CPUs execute sync_core()."""
        self._note(phase, self._machine.now)
        self._syncing = True
        if self.patch is None or not self.patch.watched:
            # Nothing runs in between, so all CPUs are flushed at once.
            for start, end in phase.flushes:
                self._machine.flush(start, end, self.flush_cpus)
        for each in phase.nmis:
            self._machine.take_nmi(each)
        return TextPoke.SYNC

    def _begin_exit(self, phase: Phase) -> None:
        """Note, once, that the guest's CPUs resume."""
        if self.performed[-1].act is not Act.EXIT:
            self._note(phase, self._machine.now)

    def sync_core(self, cpu: int) -> None:
        """Drop the translated code that `cpu` has of text that has changed (`sync_core`)."""
        patch = self.patch
        if patch is None or not self._syncing or not patch.watched:
            return
        if self.flush_cpus is None or cpu in self.flush_cpus:
            for start, end in patch.current.flushes:
                self._machine.flush(start, end, (cpu,))

    def poked(self, cpu: int) -> None:
        """Note that `cpu` reports the end of the change."""
        patch = self.patch
        if patch is None or not patch.guest:
            return
        if self._wrote:
            (writer, first, _), (_, _, last) = self._wrote[0], self._wrote[-1]
            places = len(np.unique(np.concatenate([each.ips for each in patch.rounds])))
            ended = self._machine.take_time(cpu, 0)
            self.last = Timing(
                patch.phases[0].method, places, writer, self._asked, first, last, ended
            )
        done = patch.done
        if done < len(patch.phases) and patch.current.act is Act.EXIT:
            self._begin_exit(patch.current)
            done += 1
        self.patch = None if done == len(patch.phases) else replace(patch, done=done)
        self._syncing, self._waiting = False, None

    def abandon(self) -> None:
        """Put everything back as it was before the patch that is under way."""
        patch, self.patch, self._under_breakpoint = self.patch, None, None
        self._syncing, self._waiting = False, None
        if patch is None:
            return
        done = [write for phase in patch.phases[: patch.done] for write in phase.writes]
        for write in reversed(done):
            able = self._machine.memory.writable(write.address, write.old.shape[1])
            self._machine.memory.scatter(write.address[able], write.old[able])
        for step in reversed(patch.rollback):
            with suppress(MemoryFault):  # of a page that has been protected meanwhile
                step()
        self._machine.flush(cpus=self.flush_cpus)

    def _check(self, phase: Phase) -> None:
        """Raise `FtraceBug` for the first place of `phase` whose text has changed before it."""
        memory = self._machine.memory
        written = np.empty(0, np.uint64)
        data: list[tuple[int, int]] = []  # such as a new trampoline
        for write in phase.writes:
            if not write.text:
                size = write.new.shape[1]
                data += [(address, address + size) for address in write.address.tolist()]
                continue
            again = np.isin(write.address, written)  # while the CPUs are held
            for start, end in data:
                again |= (write.address >= np.uint64(start)) & (write.address < np.uint64(end))
            written = np.concatenate([written, write.address])
            width = write.new.shape[1]
            found, readable = memory.gather(write.address, width)
            # After an NMI, its place has the new text.
            same = ((found == write.old) | (found == write.new)).all(axis=1) | again
            writable = memory.writable(write.address, width)
            right = readable & same & writable
            if not right.all():
                row = int(np.argmin(right))
                at, expected = int(write.address[row]), write.old[row].tobytes()
                if not readable[row]:
                    raise FtraceBug(at, errno=errno.EFAULT, expected=expected, address=at)
                if same[row]:
                    number = self._port.facts.unwritable
                    raise FtraceBug(at, errno=number, expected=expected, address=at)
                there = found[row].tobytes()
                raise FtraceBug(at, errno=errno.EINVAL, expected=expected, found=there, address=at)

    def emulate(self, cpu: int, ip: int) -> bool:
        """Emulate the new text of the site at `ip`, whose breakpoint `cpu` has hit.

        Return False if no site at `ip` is being patched.
        """
        edit, machine = self._under_breakpoint, self._machine
        rows = [] if edit is None else np.flatnonzero(edit.address == np.uint64(ip)).tolist()
        if edit is None or not rows:
            return False
        text = edit.replacement[rows[0]].tobytes()
        effect = self._port.emulate(machine.registers(cpu), ip, text)
        for address, data in effect.stores:
            machine.memory.write(address, data)
        machine.set_registers(cpu, effect.registers)
        return True


def joined(*edits: Edit) -> Edit:
    """Join several edits into one; all texts must have the same width."""
    if len(edits) == 1:
        return edits[0]
    of_each = [edit.lengths for edit in edits if edit.lengths is not None]
    lengths = np.concatenate(of_each) if len(of_each) == len(edits) else None
    stubs = max(len(edit.via) for edit in edits)
    none = [(np.zeros(len(edit.address), np.uint64),) * (stubs - len(edit.via)) for edit in edits]
    via = [(*edit.via, *rest) for edit, rest in zip(edits, none, strict=True)]
    return Edit(
        np.concatenate([edit.address for edit in edits]),
        np.concatenate([edit.expected for edit in edits]),
        np.concatenate([edit.replacement for edit in edits]),
        np.concatenate([edit.reachable for edit in edits]),
        tuple(np.concatenate(each) for each in zip(*via, strict=True)),
        lengths,
        np.concatenate([edit.ips for edit in edits]),
    )
