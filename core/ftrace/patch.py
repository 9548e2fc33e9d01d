"""The one place where text is written: read, compare, write, flush.

An `Edit` says for n places what must be there and what shall be. All places are
compared first; if one differs nothing is written and `FtraceBug` names it. Then
everything is written at once and each vCPU is told once (`flush_icache_range`):
translated code is this machine's instruction cache, and a vCPU that is not told
goes on running the old bytes.

Methods, for a guest that is in the middle of running:

    stop_machine  no vCPU runs while text is written
    breakpoint    three steps, each seen by every vCPU before the next: a
                  breakpoint over the first byte, the rest behind it, the first
                  byte; a vCPU that meets the breakpoint is made to do what the
                  new text says
    none          for teaching: the first half of every place is written, the
                  guest runs on, then the second half; a vCPU can fetch an
                  instruction that is half old and half new
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..arch import Addresses, Bytes, Edit, Port
from ..errors import FtraceBug, UsageError

STOP_MACHINE = "stop_machine"
BREAKPOINT = "breakpoint"
NONE = "none"


class Text(Protocol):
    """Guest memory, as far as patching needs it."""

    def read(self, address: int, size: int) -> bytes: ...

    def write(self, address: int, data: bytes) -> None: ...

    def gather(self, addresses: Addresses, width: int) -> tuple[Bytes, NDArray[np.bool_]]: ...

    def scatter(self, addresses: Addresses, data: Bytes) -> None: ...


class Processors(Protocol):
    """The machine, as far as patching needs it."""

    breakpoint_handler: Callable[[int, int], bool] | None

    @property
    def memory(self) -> Text: ...

    def flush(
        self, start: int | None = None, end: int | None = None, cpus: Sequence[int] | None = None
    ) -> None: ...

    def sync(self) -> None: ...

    def registers(self, cpu: int) -> Mapping[str, int]: ...

    def set_registers(self, cpu: int, values: Mapping[str, int]) -> None: ...


class Patcher:
    """Applies edits to the text of a machine."""

    def __init__(self, machine: Processors, port: Port) -> None:
        self._machine = machine
        self._port = port
        self._method = port.facts.patch_methods[0]
        self.flush_cpus: tuple[int, ...] | None = None
        """vCPUs that are told of new text; None for all. To leave one out is a lesson."""

    @property
    def method(self) -> str:
        """How text is written: one of the port's `patch_methods`."""
        return self._method

    @method.setter
    def method(self, method: str) -> None:
        known = self._port.facts.patch_methods
        if method not in known:
            raise UsageError(f"no patch method {method!r}; there is: {', '.join(known)}")
        self._method = method

    def verify(self, edit: Edit) -> None:
        """Compare every place with what is expected.

        Raises `FtraceBug` for the first that differs (EINVAL), cannot be
        encoded (EINVAL) or cannot be read (EFAULT); so do the edit's guards.
        """
        if not len(edit.address):
            return
        found, readable = self._machine.memory.gather(edit.address, edit.expected.shape[1])
        right = readable & edit.reachable & (found == edit.expected).all(axis=1)
        if not right.all():
            row = int(np.argmin(right))
            reason = errno.EINVAL if readable[row] else errno.EFAULT
            raise FtraceBug(
                int(edit.address[row]),
                errno=reason,
                expected=edit.expected[row].tobytes(),
                found=found[row].tobytes() if readable[row] else b"",
            )
        for guard in edit.guards:
            actual = self._machine.memory.read(guard.address, len(guard.expected))
            if actual != guard.expected:
                raise FtraceBug(
                    int(edit.address[0]),
                    errno=errno.EINVAL,
                    expected=guard.expected,
                    found=actual,
                    address=guard.address,
                )

    def apply(self, edit: Edit, method: str | None = None) -> None:
        """Verify all of `edit`, then write it by `method` (default: the patcher's own).

        Raises `FtraceBug` with nothing written.
        """
        self.verify(edit)
        if not len(edit.address):
            return
        method = self.method if method is None else method
        if method == BREAKPOINT:
            self._by_breakpoint(edit)
        elif method == NONE:
            half = edit.replacement.shape[1] // 2
            self._put(edit, slice(0, half))
            self._machine.sync()
            self._put(edit, slice(half, None))
        else:
            self._put(edit, slice(None))

    def _put(self, edit: Edit, columns: slice) -> None:
        """Write `columns` of the replacement and make it seen."""
        data = np.ascontiguousarray(edit.replacement[:, columns])
        address = edit.address + np.uint64(columns.start or 0)
        self._machine.memory.scatter(address, data)
        self._flush(edit)

    def _flush(self, edit: Edit) -> None:
        start = int(edit.address.min())
        end = int(edit.address.max()) + edit.replacement.shape[1]
        self._machine.flush(start, end, self.flush_cpus)

    def _by_breakpoint(self, edit: Edit) -> None:
        """Write under a breakpoint, with the guest running between the steps."""
        breakpoint_ = self._port.facts.breakpoint
        if breakpoint_ is None:
            raise UsageError(f"{self._port.facts.name} has no breakpoint to patch by")
        machine, trap = self._machine, np.frombuffer(breakpoint_.insn, np.uint8)
        before = machine.breakpoint_handler
        machine.breakpoint_handler = self._emulator(edit, before)
        try:
            machine.memory.scatter(edit.address, np.tile(trap, (len(edit.address), 1)))
            self._flush(edit)
            machine.sync()
            self._put(edit, slice(len(trap), None))
            machine.sync()
            self._put(edit, slice(0, len(trap)))
            machine.sync()
        finally:
            machine.breakpoint_handler = before

    def _emulator(
        self, edit: Edit, otherwise: Callable[[int, int], bool] | None
    ) -> Callable[[int, int], bool]:
        """A handler that makes a vCPU at one of the edit's breakpoints do the new text."""
        rows = {address: row for row, address in enumerate(edit.address.tolist())}
        facts, machine = self._port.facts, self._machine

        def handle(cpu: int, ip: int) -> bool:
            row = rows.get(ip)
            if row is None:
                return otherwise is not None and otherwise(cpu, ip)
            registers = machine.registers(cpu)
            here = {name: registers[name] for name in (facts.abi.pc.name, facts.abi.sp.name)}
            effect = self._port.emulate(here, ip, edit.replacement[row].tobytes())
            for address, data in effect.stores:
                machine.memory.write(address, data)
            machine.set_registers(cpu, effect.registers)
            return True

        return handle
