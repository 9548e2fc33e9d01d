"""The one place where text is written: read, compare, write, flush.

An `Edit` has the expected and the new text of n places. All places are compared first; if
one differs, or its page cannot be read or written, nothing is written and `FtraceBug` names
it. Then everything is written at
once and each vCPU is flushed once (`flush_icache_range`): translated code is this
machine's instruction cache, and a vCPU that is not flushed goes on running the old bytes.

Methods, for a guest that is in the middle of running:

    stop_machine  no vCPU runs while text is written
    breakpoint    three steps, each seen by every vCPU before the next: write a
                  breakpoint over the first byte, then the rest, then the first
                  byte; a vCPU that hits the breakpoint emulates the new text
    none          for teaching: write the first half of every place, let the guest
                  run, then write the second half; a vCPU can fetch an instruction
                  that is half old and half new. If instructions are aligned
                  words, the first word is written whole, then the others
    nmi_enter     as stop_machine, but an NMI first writes the text that is being written
                  (`ftrace_nmi_enter`, from Linux 2.6.29 on)

stop_machine does not stop NMIs. One that comes in the middle of a change (`nmi CPU change`)
comes after the first word of the first place was written, or between the steps of breakpoint.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..arch import Addresses, Bytes, Edit, ModuleStub, Port
from ..errors import FtraceBug, MemoryFault, UsageError
from ..memento import Restore, attributes

STOP_MACHINE = "stop_machine"
BREAKPOINT = "breakpoint"
NONE = "none"
NMI_ENTER = "nmi_enter"

_WORD = 4
"""Bytes written before an NMI in the middle of a change: Linux 2.6.27 wrote four bytes of a site
by one instruction, and the fifth by another (`ftrace_modify_code`)."""


class Text(Protocol):
    """Guest memory, as far as patching needs it."""

    def read(self, address: int, size: int) -> bytes: ...

    def write(self, address: int, data: bytes) -> None: ...

    def gather(self, addresses: Addresses, width: int) -> tuple[Bytes, NDArray[np.bool_]]: ...

    def scatter(self, addresses: Addresses, data: Bytes) -> None: ...

    def writable(self, addresses: Addresses, width: int) -> NDArray[np.bool_]: ...


class Processors(Protocol):
    """The machine, as far as patching needs it."""

    @property
    def memory(self) -> Text: ...

    def flush(
        self, start: int | None = None, end: int | None = None, cpus: Sequence[int] | None = None
    ) -> None: ...

    def keep_old(self, addresses: Addresses, size: int, flushed: Sequence[int]) -> None: ...

    def sync(self) -> None: ...

    def nmis_in_change(self) -> Sequence[int]: ...

    def take_nmi(self, cpu: int) -> None: ...

    def registers(self, cpu: int) -> Mapping[str, int]: ...

    def set_registers(self, cpu: int, values: Mapping[str, int]) -> None: ...


def stub_target(port: Port, stub: ModuleStub, found: bytes) -> int | None:
    """Return the address that `stub` leads to if it holds `found`, or None if it is damaged."""
    if port.stubs is None:
        return port.call_target(stub.address, found)
    return port.stubs.target(stub.address, found, stub.toc)


class Patcher:
    """Applies edits to the text of a machine."""

    def __init__(self, machine: Processors, port: Port) -> None:
        self._machine = machine
        self._port = port
        self._method = port.facts.patch_methods[0]
        self.flush_cpus: tuple[int, ...] | None = None
        """vCPUs to flush after a write; None means all.

        Leaving one out demonstrates a stale instruction cache.
        """
        self.nmi_updates = 0
        """Sites whose text an NMI has written, with the method nmi_enter (`nmi_update_count`)."""
        self._cpus: Sequence[int] = ()
        """vCPUs that take an NMI in the middle of the present change."""
        self._under_breakpoint: Edit | None = None
        """The edit that `_by_breakpoint` is writing now."""

    @property
    def method(self) -> str:
        """How text is written: one of the port's `patch_methods`."""
        return self._method

    @method.setter
    def method(self, method: str) -> None:
        known = self._port.facts.patch_methods
        if method not in known:
            raise UsageError(f"unknown patch method {method!r} (choose from: {', '.join(known)})")
        self._method = method

    def save(self) -> Restore:
        """Return a function that restores the method and the vCPUs to flush."""
        return attributes(self, "_method", "flush_cpus", "nmi_updates")

    def verify(self, edit: Edit, stubs: Sequence[ModuleStub] = ()) -> None:
        """Compare every place with the expected text, then the `stubs` that the calls use.

        Raises `FtraceBug` for the first place that differs (EINVAL), cannot be encoded
        (EINVAL), cannot be read (EFAULT) or cannot be written (`Facts.unwritable`).
        """
        if not len(edit.address):
            return
        found, readable = self._machine.memory.gather(edit.address, edit.expected.shape[1])
        same = found == edit.expected
        if edit.lengths is not None:
            same |= np.arange(same.shape[1]) >= edit.lengths[:, None]
        writable = self._machine.memory.writable(edit.address, edit.expected.shape[1])
        same_text = edit.reachable & same.all(axis=1)
        right = readable & same_text & writable
        if not right.all():
            row = int(np.argmin(right))
            ip, at = int(edit.ips[row]), int(edit.address[row])
            expected, there = edit.row(edit.expected, row), edit.row(found, row)
            if not readable[row]:
                raise FtraceBug(ip, errno=errno.EFAULT, expected=expected, address=at)
            if same_text[row]:
                number = self._port.facts.unwritable
                raise FtraceBug(ip, errno=number, expected=expected, address=at)
            reason = self._port.explain(at, expected, there)
            raise FtraceBug(
                ip,
                errno=errno.EINVAL,
                expected=expected,
                found=there,
                address=at,
                reason=reason,
            )
        for stub in stubs:
            self._verify_stub(edit, stub)

    def _verify_stub(self, edit: Edit, stub: ModuleStub) -> None:
        """Raise `FtraceBug` for the first word of `stub` that insmod did not write."""
        users = np.any([via == np.uint64(stub.address) for via in edit.via], axis=0)
        ip = int(edit.ips[int(np.argmax(users))])
        try:
            found = self._machine.memory.read(stub.address, len(stub.code))
        except MemoryFault:
            raise FtraceBug(ip, errno=errno.EFAULT, address=stub.address) from None
        if found == stub.code:
            return
        step = self._port.facts.insn_align
        differ = (at for at, (a, b) in enumerate(zip(stub.code, found, strict=True)) if a != b)
        at = next(differ) // step * step
        leads = stub_target(self._port, stub, found)
        reason = f"the stub of {stub.symbol} at {stub.address:x} "
        if leads is None:
            reason += f"leads nowhere: it is damaged at +{at:#x}"
        elif leads == stub.target:
            reason += f"is not what insmod wrote: it differs at +{at:#x}"
        else:
            reason += f"leads elsewhere: addr {leads:x} does not match expected {stub.target:x}"
        raise FtraceBug(
            ip,
            errno=errno.EINVAL,
            expected=stub.code[at : at + step],
            found=found[at : at + step],
            address=stub.address + at,
            reason=reason,
        )

    def stub_target(self, stub: ModuleStub) -> int | None:
        """Return the address that `stub` leads to now; None if it is no longer a stub."""
        try:
            found = self._machine.memory.read(stub.address, len(stub.code))
        except MemoryFault:
            return None
        return stub_target(self._port, stub, found)

    def apply(
        self,
        edit: Edit,
        method: str | None = None,
        stubs: Sequence[ModuleStub] = (),
        of_sites: bool = False,
    ) -> None:
        """Verify all of `edit`, then write it by `method` (default: the patcher's own).

        Only changes `of_sites` have NMIs in the middle.

        Raises `FtraceBug` with nothing written. If anything else ends it early, the text is
        put back.
        """
        self.verify(edit, stubs)
        if not len(edit.address):
            return
        try:
            self._cpus = tuple(self._machine.nmis_in_change()) if of_sites else ()
            self._write(edit, self.method if method is None else method)
        except BaseException:
            self._cpus = ()
            self.put_back(edit)
            raise
        self._cpus = ()

    def put_back(self, edit: Edit) -> None:
        """Write the text that `edit` found, at once, while no vCPU runs."""
        if len(edit.address):
            self._put(edit.reversed(), slice(None))

    def _write(self, edit: Edit, method: str) -> None:
        """Write `edit` by `method`."""
        if method == BREAKPOINT:
            self._by_breakpoint(edit)
        elif method == NONE:
            align = self._port.facts.insn_align
            width = edit.replacement.shape[1]
            half = width // 2 if align == 1 else align
            self._put(edit, slice(0, half))
            if half < width:
                self._machine.sync()
                self._put(edit, slice(half, width))
        else:
            self._stopped(edit, helps=method == NMI_ENTER)

    def _stopped(self, edit: Edit, helps: bool) -> None:
        """Write while no vCPU runs, except for NMIs. With `helps` these write the text first."""
        width = edit.replacement.shape[1]
        if self._cpus:
            first = _first(edit)
            self._put(first, slice(0, min(_WORD, width)))
            for cpu in self._cpus:
                if helps:
                    self.nmi_updates += 1
                    self._put(first, slice(None))
                self._machine.take_nmi(cpu)
        self._put(edit, slice(None))

    def _nmis(self) -> None:
        """Let each NMI come that is to come in the middle of the change."""
        for cpu in self._cpus:
            self._machine.take_nmi(cpu)

    def _put(self, edit: Edit, columns: slice) -> None:
        """Write `columns` of the replacement, within the length of each place, and flush."""
        width = edit.replacement.shape[1]
        start, stop, _ = columns.indices(width)
        lengths = np.full(len(edit.address), width) if edit.lengths is None else edit.lengths
        for length in np.unique(lengths).tolist():
            end = min(stop, length)
            if start < end:
                rows = lengths == length
                data = np.ascontiguousarray(edit.replacement[rows, start:end])
                self._keep_old(edit.address[rows] + np.uint64(start), end - start)
                self._machine.memory.scatter(edit.address[rows] + np.uint64(start), data)
        self._flush(edit)

    def _keep_old(self, addresses: Addresses, size: int) -> None:
        if self.flush_cpus is not None:
            self._machine.keep_old(addresses, size, self.flush_cpus)

    def _flush(self, edit: Edit) -> None:
        start = int(edit.address.min())
        end = int(edit.address.max()) + edit.replacement.shape[1]
        self._machine.flush(start, end, self.flush_cpus)

    def _by_breakpoint(self, edit: Edit) -> None:
        """Write under a breakpoint, with the guest running between the steps."""
        breakpoint_ = self._port.facts.breakpoint
        if breakpoint_ is None:
            raise UsageError(f"{self._port.facts.name} cannot patch by breakpoint")
        machine, trap = self._machine, np.frombuffer(breakpoint_.insn, np.uint8)
        self._under_breakpoint = edit
        try:
            self._keep_old(edit.address, len(trap))
            machine.memory.scatter(edit.address, np.tile(trap, (len(edit.address), 1)))
            self._flush(edit)
            self._nmis()
            machine.sync()
            self._put(edit, slice(len(trap), None))
            machine.sync()
            self._put(edit, slice(0, len(trap)))
            machine.sync()
        finally:
            self._under_breakpoint = None

    def emulate(self, cpu: int, ip: int) -> bool:
        """Emulate the new text of the site at `ip`, whose breakpoint `cpu` has hit.

        Return False if no site at `ip` is being patched.
        """
        edit, machine = self._under_breakpoint, self._machine
        rows = [] if edit is None else np.flatnonzero(edit.address == np.uint64(ip)).tolist()
        if edit is None or not rows:
            return False
        text = edit.replacement[rows[0]].tobytes()
        effect = self._port.emulate(machine.registers(cpu), ip, text)
        for address, data in effect.stores:
            machine.memory.write(address, data)
        machine.set_registers(cpu, effect.registers)
        return True


def _first(edit: Edit) -> Edit:
    """Return the change of the first place only."""
    lengths = None if edit.lengths is None else edit.lengths[:1]
    return Edit(
        edit.address[:1],
        edit.expected[:1],
        edit.replacement[:1],
        edit.reachable[:1],
        tuple(each[:1] for each in edit.via),
        lengths,
    )


def joined(*edits: Edit) -> Edit:
    """Join several edits into one; all texts must have the same width."""
    of_each = [edit.lengths for edit in edits if edit.lengths is not None]
    lengths = np.concatenate(of_each) if len(of_each) == len(edits) else None
    stubs = max(len(edit.via) for edit in edits)
    none = [(np.zeros(len(edit.address), np.uint64),) * (stubs - len(edit.via)) for edit in edits]
    via = [(*edit.via, *rest) for edit, rest in zip(edits, none, strict=True)]
    return Edit(
        np.concatenate([edit.address for edit in edits]),
        np.concatenate([edit.expected for edit in edits]),
        np.concatenate([edit.replacement for edit in edits]),
        np.concatenate([edit.reachable for edit in edits]),
        tuple(np.concatenate(each) for each in zip(*via, strict=True)),
        lengths,
        np.concatenate([edit.ips for edit in edits]),
    )
