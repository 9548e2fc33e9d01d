"""Requests to the guest: to call a function, or to run a workload by name.

The teaching kernel has a task for them. The machine fills the kernel's symbol `host_request`,
raises `VECTOR_REQUEST` on CPU 0 and runs until the guest answers with `HC_REQUEST_DONE`. A
function called this way runs in a task of its own and may sleep. In a kernel without that
symbol, functions are called directly on vCPU 0 (host_call.py).

A workload can also be started without waiting for its end, to reach a function that only a
workload calls. It runs whenever the machine runs. The next request waits for its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .. import abi
from ..abi import RequestKind, Vector
from ..errors import GuestError, GuestInterrupted, UsageError
from ..memento import Restore, attributes
from . import host_call, interrupt
from .host import Host
from .vcpu import State, Vcpu

ARGUMENTS = 6
"""Maximum number of arguments in `host_request.argument`."""

LIMIT_NS = 10_000_000_000
"""Default limit for a call or a workload, in virtual ns."""

HOST_REQUEST = "host_request"

_CALL_AS_CLIENT = "call_as_client"


@dataclass(frozen=True, slots=True)
class Client:
    """A process outside the guest, on whose behalf the guest runs a call."""

    pid: int
    comm: str
    """Its name, of at most 15 bytes."""


@dataclass(frozen=True, slots=True)
class Started:
    """A workload that was started without waiting for its end."""

    sequence: int
    name: str
    oopses: int
    """Number of oopses at its start."""


class Requests:
    """Sends requests to the guest of one machine, and keeps its answers until they are read."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._memory = host.memory
        self._sequence = 0
        self._results: dict[int, int] = {}
        self.started: Started | None = None
        """The workload that `start_workload` has started, until it ends."""
        self.client: Client | None = None
        """Whose request is being served; None for those of the shell and the console."""

    # Requests, and waiting for the answer

    def call(
        self,
        function: int,
        arguments: Sequence[int] = (),
        comm: str = "call",
        limit_ns: int = LIMIT_NS,
    ) -> int:
        """Call a guest function and return its result, an unsigned number.

        The call runs in the guest's task for requests, or on vCPU 0 in a kernel without one.
        Raises `UsageError` for arguments that do not fit, and what `Scheduler.run_until` raises.
        """
        self.finish_started(limit_ns)
        address = self._address()
        if address is None:
            return self._call_directly(function, arguments, limit_ns)
        sequence = self.fill(
            address, RequestKind.CALL, function=function, arguments=arguments, comm=comm
        )
        return self._wait(sequence, "the call", limit_ns)

    def call_as_client(self, function: int, arguments: Sequence[int], comm: str) -> int:
        """Like `call`, but in a task with the pid and name of `client`, if it is set."""
        client, entry = self.client, self._host.symbols.address(_CALL_AS_CLIENT)
        if client is None or entry is None or self._address() is None:
            return self.call(function, arguments, comm)
        return self.call(entry, (client.pid, function, *arguments), client.comm)

    def run_workload(self, name: str, count: int = 1, limit_ns: int = LIMIT_NS) -> int:
        """Run `count` rounds of the guest's workload `name` and return its result.

        Raises as `call`, and `GuestError` in a kernel that serves no requests.
        """
        self.finish_started(limit_ns)
        return self._wait(self._fill_workload(name, count), f"workload {name}", limit_ns)

    def start_workload(self, name: str, count: int = 1) -> Callable[[], str | None]:
        """Start a workload. Return a function that reports its end, once, as a text.

        A workload that is still running is not started again: the function reports its end. Raises
        `UsageError` while another one is running, and `GuestError` in a kernel that serves no
        requests or has stopped.
        """
        started = self.started
        if started is None or not self._runs(started):
            sequence = self._fill_workload(name, count)
            self._send(f"workload {name}")
            started = Started(sequence, name, len(self._host.oopses))
            self.started = started
        elif started.name != name:
            raise UsageError(f"workload {started.name} is still running: run it to its end first")
        running = started
        return lambda: None if self._runs(running) else f"workload {name} has ended"

    def finish_started(self, limit_ns: int = LIMIT_NS) -> None:
        """Run until the workload that `start_workload` has started ends, if there is one.

        Raises what `Scheduler.run_until` raises.
        """
        started = self.started
        if started is None or not self._runs(started):
            return
        try:
            self._host.scheduler.run_until(
                lambda: not self._runs(started),
                limit_ns,
                f"workload {started.name}, started before,",
            )
        except GuestInterrupted:
            raise
        except GuestError:
            self.started = None  # do not wait again for a failed workload
            raise

    def _runs(self, started: Started) -> bool:
        """Whether a workload has not ended, and no vCPU has oopsed since its start."""
        return self.started is started and len(self._host.oopses) == started.oopses

    def _address(self) -> int | None:
        """Return where requests go; None if the kernel is not up or serves none."""
        symbols = self._host.symbols
        off = self._host.vcpus[0].state is State.OFF
        if off or symbols.address(interrupt.ENTRY) is None:
            return None
        return symbols.address(HOST_REQUEST)

    def _fill_workload(self, name: str, count: int) -> int:
        """Write a request for a workload and return its sequence number."""
        address = self._address()
        if address is None:
            raise GuestError(f"this kernel cannot run workloads: it does not define {HOST_REQUEST}")
        return self.fill(address, RequestKind.WORKLOAD, name=name, count=count, comm=name[:15])

    def _check_cpu(self, what: str) -> Vcpu:
        """Return vCPU 0. Raises `GuestError` if it is dead, naming `what`."""
        vcpu = self._host.vcpus[0]
        if vcpu.state is State.DEAD:
            raise GuestError(f"{what} cannot start: CPU 0 has stopped; reboot first")
        return vcpu

    def _send(self, what: str) -> None:
        """Notify the guest of the request that was filled in."""
        self._check_cpu(what).interrupts.send(Vector.REQUEST, self._host.scheduler.now)

    def _wait(self, sequence: int, what: str, limit_ns: int) -> int:
        """Send a request and return the answer."""
        self._send(what)
        self._host.scheduler.run_until(lambda: self.finished(sequence), limit_ns, what)
        return self.result(sequence) % (1 << 8 * self._memory.pointer_size)

    def _call_directly(self, function: int, arguments: Sequence[int], limit_ns: int) -> int:
        """Call a function on vCPU 0, in a kernel that serves no requests."""
        host = self._host
        self._check_cpu("the call")
        most = host.port.facts.abi.most_arguments
        if len(arguments) > most:
            raise UsageError(f"a call takes at most {most} arguments")
        with host.scheduler.interruptible():
            return host_call.call(host, function, arguments, limit_ns)

    # `host_request`

    def fill(
        self,
        address: int,
        kind: RequestKind,
        *,
        function: int = 0,
        arguments: Sequence[int] = (),
        count: int = 1,
        comm: str = "",
        name: str = "",
    ) -> int:
        """Write the next request to `host_request` at `address` and return its sequence number.

        Raises `UsageError` for arguments that do not fit, `MemoryFault` for a bad address.
        """
        layout = abi.host_request(self._memory.byteorder)
        if len(arguments) > ARGUMENTS:
            raise UsageError(f"a call takes at most {ARGUMENTS} arguments")
        if not 0 <= count < 1 << 64:
            raise UsageError(f"a workload cannot run {count} times")
        request = np.zeros(1, layout)[0]
        sequence = self._sequence % 0xFFFF_FFFF + 1  # 0 stands for no request
        request["sequence"] = sequence
        request["kind"] = kind
        request["function"] = function
        request["argument"][: len(arguments)] = [value % (1 << 64) for value in arguments]
        request["count"] = count
        request["comm"] = _text(comm, abi.TASK_COMM_LEN, "a task's name")
        request["name"] = _text(name, layout["name"].itemsize, "a workload's name")
        self._memory.write(address, request.tobytes())
        self._sequence = sequence
        return sequence

    def finish(self, sequence: int, result: int) -> None:
        """Note the guest's answer; one to an unknown request is dropped."""
        if self.started is not None and sequence == self.started.sequence:
            self.started = None
        elif sequence == self._sequence:
            self._results = {sequence: result}

    def finished(self, sequence: int) -> bool:
        """Whether `sequence` has been answered."""
        return sequence in self._results

    def result(self, sequence: int) -> int:
        """Return the answer and forget it."""
        return self._results.pop(sequence)

    # Checkpoints

    def save(self) -> Restore:
        """Return a function that restores the answers, between two runs."""
        return attributes(self, "_sequence", "_results", "started")


def _text(text: str, size: int, what: str) -> bytes:
    data = text.encode("utf-8", "replace")
    if len(data) >= size or b"\0" in data:
        raise UsageError(f"{what} has at most {size - 1} bytes: {text!r}")
    return data
