"""The history of a session: what was done, and checkpoints on the way.

An entry is a line as it was typed, or a stretch of time for which the machine ran on its own.
`back` returns to the start of an entry: it restores the checkpoint before it and replays what
follows. Equal commands give equal bytes, so the replayed machine is the same, wherever the
checkpoints are. Undone entries stay for `redo` until a new action is done.

Three things cannot be replayed: a reboot, a `goto`, and an action that was interrupted. So a
checkpoint right after each of them is pinned.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from ..errors import GuestInterrupted, UsageError
from ..memento import Restore, in_order
from . import checkpoint
from .boot import Boot
from .journal import Action, Journal, Mark
from .points import Point, Points, Stretch

LEAST_S = 0.05
"""Minimum host seconds of running between two checkpoints.

All times of running are CPU time of the thread: what else the host runs does not count.
"""

SHARE = 25
"""Taking checkpoints takes at most this fraction (1/N) of the time of running."""

PROGRESS_S = 0.1
"""Host seconds between two reports on a replay."""

REBOOT = "reboot"

MOST_BOOTS = 2
"""Maximum number of old machines that checkpoints keep; each takes tens of megabytes."""

DROPPED = "cannot go there: its checkpoint was dropped to save memory"

_HOST_BYTES = 64 << 10
"""Approximate bytes of the host's state in a checkpoint, besides pages and registers."""

Repeat: TypeAlias = Callable[[str], object]
"""Executes a command of the journal again."""


class Owner(Protocol):
    """The session, as far as its history needs it."""

    boot: Boot
    boots: int
    journal: Journal

    def run(self, ns: int) -> None:
        """Run the machine for `ns` of virtual time."""
        ...

    def boots_at(self) -> Restore:
        """Return a function that makes the present boot the current one again."""
        ...


@dataclass(slots=True, eq=False)
class Entry:
    """The actions of a typed line, or a run of the machine on its own."""

    line: int
    """Number of the typed line. A line with a reboot or a `goto` inside has several entries."""
    text: str
    """The line as it was typed; "" if the machine ran on its own."""
    actions: list[Action] = field(default_factory=list)
    fixed: set[int] = field(default_factory=set)
    """Numbers of the actions that cannot be replayed."""
    origin: int | None = None
    """For a `goto`, the number of the entry that contains the instant it went to."""
    rebooted: bool = False

    @property
    def words(self) -> str:
        """The line, or a description of the run."""
        return self.text or "the machine ran on its own"


@dataclass(frozen=True, slots=True)
class Bound:
    """The moment between two entries."""

    mark: Mark
    """The state of the journal."""
    spent: float
    """Host seconds of running so far."""
    times: tuple[int, ...]
    """Virtual ns of each vCPU."""


