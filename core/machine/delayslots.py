"""Delay slots: a branch and the instruction behind it are one, and the engine forgets it.

Where branches take the instruction behind them along, the engine keeps in a word
of its own whether the next instruction is one of those and where the branch goes.
It is set in two cases that nobody asked for:

- It looks up what it was translating when memory is accessed that its TLB does not
  hold, to have pc right, and with that marks the word as if it stood between branch
  and slot. It goes on with the branch's target as the slot, once more or into a
  reserved instruction. So after each such access the mark is taken off. Known of
  Unicorn 2.1.4 as issue 2272 of its project.
- A branch that ends a page ends a block too. A stop in front of the next block is
  in between then, and no pc says so: nothing but the slot may run there.

The word is found in a saved context, at the place that `Branches` says for the
engine's version, and comes back by restoring the context.
"""

from __future__ import annotations

import ctypes

from unicorn import Uc
from unicorn.unicorn_const import (
    UC_HOOK_TLB_FILL,
    UC_MEM_FETCH,
    UC_PROT_EXEC,
    UC_PROT_READ,
    UC_PROT_WRITE,
)
from unicorn.unicorn_py3.unicorn import uc_hook_h, uclib

from ..errors import GuestError
from ..facts import Branches


class _Entry(ctypes.Structure):
    """`uc_tlb_entry`."""

    _fields_ = (("paddr", ctypes.c_uint64), ("perms", ctypes.c_uint32))


_FILL = ctypes.CFUNCTYPE(
    ctypes.c_bool,
    ctypes.c_void_p,
    ctypes.c_uint64,
    ctypes.c_int,
    ctypes.POINTER(_Entry),
    ctypes.c_void_p,
)


class DelaySlots:
    """What one engine believes of branches, and may be told."""

    def __init__(self, uc: Uc, branches: Branches) -> None:
        """Hook `uc`. Raises `GuestError` where its contexts are not what `branches` knows."""
        size = uclib.uc_context_size(uc._uch)
        if size != branches.context:
            raise GuestError(
                f"this emulator's branches cannot be followed: a context of it has {size} bytes, "
                f"and that of the version known has {branches.context}"
            )
        self._uc = uc._uch
        self._context = uc.context_save()  # owns the memory
        self._mask = branches.mask
        address = ctypes.cast(self._context.context, ctypes.c_void_p).value
        assert address is not None
        self._word = ctypes.c_uint32.from_address(address + branches.offset)
        self._callback = _FILL(self._fill)
        handle, everywhere = uc_hook_h(), (ctypes.c_uint64(1), ctypes.c_uint64(0))
        status = uclib.uc_hook_add(
            uc._uch, ctypes.byref(handle), UC_HOOK_TLB_FILL, self._callback, 0, *everywhere
        )
        if status:
            raise GuestError(f"the emulator takes no hook: error {status}")

    def pending(self) -> bool:
        """Whether the engine, now stopped, is between a branch and its slot."""
        uclib.uc_context_save(self._uc, self._context.context)
        return bool(self._word.value & self._mask)

    def forget(self) -> None:
        """Whatever pc is, nothing is a slot there."""
        if self.pending():
            self._word.value &= ~self._mask
            uclib.uc_context_restore(self._uc, self._context.context)

    def _fill(
        self, uc: int, address: int, access: int, entry: ctypes._Pointer[_Entry], data: object
    ) -> bool:
        """Enter a page, as `fill_whole_pages` does, and take off the mark of an access to data."""
        entry[0].paddr = address
        if access == UC_MEM_FETCH:
            # The mark is right here: the slot is being fetched from a page of its own.
            entry[0].perms = UC_PROT_READ | UC_PROT_EXEC
        else:
            entry[0].perms = UC_PROT_READ | UC_PROT_WRITE
            self.forget()
        return True
