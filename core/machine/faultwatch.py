"""The address of a fault, found without slowing down accesses that do not fault.

The engine passes the address of a bad access to hooks only. A hook that covers a page sends
every store to that page down a slow path, nine times as slow. So the hooks cover only the gaps
between mapped memory, and move when memory is mapped or unmapped. A fault inside mapped memory
(a write to a read-only page, an access that begins on the last bytes before a gap) is
repeated: the instruction runs once more under a hook that covers everything.
"""

from __future__ import annotations

from unicorn import Uc, UcError
from unicorn.unicorn_const import (
    UC_ERR_FETCH_PROT,
    UC_ERR_FETCH_UNMAPPED,
    UC_ERR_INSN_INVALID,
    UC_ERR_READ_PROT,
    UC_ERR_READ_UNMAPPED,
    UC_ERR_WRITE_PROT,
    UC_ERR_WRITE_UNMAPPED,
    UC_HOOK_MEM_INVALID,
    UC_MEM_FETCH_PROT,
    UC_MEM_FETCH_UNMAPPED,
    UC_MEM_READ_PROT,
    UC_MEM_READ_UNMAPPED,
    UC_MEM_WRITE_PROT,
    UC_MEM_WRITE_UNMAPPED,
)

from ..crash import Access, Fault

_ACCESSES = {
    UC_MEM_READ_UNMAPPED: Access.READ,
    UC_MEM_WRITE_UNMAPPED: Access.WRITE,
    UC_MEM_FETCH_UNMAPPED: Access.FETCH,
    UC_MEM_READ_PROT: Access.READ,
    UC_MEM_WRITE_PROT: Access.WRITE,
    UC_MEM_FETCH_PROT: Access.FETCH,
}

_MAPPED = (UC_MEM_READ_PROT, UC_MEM_WRITE_PROT, UC_MEM_FETCH_PROT)

_ERRORS = {
    UC_ERR_READ_UNMAPPED: (Access.READ, False),
    UC_ERR_WRITE_UNMAPPED: (Access.WRITE, False),
    UC_ERR_FETCH_UNMAPPED: (Access.FETCH, False),
    UC_ERR_READ_PROT: (Access.READ, True),
    UC_ERR_WRITE_PROT: (Access.WRITE, True),
    UC_ERR_FETCH_PROT: (Access.FETCH, True),
    UC_ERR_INSN_INVALID: (Access.ILLEGAL, False),
}


class FaultWatch:
    """The hooks of one engine over the gaps of its address space."""

    def __init__(self, uc: Uc, end: int) -> None:
        """`end` is the first address after the address space."""
        self._uc = uc
        self._end = end
        self._mapped: set[tuple[int, int]] = set()
        self._hooks: dict[tuple[int, int], int] = {}
        """The hooks, by start and end of their gaps."""
        self._seen: Fault | None = None
        self._place()

    def mapped(self, start: int, end: int) -> None:
        """Note that [start, end) is mapped from now on."""
        self._mapped.add((start, end))
        self._place()

    def unmapped(self, start: int, end: int) -> None:
        """Note that [start, end), as given to `mapped`, is no longer mapped."""
        self._mapped.remove((start, end))
        self._place()

    def clear(self) -> None:
        """Forget what was seen, before a run."""
        self._seen = None

    def fault(self, error: UcError, pc: int) -> Fault:
        """Return the fault of a run that ended with `error` at `pc`."""
        if self._seen is not None:
            return self._seen
        if error.errno not in _ERRORS:
            return Fault(Access.OTHER, detail=str(error))
        access, mapped = _ERRORS[error.errno]
        if access is Access.ILLEGAL:
            return Fault(access, detail=access.value)
        if access is Access.FETCH:
            return Fault(access, pc, mapped)
        return Fault(access, self._again(pc), mapped)

    def _again(self, pc: int) -> int | None:
        """Run the instruction at `pc`, which has just faulted, again. Return the bad address."""
        hook = self._uc.hook_add(UC_HOOK_MEM_INVALID, self._on_invalid)
        try:
            self._uc.emu_start(pc, 0, count=1)
        except UcError:
            return None if self._seen is None else self._seen.address
        finally:
            self._uc.hook_del(hook)
        return None

    def _place(self) -> None:
        gaps, free = set(), 0
        for start, end in [*sorted(self._mapped), (self._end, self._end)]:
            if free < start:
                gaps.add((free, start))
            free = end
        for gap in self._hooks.keys() - gaps:
            self._uc.hook_del(self._hooks.pop(gap))
        for start, end in sorted(gaps - self._hooks.keys()):
            hook = self._uc.hook_add(UC_HOOK_MEM_INVALID, self._on_invalid, None, start, end - 1)
            self._hooks[start, end] = hook

    def _on_invalid(
        self, uc: Uc, access: int, address: int, size: int, value: int, data: object
    ) -> bool:
        self._seen = Fault(_ACCESSES[access], address, access in _MAPPED)
        return False