class History:
    """The entries and checkpoints of one session."""

    def __init__(self, session: Owner) -> None:
        self._session = session
        self.points = Points(self._stored, self._own_bytes)
        self.entries: list[Entry] = []
        self.bounds: list[Bound] = []
        """The moments before each entry, and after the last one."""
        self.done = 0
        """Number of entries that are not undone."""
        self.replaying = False
        self.progress: Callable[[str], None] = lambda text: None
        """Shows how far a replay has come; called with "" at its end. Front ends set it."""
        self._base: Restore | None = None
        self._line = ""
        self._number = 0
        """The number of the current line."""
        self._open = False
        """Whether the next action belongs to the last entry, because it is of the same line."""
        self._spent = 0.0
        self._since: float | None = None
        """The processor's time when the current action began."""
        self._cost = 0.0
        """Host seconds that the last checkpoint took."""
        self._stretch: Stretch | None = None
        self._cut = False
        """Whether the current action was interrupted."""
        self._next = 0.0
        """The host's time of the next look at the clock in a run."""
        self._others = 0
        """Machines that checkpoints keep besides the present one."""
        self._aim = (0, 0, "")
        """Of a replay: virtual ns at its start and its end, and what to call it."""

    # What happens

    def start(self) -> None:
        """Begin in the present state, to which `reboot` returns."""
        self._base = None
        self.restart()
        first = self.points.first
        self._base = None if first is None else first.restore

    def restart(self) -> None:
        """Forget all entries, but keep the state to which `reboot` returns."""
        self.points.clear()
        self.entries.clear()
        self.bounds.clear()
        self.done, self._open, self._spent, self._since = 0, False, 0.0, None
        self._others = 0
        self._attach()
        self.bounds.append(self._bound())
        self._take()

    def line(self, text: str) -> None:
        """Note that the next actions are those of the line `text`."""
        if not self.replaying:
            self._line, self._open = text, False
            self._number += 1

    def close(self) -> None:
        """End the current line: later actions belong to another line."""
        if self._open:
            last = self.entries[self.done - 1]
            last.text = "; ".join(map(str, last.actions))
        self.line("")

    def before(self) -> None:
        """Note that an action begins that may change the machine."""
        if self.replaying:
            return
        self._forget_undone()
        self._since, self._cut = time.thread_time(), False
        self._take_if_due()

    def note(self, action: Action) -> None:
        """Note that an action has ended, and add it to the journal."""
        if self.replaying:
            return
        self._forget_undone()
        own = isinstance(action, int)
        last = self.entries[-1] if self.entries else None
        if last is None or not (last.text == "" if own else self._open):
            last = self._append("" if own else self._line or str(action))
        elif not own and not self._line:
            last.text += f"; {action}"
        self._open = not own
        last.actions.append(action)
        self._session.journal.note(action)
        self._spent, self._since = self.spent, None
        self.bounds[-1] = self._bound()
        if self._cut:
            self._cut = False
            self._pin()

    def interrupted(self) -> None:
        """Note that the current action was interrupted."""
        self._cut = True
        if not self.replaying:
            self._session.journal.cut()

    def went(self, action: str, origin: int) -> None:
        """Note that the command `action` went to an instant inside the entry `origin`."""
        if self.replaying:
            return
        self._open = False
        entry = self._append(self._line or action)
        entry.actions, entry.origin = [action], origin
        self._session.journal.note(action)
        self._spent, self._since = self.spent, None
        self.bounds[-1] = self._bound()
        self._pin()
        self._session.boots += 1

    def reboot(self) -> bool:
        """Return to the start, which `back` can undo. Return False if that state is not kept."""
        if self._base is None or self.replaying:
            return False
        self._forget_undone()
        self._open, self._since = False, None
        self._take()
        self._base()
        for vcpu in self._session.boot.machine.vcpus:
            vcpu.renew()
        entry = self._append(self._line or REBOOT)
        entry.actions, entry.rebooted = [REBOOT], True
        self._session.journal.clear()
        self.bounds[-1] = self._bound()
        self._pin()
        self._session.boots += 1
        return True

    @contextmanager
    def new_boot(self) -> Iterator[None]:
        """Return a context that loads another machine into the session; `back` can undo it.

        An exception brings the old machine back.
        """
        if self.replaying or self._others >= MOST_BOOTS:
            yield
            self.restart()
            return
        self._forget_undone()
        self._open, self._since = False, None
        self._take()
        old = self._save()
        try:
            yield
        except BaseException:
            old()
            raise
        self._others += 1
        self._attach()
        entry = self._append(self._line or REBOOT)
        entry.actions, entry.rebooted = [REBOOT], True
        self.bounds[-1] = self._bound()
        self._pin()

    def _attach(self) -> None:
        """Watch the runs of the present machine."""
        scheduler = self._session.boot.machine.scheduler
        scheduler.begin, scheduler.between, scheduler.end = self._begins, self._between, self._ends

    def _save(self) -> Restore:
        """Return a function that restores the present machine and its state."""
        return in_order(self._session.boots_at(), checkpoint.save(self._session.boot))

    @property
    def spent(self) -> float:
        """Host seconds of running so far."""
        since = self._since
        return self._spent + (0.0 if since is None else time.thread_time() - since)

    def _append(self, text: str) -> Entry:
        """Append an entry of the current line, or a run of the machine on its own for ""."""
        if not text:
            self._number += 1
        self.entries.append(Entry(self._number, text))
        self.bounds.append(self.bounds[-1])
        self.done = len(self.entries)
        return self.entries[-1]

    def _pin(self) -> None:
        """Take a checkpoint after an action that cannot be replayed."""
        last = self.entries[-1]
        last.fixed.add(len(last.actions) - 1)
        self._take(pinned=True)

    def _forget_undone(self) -> None:
        """Drop the undone entries, because a new action is done instead of `redo`."""
        if self.done == len(self.entries):
            return
        del self.entries[self.done :], self.bounds[self.done + 1 :]
        end = (self.done, 0)
        self.points.forget(
            lambda point: point.at > end or (point.at == end and point.stretch is not None)
        )

    def _bound(self) -> Bound:
        return Bound(self._session.journal.mark(), self.spent, self.times())

    # Checkpoints

    def times(self) -> tuple[int, ...]:
        """Return the virtual ns of each vCPU."""
        return tuple(vcpu.ticks for vcpu in self._session.boot.machine.vcpus)

    def _at(self) -> tuple[int, int]:
        """Return the number of the current entry and of the actions done in it."""
        last = self.entries[self.done - 1] if self.done else None
        if last is not None and (self._open or not last.text):
            return self.done - 1, len(last.actions)
        if last is not None and len(last.actions) - 1 in last.fixed:
            return self.done - 1, len(last.actions)
        return self.done, 0

    def _take(self, pinned: bool = False) -> None:
        """Take a checkpoint, unless there is one of this moment."""
        at, stretch, times = self._at(), self._stretch, self.times()
        if stretch is None:
            for point in self.points:
                if (point.at, point.times, point.stretch) == (at, times, None):
                    point.pinned |= pinned
                    return

        def take() -> Point:
            restore = self._save()
            return Point(at, times, self.spent, restore, stretch, pinned)

        begin = time.thread_time()
        self.points.add(take)
        cost = time.thread_time() - begin
        if len(self.points) > 1:  # the first stores every page
            self._cost = cost
        if self._since is not None:
            self._since += cost

    def keep(self) -> None:
        """Take a checkpoint of the present, to return to it at once."""
        self._take()

    def _take_if_due(self) -> None:
        """Take a checkpoint if the last one is old; one within a run serves only that run."""
        points = self.points
        last = points.last_between if self._stretch is None else points.last
        least = max(LEAST_S, SHARE * self._cost)
        if last is None or self.spent - last.spent >= least:
            self._take()

    def _stored(self) -> int:
        return self._session.boot.machine.snapshots.size

    def _own_bytes(self) -> int:
        vcpus = self._session.boot.machine.vcpus
        return _HOST_BYTES + sum(vcpu.saved_size for vcpu in vcpus)

    # In a run

    def _begins(self) -> None:
        self._stretch = None
        self._between()

    def _between(self) -> None:
        now = time.perf_counter()
        if now < self._next:
            return
        self._next = now + LEAST_S / 4
        if self.replaying:
            self._show_progress(now)
        elif self._since is not None:
            if self._stretch is None:
                self._stretch = Stretch()
            self._take_if_due()

    def _ends(self) -> None:
        if self._stretch is not None:
            self._stretch.end = self.times()
            self._stretch = None

    def _show_progress(self, now: float) -> None:
        self._next = now + PROGRESS_S
        begin, end, what = self._aim
        part = (self._session.boot.machine.now - begin) / max(end - begin, 1)
        self.progress(f"{what}: {min(max(part, 0.0), 1.0):.0%}")

    # There and back

    def back(self, count: int, repeat: Repeat) -> Sequence[str]:
        """Undo the last `count` lines and return what they did, oldest first.

        Raises `UsageError` if there are fewer, and `GuestInterrupted` on `stop`, after which
        nothing is undone.
        """
        firsts = self._firsts(range(self.done))
        if not firsts:
            raise UsageError("nothing to undo")
        if count > len(firsts):
            raise UsageError(f"cannot undo {count} lines: only {len(firsts)} can be undone")
        self._go(firsts[-count], repeat, "the way back")
        return [self.entries[first].words for first in firsts[-count:]]

    def redo(self, count: int, repeat: Repeat) -> Sequence[str]:
        """Do the next `count` undone lines again and return what they did, oldest first.

        Raises as `back`.
        """
        firsts = self._firsts(range(self.done, len(self.entries)))
        if not firsts:
            raise UsageError("nothing to redo")
        if count > len(firsts):
            raise UsageError(f"cannot redo {count} lines: only {len(firsts)} can be redone")
        ends = [*firsts, len(self.entries)]
        self._go(ends[count], repeat, "the way forward")
        return [self.entries[first].words for first in firsts[:count]]

    def _firsts(self, numbers: range) -> list[int]:
        """Return the first entry of each line among the entries `numbers`."""
        return [
            at
            for at in numbers
            if at == numbers.start or self.entries[at].line != self.entries[at - 1].line
        ]

    @property
    def lines(self) -> int:
        """Number of lines that can be undone."""
        return len(self._firsts(range(self.done)))

    def since_goto(self) -> int:
        """Return how many lines `back` undoes to return from the last `goto`.

        Raises `UsageError` if there was none.
        """
        for at in range(self.done - 1, -1, -1):
            if self.entries[at].origin is not None:
                return sum(at <= first for first in self._firsts(range(self.done))) or 1
        raise UsageError("nothing to return from: goto has not been used")

    def _go(self, to: int, repeat: Repeat, what: str) -> None:
        """Go to the moment before entry `to`, or after the last one."""
        usable = (p for p in self.points if p.stretch is None and p.at <= (to, 0))
        start = max(usable, key=lambda point: point.at, default=None)
        if start is None or not self.can_replay(start, to):
            raise UsageError(DROPPED)
        session, bound = self._session, self.bounds[to]
        self.close()
        self._since = None
        self._take()
        with self.replay(what, start, max(bound.times)):
            self.replay_actions(start, to, repeat, what)
        session.journal.rewind(bound.mark)
        self._spent, self.done = bound.spent, to
        session.boots += 1

    @contextmanager
    def replay(self, what: str, start: Point, until: int) -> Iterator[None]:
        """Restore `start`; what runs in the context is a replay. An exception undoes it.

        `until` is the virtual time at its end, for reports of its progress.
        """
        origin = self._save()
        self.replaying, self._cut = True, False
        self._aim = max(start.times), until, what
        self._next = time.perf_counter() + PROGRESS_S
        try:
            start.restore()
            yield
        except BaseException:
            origin()
            raise
        finally:
            self.replaying, self._cut = False, False
            self.progress("")

    def can_replay(self, start: Point, to: int) -> bool:
        """Whether every action from `start` to the end of entry `to` - 1 can be replayed."""
        first, offset = start.at
        return not any(
            at >= (offset if number == first else 0)
            for number in range(first, to)
            for at in self.entries[number].fixed
        )

    def replay_actions(
        self,
        start: Point,
        to: int,
        repeat: Repeat,
        what: str,
        entered: Callable[[int], None] = lambda number: None,
    ) -> None:
        """Replay what was done from `start` to the end of entry `to` - 1.

        `entered` is called with the number of each entry. Raises `GuestInterrupted` on `stop`.
        """
        first, offset = start.at
        for number in range(first, to):
            entered(number)
            for action in self.entries[number].actions[offset:]:
                if isinstance(action, int):
                    self._session.run(action)
                else:
                    repeat(action)
                if self._cut:
                    raise GuestInterrupted(what)
            offset = 0
