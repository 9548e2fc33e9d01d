"""Virtual time: a vCPU's clock, advanced by the length of the code it executes.

One byte of executed code is one virtual nanosecond. The engine calls a hook before each block
of guest code. The hook either stops the engine, with the block not run and pc at its start, or
counts the block:

    if (local->stop_request)
            return control->stop(uc);
    if (control->ticks >= control->deadline) {
            if (control->ticks >= control->limit)
                    return control->stop(uc);
            if (control->slots && address == control->block + control->size &&
                (address % 4096 == 0 || control->size >= 480))
                    return control->stop(uc);
            if (control->ticks < control->due)
                    control->deadline = min(control->ticks + control->slice, control->due);
            else if (local->irqs_disabled)
                    control->deadline = control->ticks + control->slice;
            else
                    return control->stop(uc);
            clock->deadline = control->deadline;    in the guest's byte order
    }
    control->block = address, control->size = size;
    control->ticks += size;
    clock->ticks = control->ticks;      in the guest's byte order
    executed[address % sizeof(executed)] = 1;

The deadline is compared before the block is counted, so the total does not depend on where
slices end. If nothing happens between two slices, the next one begins at once (`follow`), which
saves a stop and a start of the engine. An interrupt that is due while the guest has them disabled
waits for the end of another slice. A block that follows the last one in memory may be the delay
slot of its branch, if a page or a long block has ended between the two: then the slot must run
before the next slice. `control`, the two CPU-local pages and `executed` are consecutive host
memory, so one pointer reaches all of them:

    +0      control   u64 ticks, u64 deadline, address of uc_emu_stop, u64 block, u64 size,
                      u64 limit, u64 slice, u64 due, u64 slots; host byte order
    +4096   clock     struct cpu_clock, mapped read-only into the guest
    +8192   local     struct cpu_local, mapped into the guest after it
    +12288  executed  a byte for each block that ran, by the low bits of its address

The hook is machine code if the host allows it (native.py). Otherwise the same few lines in
Python count the same ticks, more slowly.
"""

from __future__ import annotations

import ctypes
import sys
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from unicorn import Uc
from unicorn.unicorn_const import UC_HOOK_BLOCK
from unicorn.unicorn_py3.unicorn import uclib

from .. import abi
from ..memento import Restore
from .memory import PAGE_SIZE, host_pages
from .native import native_hook

# Words of the control page.
_TICKS, _DEADLINE, _STOP, _BLOCK, _SIZE, _LIMIT, _SLICE, _DUE, _SLOTS = range(9)
# Words of the local page, as machine.h has them.
_STOP_REQUEST, _IRQS_DISABLED = 0, 3
_LONG_BLOCK = 480
"""Least bytes of a block that the engine ends for its length: `lwr` takes the most operations."""
EXECUTED = 1 << 18
"""Size of `executed`, as the hooks in `hosts/` have it."""

_NEVER = (1 << 64) - 1


class Slices(NamedTuple):
    """Slices that follow the first one of a run without a stop, in virtual ns."""

    limit: int = 0
    """The run ends with the first slice that ends at or after this time."""
    length: int = 0
    due: int = 0
    """Time of an interrupt: a slice ends early then, and the run if they are not disabled."""


