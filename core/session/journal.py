"""The journal: all actions on a machine since its start, so that they can be replayed.

Equal commands on equal machines give equal bytes, so a saved session is its journal. An
interrupted action cannot be replayed, because the journal does not know how far it ran. How
actions are undone is in history.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from ..errors import GuestInterrupted
from ..memento import Restore, attributes

Action: TypeAlias = str | int
"""A command as the shell takes it, or the virtual ns of a run without a command."""


@dataclass(frozen=True, slots=True, eq=False)
class Mark:
    """A state of the journal, for `Journal.rewind`."""

    actions: list[Action] = field(repr=False)
    count: int
    cut: int | None


class Journal:
    """The actions so far, without those that only read."""

    def __init__(self) -> None:
        self._actions: list[Action] = []
        self._cut: int | None = None

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
        return attributes(self, "_actions", "_cut")

    def mark(self) -> Mark:
        """Return the present state."""
        return Mark(self._actions, len(self._actions), self._cut)

    def rewind(self, mark: Mark) -> None:
        """Return to an earlier state, or to a later state from which `rewind` has returned."""
        # The list of a mark only grows, so that all marks of it stay valid.
        self._actions, self._cut = mark.actions[: mark.count], mark.cut

    def clear(self) -> None:
        """Forget everything: the machine was started anew."""
        self._actions, self._cut = [], None


class Replayed(Protocol):
    """The session, as far as replaying needs it."""

    @property
    def journal(self) -> Journal: ...

    def run(self, ns: int) -> None:
        """Run the machine for `ns` of virtual time."""
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
