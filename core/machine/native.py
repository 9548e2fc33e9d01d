"""Hooks of the engine in the host's machine code, which cost next to nothing.

The sources are in `hosts/`: a folder for each machine, as `platform.machine()` names it, and a
file for each hook. The Makefile there assembles them into the committed NAME.bin. A hook with a
variant has a line `swap:`, with the instruction that replaces `{swap}` if guest and host differ
in byte order: NAME-swap.bin. On an unknown machine, or if the system refuses executable pages,
there is no hook, and the caller must work without it.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from unicorn import Uc
from unicorn.unicorn_py3.unicorn import uc_hook_h, uclib

from .memory import PAGE_SIZE, host_pages


@dataclass(frozen=True, slots=True)
class NativeHook:
    """A function with the C calling convention at `address`, in a page of its own."""

    address: int
    pages: mmap.mmap

    def add(self, uc: Uc, kind: int, data: int = 0, start: int = 1, end: int = 0) -> None:
        """Hook `uc` for events of `kind` (UC_HOOK_*); `data` is passed to the hook.

        The events are those at the addresses from `start` to `end`, or all if `start` > `end`.
        """
        handle = uc_hook_h()
        places = (ctypes.c_uint64(start), ctypes.c_uint64(end))
        status = uclib.uc_hook_add(uc._uch, ctypes.byref(handle), kind, self.address, data, *places)
        if status:
            raise RuntimeError(f"uc_hook_add failed with {status}")


def hook_code(host: str, name: str, swap: bool = False) -> bytes | None:
    """Return the machine code of hook `name` for `host`, or None for an unknown host.

    `host` is as `platform.machine()` names it; `swap` says whether guest and host differ in
    byte order.
    """
    folder = files(__package__) / "hosts" / host
    for path in (folder / f"{name}-swap.bin", folder / f"{name}.bin")[not swap :]:
        if path.is_file():
            return path.read_bytes()
    return None


@cache
def native_hook(name: str, swap: bool = False) -> NativeHook | None:
    """Return hook `name` for this host, kept for the life of the process, or None."""
    if sys.platform == "win32":
        return None
    code = hook_code(platform.machine(), name, swap)
    if code is None:
        return None
    pages, view = host_pages(PAGE_SIZE)
    view[: len(code)] = np.frombuffer(code, np.uint8)
    address = int(view.ctypes.data)
    # First written, then made executable: this works on hosts that forbid both at once, and the
    # change of protection also flushes their instruction cache.
    mprotect = ctypes.CDLL(None, use_errno=True).mprotect
    mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if mprotect(address, PAGE_SIZE, mmap.PROT_READ | mmap.PROT_EXEC):
        return None
    return NativeHook(address, pages)