class Clock:
    """The three pages of one vCPU, and the hook that updates them."""

    def __init__(self, uc: Uc, byteorder: str, *, native: bool | None, slots: bool = False) -> None:
        """Hook `uc`, with machine code if `native`, or Python; None tries machine code first.

        `slots` says whether branches have delay slots.

        Raises `OSError` if `native` is True and the host refuses machine code.
        """
        self.byteorder = byteorder
        size = (1 + abi.LOCAL_PAGES) * PAGE_SIZE
        self._pages, pages = host_pages(size + EXECUTED)
        self.bytes = pages[:size]
        self.executed = pages[size:]
        """Whether a block has run that starts at an address with these low bits, uint8[EXECUTED].

        What a real CPU's instruction cache would have; `Vcpu` clears it when it flushes.
        """
        words = memoryview(self._pages)
        self.control = words[: 9 * 8].cast("Q")
        """The control page; `ticks` is its first word."""
        self._control = self.control
        self._control[_STOP] = _address_of(uclib.uc_emu_stop)
        self._control[_SLOTS] = slots
        clock = self.bytes[PAGE_SIZE : 2 * PAGE_SIZE]
        # The guest's copy as words, if it has the host's byte order.
        self._shared = (
            words[PAGE_SIZE : PAGE_SIZE + 16].cast("Q") if byteorder == sys.byteorder else None
        )
        local = self.bytes[2 * PAGE_SIZE :]
        self.clock: np.void = _record(clock, abi.cpu_clock(byteorder))
        self.local: np.void = _record(local, abi.cpu_local(byteorder))
        self.local_bytes = words[2 * PAGE_SIZE : size]
        """The local page as bytes."""
        # Tested for zero only, so the guest's byte order does not matter.
        self._flags = self.local_bytes[:16].cast("I")
        self._hook = None if native is False else native_hook("block", byteorder != sys.byteorder)
        if native and self._hook is None:
            raise OSError("this host does not run machine code made at run time")
        self.native = self._hook is not None
        self.hook(uc)

    @property
    def host_address(self) -> int:
        """Address of the guest's two pages in this process: the clock, then the local page."""
        return int(self.bytes.ctypes.data) + PAGE_SIZE

    @property
    def ticks(self) -> int:
        """Virtual nanoseconds since the machine started."""
        return self._control[_TICKS]

    @ticks.setter
    def ticks(self, value: int) -> None:
        self._control[_TICKS] = value
        self.clock["ticks"] = value

    @property
    def deadline(self) -> int:
        """Virtual ns; the engine stops at the first block that starts at or after it."""
        return self._control[_DEADLINE]

    @deadline.setter
    def deadline(self, value: int) -> None:
        self._control[_DEADLINE] = value
        if self._shared is None:
            self.clock["deadline"] = value
        else:
            self._shared[_DEADLINE] = value

    def follow(self, slices: Slices) -> None:
        """Have the next slices begin without a stop."""
        control = self._control
        control[_LIMIT], control[_SLICE], control[_DUE] = slices

    @property
    def block(self) -> tuple[int, int]:
        """Address and size in bytes of the block that ran last."""
        return self._control[_BLOCK], self._control[_SIZE]

    @property
    def stop_requested(self) -> bool:
        """Whether the guest asked for the machine's attention."""
        return self._flags[_STOP_REQUEST] != 0

    def hook(self, uc: Uc) -> None:
        """Count the time of `uc`, which replaces the engine before it."""
        if self._hook is not None:
            self._hook.add(uc, UC_HOOK_BLOCK, int(self.bytes.ctypes.data))
        else:
            self._hook_python(uc)

    def save(self) -> Restore:
        """Return a function that restores the three pages."""
        pages = self.bytes.copy()

        def restore() -> None:
            self.bytes[:] = pages

        return restore

    def _hook_python(self, uc: Uc) -> None:
        control, flags = self._control, self._flags
        shared, record, executed = self._shared, self.clock, self.executed

        def slot(address: int) -> bool:
            size = control[_SIZE]
            follows = address == control[_BLOCK] + size
            return follows and (address % PAGE_SIZE == 0 or size >= _LONG_BLOCK)

        def follows(address: int, ticks: int) -> bool:
            if ticks >= control[_LIMIT] or (control[_SLOTS] and slot(address)):
                return False
            end, due = ticks + control[_SLICE], control[_DUE]
            if ticks >= due and not flags[_IRQS_DISABLED]:
                return False
            self.deadline = end if ticks >= due else min(end, due)
            return True

        def block(uc: Uc, address: int, size: int, data: object) -> None:
            ticks = control[_TICKS]
            late = ticks >= control[_DEADLINE]
            if flags[_STOP_REQUEST] or (late and not follows(address, ticks)):
                uc.emu_stop()
                return
            control[_BLOCK], control[_SIZE] = address, size
            executed[address % EXECUTED] = 1
            ticks += size
            control[_TICKS] = ticks
            if shared is not None:
                shared[_TICKS] = ticks
            else:
                record["ticks"] = ticks

        uc.hook_add(UC_HOOK_BLOCK, block)


def _record(page: NDArray[np.uint8], layout: np.dtype[np.void]) -> np.void:
    """Return a record over the start of `page`; assigning a field writes through."""
    record: np.void = page[: layout.itemsize].view(layout)[0]
    return record


def _address_of(function: object) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]
