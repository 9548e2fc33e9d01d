"""`ftrace_ops`: functions to call, and the hashes of call sites to call them from.

An ops has two hashes of call sites. An empty filter hash means every site. A site in the
notrace hash is excluded even if the filter contains it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..arch import Addresses
from ..distinct import distinct
from ..memento import Restore, attributes


@dataclass(frozen=True, slots=True)
class FtraceHash:
    """A set of call sites: `ips` is ascending and without duplicates.

    A site whose module was unloaded stays counted in `gone`. So a filter of only that module's
    functions then matches nothing, instead of becoming the empty filter, which matches everything.
    """

    ips: Addresses = field(default_factory=lambda: np.empty(0, np.uint64))
    gone: int = 0

    @classmethod
    def of(cls, ips: Addresses) -> FtraceHash:
        """Return the set of `ips`, given in any order."""
        return cls(distinct(np.asarray(ips, np.uint64)))

    @property
    def empty(self) -> bool:
        """Whether nothing was ever added: a filter then means all sites, a notrace list none."""
        return len(self.ips) + self.gone == 0

    def __len__(self) -> int:
        return len(self.ips)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FtraceHash):
            return NotImplemented
        return self.gone == other.gone and np.array_equal(self.ips, other.ips)

    __hash__ = None  # type: ignore[assignment]  # arrays have none

    def contains(self, ips: Addresses) -> NDArray[np.bool_]:
        """Return which of n addresses are in the set."""
        if not len(self.ips):
            return np.zeros(len(ips), np.bool_)
        at = np.minimum(np.searchsorted(self.ips, ips), len(self.ips) - 1)
        mask: NDArray[np.bool_] = self.ips[at] == ips
        return mask

    def add(self, ips: Addresses) -> FtraceHash:
        """Return the set with `ips` added."""
        return FtraceHash(np.union1d(self.ips, ips), self.gone)

    def discard(self, ips: Addresses) -> FtraceHash:
        """Return the set without `ips`."""
        return FtraceHash(np.setdiff1d(self.ips, ips), self.gone)

    def forget(self, ips: Addresses) -> FtraceHash:
        """Return the set after the code at `ips` was unloaded."""
        left = np.setdiff1d(self.ips, ips)
        return FtraceHash(left, self.gone + len(self.ips) - len(left))


@dataclass(slots=True, eq=False)
class FtraceOps:
    """A guest function to call from the sites that its hashes select."""

    name: str
    func: int
    """Guest address of `void func(ip, parent_ip, op, regs)`."""
    filter_hash: FtraceHash = field(default_factory=FtraceHash)
    notrace_hash: FtraceHash = field(default_factory=FtraceHash)
    op: int | None = None
    """The function's third argument; None: the address of its entry in the guest's table."""
    save_regs: bool = False
    """Whether `regs` should be the registers of the traced function (FTRACE_OPS_FL_SAVE_REGS).

    While sites change, `regs` may still be NULL.
    """
    pid: bool = False
    """Whether it is called only for the tasks of set_ftrace_pid (FTRACE_OPS_FL_PID)."""

    def save(self) -> Restore:
        """Return a function that restores its function and its hashes."""
        return attributes(self, "func", "filter_hash", "notrace_hash")

    def matches(self, ips: Addresses) -> NDArray[np.bool_]:
        """Return which of n call sites this ops wants."""
        if self.filter_hash.empty:
            wanted = np.ones(len(ips), np.bool_)
        else:
            wanted = self.filter_hash.contains(ips)
        return wanted & ~self.notrace_hash.contains(ips)
