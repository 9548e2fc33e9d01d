"""What was done to a machine since it was started: enough to do it again.

Equal commands on equal machines leave equal bytes, so the way back is the way there:
start anew, and do all but the last again. Only what a user interrupted cannot be done
again, since nobody knows how far it had come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from .errors import GuestInterrupted, UsageError

if TYPE_CHECKING:
    from .session import Session
    from .shell.parser import SimpleCommand

Action: TypeAlias = "SimpleCommand | int"
"""A command of the shell, or virtual ns that the machine ran on its own."""


class Journal:
    """The actions so far, those that only look left out."""

    def __init__(self) -> None:
        self._actions: list[Action] = []
        self._cut: int | None = None

    @property
    def actions(self) -> Sequence[Action]:
        """In their order."""
        return tuple(self._actions)

    @property
    def interrupted(self) -> bool:
        """Whether something was, since the machine was started."""
        return self._cut is not None

    @property
    def whole(self) -> Sequence[Action]:
        """Those that can be done again: the ones before the first that was interrupted."""
        return tuple(self._actions[: self._cut])

    def note(self, action: Action) -> None:
        """An action has ended."""
        self._actions.append(action)

    def cut(self) -> None:
        """What is going on, and is not noted yet, has been interrupted."""
        if self._cut is None:
            self._cut = len(self._actions)

    def clear(self) -> None:
        """The machine was started anew."""
        self._actions.clear()
        self._cut = None

    def before(self, count: int) -> list[Action]:
        """What is left without the last `count` actions; running on its own is one.

        Raises `UsageError` where there are not so many, or one was interrupted.
        """
        if self._cut is not None:
            raise UsageError("cannot undo: an interrupted command cannot be replayed")
        left = list(self._actions)
        for _ in range(count):
            if not left:
                raise UsageError("nothing to undo")
            last = left.pop()
            while isinstance(last, int) and left and isinstance(left[-1], int):
                left.pop()
        return left


def redo(
    session: Session,
    actions: Iterable[Action],
    repeat: Callable[[SimpleCommand], object],
    what: str,
) -> None:
    """Do `actions` in `session`, commands by `repeat`.

    Raises `GuestInterrupted`, which names `what` it was, when one is interrupted.
    """
    for action in actions:
        if isinstance(action, int):
            session.run(action)
        else:
            repeat(action)
        if session.journal.interrupted:
            raise GuestInterrupted(what)
