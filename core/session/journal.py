"""The journal: all actions on a machine since its start, so that they can be replayed.

Equal commands on equal machines give equal bytes. So undo starts the machine anew and replays
all but the last action. An interrupted action cannot be replayed, because the journal does not
know how far it ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

from ..errors import GuestInterrupted, UsageError
from ..memento import Restore, attributes

Action: TypeAlias = str | int
"""A command as the shell takes it, or virtual ns that the machine ran on its own."""


class Journal:
    """The actions so far, without those that only read."""

    def __init__(self) -> None:
        self._actions: list[Action] = []
        self._cut: int | None = None
        self._rebooted: list[Action] | None = None

    @property
    def actions(self) -> Sequence[Action]:
        """All actions, oldest first."""
        return tuple(self._actions)

    @property
    def interrupted(self) -> bool:
        """Whether any action was interrupted since the start of the machine."""
        return self._cut is not None

    @property
    def whole(self) -> Sequence[Action]:
        """The actions that can be replayed: those before the first interrupted one."""
        return tuple(self._actions[: self._cut])

    def note(self, action: Action) -> None:
        """Add an action that has ended."""
        self._actions.append(action)

    def cut(self) -> None:
        """Note that the current action, which is not in the journal yet, was interrupted."""
        if self._cut is None:
            self._cut = len(self._actions)

    def save(self) -> Restore:
        """Return a function that restores the actions."""
        return attributes(self, "_actions", "_cut", "_rebooted")

    def clear(self) -> None:
        """Forget everything: the machine was started anew."""
        self._actions.clear()
        self._cut = None

    def drop(self) -> None:
        """Forget the actions because the user reboots; `before` counts that as an action.

        An interrupted action cannot be replayed, so a reboot after one cannot be undone.
        """
        if self._cut is not None:
            self._rebooted = None
        elif self._actions:
            self._rebooted = list(self._actions)
        self.clear()

    def before(self, count: int) -> tuple[list[Action], list[Action]]:
        """Return the actions without the last `count` ones, and those.

        Consecutive runs of the machine on its own count as one action, and so does the last
        reboot. Raises `UsageError` if there are fewer actions, or if one was interrupted.
        """
        if self._cut is not None:
            raise UsageError("cannot undo: an interrupted command cannot be replayed")
        left, undone = list(self._actions), list[Action]()
        rebooted = self._rebooted
        for _ in range(count):
            if not left and rebooted is not None:
                left, rebooted = list(rebooted), None
                undone.insert(0, "reboot")
                continue
            if not left:
                raise UsageError("nothing to undo")
            undone.insert(0, left.pop())
            while isinstance(undone[0], int) and left and isinstance(left[-1], int):
                undone.insert(0, left.pop())
        return left, undone

    def forget_reboot(self) -> None:
        """Make the last reboot impossible to undo: it was undone."""
        self._rebooted = None


class Replayed(Protocol):
    """The session, as far as replaying needs it."""

    @property
    def journal(self) -> Journal: ...

    def run(self, ns: int) -> None:
        """Let the machine run."""
        ...


def redo(
    session: Replayed, actions: Iterable[Action], repeat: Callable[[str], object], what: str
) -> None:
    """Replay `actions` in `session`, its commands by `repeat`.

    Raises `GuestInterrupted`, which names `what`, if one is interrupted.
    """
    for action in actions:
        if isinstance(action, int):
            session.run(action)
        else:
            repeat(action)
        if session.journal.interrupted:
            raise GuestInterrupted(what)
