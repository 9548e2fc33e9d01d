"""A checkpoint: the whole state of a `Boot` at one moment, on the guest and on the host."""

from __future__ import annotations

from ..memento import Restore, in_order
from .boot import Boot


def save(boot: Boot) -> Restore:
    """Return a function that restores the present state of `boot`.

    Save and restore between two runs. A run from a restored state repeats byte for byte.
    """
    owners = (
        *(boot.machine, boot.kallsyms, boot.ftrace, boot.modules, boot.ring),
        *(boot.array, boot.tracefs, boot.stepper, boot.buffers),
    )
    return in_order(*(owner.save() for owner in owners))
