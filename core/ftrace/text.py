"""Every change that ftrace makes to text, and the end of ftrace when one is refused.

`FtraceText` hands edits to the patcher together with the module stubs that their calls
use. If the text is not what ftrace left there, the patcher writes nothing and raises
`FtraceBug`. The bug is then reported in the kernel's words in dmesg, and ftrace stays off
until the machine is restarted (`ftrace_bug()`, `ftrace_kill()`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import numpy as np

from ..abi import TextPoke
from ..arch import Edit, ModuleStub
from ..errors import FtraceBug, FtraceBugType
from ..kernel.kallsyms import Kallsyms
from ..machine.machine import Machine
from ..memento import Restore, attributes, in_order
from . import bug
from .bug import callee_name, stub_name, with_callees
from .patch import Patcher, joined
from .phases import Patch, Phase
from .records import Flag, Records
from .targets import Change
from .trampolines import OpsTrampolines


class FtraceText:
    """The text of one machine, as ftrace changes it."""

    def __init__(
        self,
        machine: Machine,
        kallsyms: Kallsyms,
        records: Records,
        trampolines: OpsTrampolines | None,
        on_bug: Callable[[], None],
    ) -> None:
        """`on_bug` is called once a bug has shut ftrace off."""
        self.patcher = Patcher(machine, machine.port)
        self.disabled = False
        """Set by a bug, until the machine is restarted (`ftrace_disabled`)."""
        self.bug: FtraceBug | None = None
        """The bug that shut ftrace off, with its report."""
        self._machine = machine
        self._kallsyms = kallsyms
        self._records = records
        self._trampolines = trampolines
        self._on_bug = on_bug
        self._refused: FtraceBug | None = None
        """The bug that was found during the guest's change."""

    def save(self) -> Restore:
        """Return a function that restores the host's part; the machine saves the text itself."""
        return in_order(attributes(self, "disabled", "bug"), self.patcher.save())

    def verify(self, edit: Edit, type: FtraceBugType, target: int) -> None:
        """Raise `FtraceBug` and shut ftrace off if `edit` does not find the text it expects.

        `target` is the address that the calls should reach; the report names it.
        """
        try:
            self.patcher.verify(edit, self._stubs(edit))
        except FtraceBug as found:
            raise self._shut_off(found, type, target) from found

    def apply(
        self, edit: Edit, type: FtraceBugType, target: int, method: str | None = None
    ) -> None:
        """Verify `edit`, then write it by `method` (default: the patcher's). Raises `FtraceBug`."""
        try:
            targets = np.full(len(edit.address), target, np.uint64)
            self.patcher.apply(edit, method, self._stubs(edit), type=type, targets=targets)
        except FtraceBug as found:
            raise self._shut_off(found, type, target) from found

    def apply_all(self, changes: Sequence[Change], undo: ExitStack) -> None:
        """Verify all of `changes`, then write them at once; `undo` puts the text back.

        Raises `FtraceBug`.
        """
        if not changes:
            return
        edit = joined(*(change.edit for change in changes))
        of_each = np.array([change.target for change in changes], np.uint64)
        targets = np.repeat(of_each, [len(change.rows) for change in changes])
        first = changes[0].type
        try:
            self.patcher.apply(
                edit, None, self._stubs(edit), of_sites=True, type=first, targets=targets
            )
        except FtraceBug as found:
            places = ((change, np.uint64(found.ip)) for change in changes)
            wrong = next(change for change, ip in places if ip in change.edit.ips)
            raise self._shut_off(found, wrong.type, wrong.target) from found
        undo.callback(self.put_back, edit)

    def next_phase(self) -> Phase:
        """Perform the next phase of the patch that is under way, and return it.

        Raises `UsageError` without one, `FtraceBug` with everything put back, and `GuestError` if
        the guest does not reach the state that the phase needs.
        """
        patch, self._refused = self.patcher.patch, None
        try:
            phase = self.patcher.next()
        except FtraceBug as found:
            assert patch is not None
            raise self._refuse(patch, found) from found
        self._raise_refused()
        return phase

    def perform(self) -> None:
        """Perform the recorded patch with the guest's help.

        Raises `FtraceBug` and `GuestError`, with everything put back.
        """
        self._refused = None
        patch = self.patcher.patch
        try:
            self.patcher.perform()
        except FtraceBug as found:
            assert patch is not None
            raise self._refuse(patch, found) from found
        self._raise_refused()

    def poke(self, cpu: int) -> int | None:
        """Like `Patcher.poke`, but a bug ends the patch and is raised where it is awaited."""
        patch = self.patcher.patch
        try:
            return self.patcher.poke(cpu)
        except FtraceBug as found:
            assert patch is not None
            self._refused = self._refuse(patch, found)
            return TextPoke.DONE

    def _refuse(self, patch: Patch, found: FtraceBug) -> FtraceBug:
        """Shut ftrace off for the bug `found`, put everything back and return the report."""
        ip, type, target = _blamed(patch, found.ip)
        found.ip = ip
        report = self._shut_off(found, type, target)
        self.patcher.abandon()
        return report

    def _raise_refused(self) -> None:
        """Raise the bug that the guest's change has hit, if any."""
        refused, self._refused = self._refused, None
        if refused is not None:
            raise refused

    def put_back(self, edit: Edit) -> None:
        """Write the text that `edit` found before it was applied."""
        self.patcher.put_back(edit)

    def _stubs(self, edit: Edit) -> list[ModuleStub]:
        """Return the module stubs that the calls of `edit` use."""
        return self._records.stubs_at(np.concatenate([np.empty(0, np.uint64), *edit.via]))

    def _shut_off(self, found: FtraceBug, type: FtraceBugType, target: int) -> FtraceBug:
        """Shut ftrace off for the bug `found`, write its report to dmesg and return it."""
        row = self._records.find(found.ip)
        flags, users, own = 0, 0, ""
        if row is not None:
            self._records.table["failed"][row] = True
            flags, users = int(self._records.table["flags"][row]), int(self._records.users[row])
        if flags & Flag.TRAMP_EN and self._trampolines is not None:
            own = self._trampolines.text(target)
        found = with_callees(found, self._machine.port, self._name, self._leads)
        report = bug.reported(found, type, self._kallsyms, flags, users, target, own)
        self.disabled = True
        self.bug = report
        self._on_bug()
        for line in report.report:
            self._machine.dmesg.write(self._machine.now, line)
        return report

    def _leads(self, address: int) -> int | None:
        """Return where the stub at `address` leads; None if there is no stub."""
        stubs = self._records.stubs_at(np.array([address], np.uint64))
        return self.patcher.stub_target(stubs[0]) if stubs else None

    def _name(self, address: int) -> str:
        """Return a name for the code at `address`, for a report."""
        stubs = self._records.stubs_at(np.array([address], np.uint64))
        if stubs:
            return stub_name(stubs[0], self.patcher.stub_target(stubs[0]), self._kallsyms)
        own = None if self._trampolines is None else self._trampolines.at(address)
        if own is not None and own.address == address:
            return f"the trampoline of {own.ops.name}"
        return callee_name(address, self._kallsyms)


def _blamed(patch: Patch, address: int) -> tuple[int, FtraceBugType, int]:
    """Return rec.ip, what was done and its target for the place of `patch` at `address`."""
    found: list[tuple[int, FtraceBugType, int]] = []
    for each in patch.rounds:
        before = np.flatnonzero(each.ips <= np.uint64(address))
        if len(before):
            row = int(before[np.argmax(each.ips[before])])
            found.append((int(each.ips[row]), each.type, int(each.targets[row])))
    return max(found, key=lambda each: each[0], default=(address, FtraceBugType.UPDATE, 0))
