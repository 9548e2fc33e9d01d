"""Delay slots: a branch and the next instruction belong together, but the engine may separate them.

On architectures with delay slots, the engine keeps a word of its own: whether the next
instruction is in a delay slot, and where the branch goes. This word is wrong or hidden in two
cases:

- If an access misses the engine's TLB, the engine retranslates the block to restore pc. This marks
  the word as if the engine stood between a branch and its slot. The engine would then run the
  branch's target as the slot. So this module removes the mark after each such access. It is issue
  2272 of Unicorn, present in 2.1.4. A hook on
  memory has the same effect at each access, so it must call `forget`.
- A branch at the end of a page also ends a block. A stop before the next block is then
  between branch and slot, which pc does not show. Only the slot may run there.

The word is read from a saved context, at the offset that `Branches` has for the engine's
version, and written by restoring the context. The hook that does so after an access is machine
code if the host allows it (native.py): as a function in Python it took a sixth of a traced run.
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
from .native import native_hook


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


class _Mark(ctypes.Structure):
    """What the hook in machine code (`hosts/*/slots.S`) needs."""

    _fields_ = (
        ("save", ctypes.c_void_p),
        ("restore", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("word", ctypes.c_void_p),
        ("mask", ctypes.c_uint32),
    )


class DelaySlots:
    """The delay-slot word of one engine."""

    def __init__(self, uc: Uc, branches: Branches, *, native: bool) -> None:
        """Hook `uc`, with machine code if `native` and the host allows it.

        Raises `GuestError` if its contexts differ from those `branches` describes.
        """
        size = uclib.uc_context_size(uc._uch)
        if size != branches.context:
            raise GuestError(
                f"this version of the emulator is not supported: its contexts have {size} bytes "
                f"instead of {branches.context}"
            )
        self._uc = uc._uch
        self._context = uc.context_save()  # owns the memory
        self._mask = branches.mask
        address = ctypes.cast(self._context.context, ctypes.c_void_p).value
        assert address is not None
        self._word = ctypes.c_uint32.from_address(address + branches.offset)
        hook = native_hook("slots") if native else None
        if hook is None:
            self._fill_in_python()
            return
        save, restore = (
            ctypes.cast(each, ctypes.c_void_p)
            for each in (uclib.uc_context_save, uclib.uc_context_restore)
        )
        word = address + branches.offset
        self._mark = _Mark(save, restore, address, word, branches.mask)
        hook.add(uc, UC_HOOK_TLB_FILL, ctypes.addressof(self._mark))

    def _fill_in_python(self) -> None:
        self._callback = _FILL(self._fill)
        handle, everywhere = uc_hook_h(), (ctypes.c_uint64(1), ctypes.c_uint64(0))
        status = uclib.uc_hook_add(
            self._uc, ctypes.byref(handle), UC_HOOK_TLB_FILL, self._callback, 0, *everywhere
        )
        if status:
            raise GuestError(f"the emulator refused a hook: error {status}")

    def pending(self) -> bool:
        """Whether the engine, now stopped, is between a branch and its slot."""
        uclib.uc_context_save(self._uc, self._context.context)
        return bool(self._word.value & self._mask)

    def forget(self) -> None:
        """Remove the mark: the next instruction is not in a delay slot."""
        if self.pending():
            self._word.value &= ~self._mask
            uclib.uc_context_restore(self._uc, self._context.context)

    def _fill(
        self, uc: int, address: int, access: int, entry: ctypes._Pointer[_Entry], data: object
    ) -> bool:
        """Fill in a page as `fill_whole_pages` does; after an access to data remove the mark."""
        entry[0].paddr = address
        if access == UC_MEM_FETCH:
            # The mark is right here: the slot is being fetched from a page of its own.
            entry[0].perms = UC_PROT_READ | UC_PROT_EXEC
        else:
            entry[0].perms = UC_PROT_READ | UC_PROT_WRITE
            self.forget()
        return True
