"""Changes of text that the guest prepares: the host fills `ftrace_update`, and the guest runs.

A task of the guest gets all CPUs to where text may be written, by stop_machine() or by IPIs, and
asks the host to write (`Hypercall.TEXT_POKE`). So a change takes virtual time, and the CPUs execute
the same steps as in Linux. Kernels without that task cannot prepare changes (`obstacle`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import abi
from ..abi import MultiStop, UpdateMethod, Vector
from ..errors import GuestError
from ..memento import Restore, attributes
from . import interrupt
from .function import function_at
from .host import Host
from .vcpu import State, Vcpu

UPDATE, STOP_DATA, SET_STATE = "ftrace_update", "stop_machine_data", "set_state"
"""The kernel's symbols: the request, the state of stop_machine(), the function that sets it."""

LIMIT_NS = 20_000_000
"""Virtual ns in which the guest must get all CPUs to where text may be written."""


class Updates:
    """The changes of text that one machine's guest prepares."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._memory = host.memory
        self._sequence = 0
        self.pending = False
        """Whether the guest has been asked and has not answered yet."""

    def save(self) -> Restore:
        """Return a function that restores the request, between two runs."""
        return attributes(self, "_sequence", "pending")

    def obstacle(self) -> str | None:
        """Return why the guest cannot prepare a change now; None if it can."""
        symbols = self._host.symbols
        address = symbols.address(UPDATE)
        needed = (symbols.address(name) for name in (STOP_DATA, SET_STATE, interrupt.ENTRY))
        if address is None or None in needed:
            return "this kernel has no task for it"
        for vcpu in self._host.vcpus:
            if vcpu.state is State.DEAD:
                return f"CPU {vcpu.number} has stopped"
        if not self._read(address)["task"]:
            return "the kernel has not booted"
        for vcpu in self._host.vcpus:
            if vcpu.state is State.OFF:
                return f"CPU {vcpu.number} is off"
        if self._host.scheduler.running:
            return "the guest waits for it"
        return None

    def dismiss(self) -> None:
        """Have the host write without the guest from now on, as if the kernel had no such task."""
        address = self._host.symbols.address(UPDATE)
        if address is not None:
            request = self._read(address)
            request["task"] = 0
            self._memory.write(address, request.tobytes())

    def ask(self, method: UpdateMethod) -> None:
        """Have the guest prepare a change by `method` when it runs."""
        address = self._host.symbols.address(UPDATE)
        assert address is not None
        request = self._read(address)
        self._sequence = self._sequence % 0xFFFF_FFFF + 1
        request["sequence"], request["method"] = self._sequence, method
        self._memory.write(address, request.tobytes())
        self.pending = True
        self.wake()

    def wake(self) -> None:
        """Wake the guest's task, which waits for the console."""
        address = self._host.symbols.address(UPDATE)
        assert address is not None
        request = self._read(address)
        request["wakeups"] = (int(request["wakeups"]) + 1) % (1 << 32)
        self._memory.write(address, request.tobytes())
        self._host.vcpus[0].interrupts.send(Vector.UPDATE, self._host.scheduler.now)

    def run(
        self,
        done: Callable[[], bool],
        after: MultiStop | None = None,
        went_on: Callable[[], None] = lambda: None,
    ) -> bool:
        """Run until `done()`, or until the guest has answered.

        With `after`, also stop when every CPU has acknowledged that state. A CPU that stands at a
        place stays there and runs only interrupts. Return False if a CPU oopses first. Raises
        `GuestError` if the guest does not get there in time. `went_on` is called if a replay ends
        before that, and another run gets there.
        """
        host = self._host
        deaths = len(host.oopses)
        places: tuple[int, ...] = ()
        if after is not None:
            place = host.symbols.address(SET_STATE)
            assert place is not None
            places = (function_at(host.port.facts, host.memory, host.symbols, place).code,)

        def over() -> bool:
            return done() or not self.pending or len(host.oopses) > deaths

        address = host.symbols.address(UPDATE)
        assert address is not None
        reached = host.scheduler.run_beside(
            over,
            LIMIT_NS,
            places,
            lambda vcpu: self.state() is after,
            worker=int(self._read(address)["task"]),
            went_on=went_on,
        )
        if len(host.oopses) > deaths:
            return False
        if not reached:
            raise GuestError(self._stuck())
        return True

    def state(self) -> MultiStop:
        """Return the state of the guest's stop_machine()."""
        address = self._host.symbols.address(STOP_DATA)
        if address is None:
            return MultiStop.NONE
        number = self._memory.read_int(address, 4)
        return MultiStop(number) if number in set(MultiStop) else MultiStop.NONE

    def finish(self, sequence: int, vcpu: Vcpu) -> None:
        """Note that the guest has ended the change `sequence`."""
        if self.pending and sequence == self._sequence:
            self.pending = False
            self._host.services.text_poked(vcpu.number)

    def _stuck(self) -> str:
        """Return the error's text: which CPU does not get there."""
        ms = LIMIT_NS // 1_000_000
        for vcpu in self._host.vcpus:
            if vcpu.local["irqs_disabled"] and vcpu.state is State.RUNNING:
                return (
                    f"CPU {vcpu.number} has kept interrupts off for {ms} ms, so the text could not "
                    "be changed: it stays as it was"
                )
        return f"the CPUs did not stop within {ms} ms, so the text stays as it was"

    def _read(self, address: int) -> np.void:
        """Return the request at `address`, as a copy."""
        layout = abi.ftrace_update(self._memory.byteorder)
        found: np.void = np.frombuffer(self._memory.read(address, layout.itemsize), layout)[
            0
        ].copy()
        return found
