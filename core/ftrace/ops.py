"""Who is called from which record: `ftrace_ops` and their hashes.

An ops has two hashes of call sites. An empty filter hash means every site; a
site in the notrace hash is left out whatever the filter says.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..arch import Addresses


@dataclass(frozen=True, slots=True)
class FtraceHash:
    """A set of call sites: `ips` is ascending and without duplicates.

    A site whose module has gone stays counted in `gone`, so that a filter which
    named only that module's functions goes on matching nothing instead of
    turning into the empty filter that matches everything.
    """

    ips: Addresses = field(default_factory=lambda: np.empty(0, np.uint64))
    gone: int = 0

    @classmethod
    def of(cls, ips: Addresses) -> FtraceHash:
        """The set of `ips`, in any order."""
        return cls(np.unique(np.asarray(ips, np.uint64)))

    @property
    def empty(self) -> bool:
        """Whether nothing was ever put in: all of a filter, none of a notrace list."""
        return len(self.ips) + self.gone == 0

    def __len__(self) -> int:
        return len(self.ips)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FtraceHash):
            return NotImplemented
        return self.gone == other.gone and np.array_equal(self.ips, other.ips)

    __hash__ = None  # type: ignore[assignment]  # arrays have none

    def contains(self, ips: Addresses) -> NDArray[np.bool_]:
        """Which of n addresses are in the set."""
        if not len(self.ips):
            return np.zeros(len(ips), np.bool_)
        at = np.minimum(np.searchsorted(self.ips, ips), len(self.ips) - 1)
        mask: NDArray[np.bool_] = self.ips[at] == ips
        return mask

    def add(self, ips: Addresses) -> FtraceHash:
        """The set with `ips` in it."""
        return FtraceHash(np.union1d(self.ips, ips), self.gone)

    def discard(self, ips: Addresses) -> FtraceHash:
        """The set without `ips`."""
        return FtraceHash(np.setdiff1d(self.ips, ips), self.gone)

    def forget(self, ips: Addresses) -> FtraceHash:
        """The set after the code at `ips` has gone away."""
        left = np.setdiff1d(self.ips, ips)
        return FtraceHash(left, self.gone + len(self.ips) - len(left))


@dataclass(slots=True, eq=False)
class FtraceOps:
    """A function of the guest to call from the sites its hashes select."""

    name: str
    func: int
    """Guest address of `void func(ip, parent_ip, op, regs)`."""
    filter_hash: FtraceHash = field(default_factory=FtraceHash)
    notrace_hash: FtraceHash = field(default_factory=FtraceHash)
    op: int | None = None
    """The function's third argument; None for the address of its entry in the guest's table."""
    save_regs: bool = False
    """Whether `regs` are to be the registers of the traced function (FTRACE_OPS_FL_SAVE_REGS).

    Another user's call may come without, as NULL, while sites change.
    """
    pid: bool = False
    """Whether it is called for the tasks alone that set_ftrace_pid says (FTRACE_OPS_FL_PID)."""

    def matches(self, ips: Addresses) -> NDArray[np.bool_]:
        """Which of n call sites this ops wants."""
        if self.filter_hash.empty:
            wanted = np.ones(len(ips), np.bool_)
        else:
            wanted = self.filter_hash.contains(ips)
        return wanted & ~self.notrace_hash.contains(ips)
