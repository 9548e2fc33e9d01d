"""Long runs of instructions without a branch, which some engines cannot translate.

The engine translates code a block at a time, and a block ends at a branch or at the end of a
page. On some architectures (`LongBlocks`) each instruction takes one of the translator's 512
temporaries and does not give it back. If no branch comes in time, the engine overwrites its own
memory and kills the process. But a block also ends after a certain number of translated operations.
A hook on an instruction adds operations, so the block ends before the temporaries run out. So every
instruction of a long run has a hook that does nothing.

The pages are searched again after each change by the host. The guest cannot change code, except
in memory that is both writable and executable, as some kernels are linked. All instructions
there have a hook.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from unicorn import Uc
from unicorn.unicorn_const import UC_HOOK_CODE

from ..facts import LongBlocks
from .memory import PAGE_SIZE, Region
from .native import native_hook

_WORD = 4
_EACH = PAGE_SIZE // _WORD


class LongBlockHooks:
    """The hooks of one engine on long runs of instructions."""

    def __init__(self, uc: Uc, facts: LongBlocks, byteorder: str, *, native: bool) -> None:
        """`native` says whether the hooks are machine code, if the host allows that."""
        self._uc = uc
        self._facts = facts
        self._word = f"{'<' if byteorder == 'little' else '>'}u4"
        self._nothing = native_hook("nothing") if native else None
        self._changed: dict[Region, set[int]] = {}
        self._hooked: set[tuple[int, int]] = set()

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """First and last address of each hook, ascending."""
        return tuple(sorted(self._hooked))

    def mapped(self, region: Region) -> None:
        """Note that `region` is mapped from now on."""
        if region.executable and region.writable:
            self._hook(region.address, region.end - 1)
        elif region.executable:
            self._changed[region] = set(range(region.size // PAGE_SIZE))

    def unmapped(self, region: Region) -> None:
        """Note that `region` is no longer mapped."""
        self._changed.pop(region, None)

    def changed(self, region: Region, pages: NDArray[np.intp]) -> None:
        """Note that the host has changed the pages number `pages` of `region`."""
        if region.executable and not region.writable:
            self._changed.setdefault(region, set()).update(pages.tolist())

    def update(self) -> None:
        """Hook what has changed, before the engine runs.

        Hooks are never removed: that would flush code that a vCPU may still run after a change.
        """
        if not self._changed:
            return
        changed, self._changed = self._changed, {}
        for region, pages in changed.items():
            for first, last in self._long(region, np.array(sorted(pages), np.intp)):
                self._hook(first, last)

    def _long(self, region: Region, pages: NDArray[np.intp]) -> Iterator[tuple[int, int]]:
        """Yield first and last address of each long run in `pages` of `region`.

        The first instruction of a run is left out: it may be in the delay slot of a branch.
        """
        words = region.bytes.reshape(-1, PAGE_SIZE)[pages].view(self._word)
        last = np.zeros(words.shape, np.bool_)
        last[:, -1] = True
        for mask, value in self._facts.ends:
            last |= words & np.uint32(mask) == np.uint32(value)
        ends = np.flatnonzero(last)
        starts = np.concatenate([[0], ends[:-1] + 1])
        long = ends - starts >= self._facts.most
        for start, end in zip(starts[long].tolist(), ends[long].tolist(), strict=True):
            page = region.address + int(pages[start // _EACH]) * PAGE_SIZE
            yield page + (start % _EACH + 1) * _WORD, page + (end % _EACH + 1) * _WORD - 1

    def _hook(self, first: int, last: int) -> None:
        if (first, last) in self._hooked:
            return
        self._hooked.add((first, last))
        if self._nothing is None:
            self._uc.hook_add(UC_HOOK_CODE, _nothing, None, first, last)
        else:
            self._nothing.add(self._uc, UC_HOOK_CODE, start=first, end=last)


def _nothing(uc: Uc, address: int, size: int, data: object) -> None:
    """The hook on hosts that do not run machine code made at run time."""
