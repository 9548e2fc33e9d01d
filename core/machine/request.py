"""Work the console gives the guest: a call of a function, or a workload by name.

The teaching kernel has a task for it: the machine fills the kernel's symbol
`host_request`, raises `VECTOR_REQUEST` on CPU 0 and runs until the guest
answers with `HC_REQUEST_DONE`. A function called this way runs in a task of its
own and may sleep. A kernel without that symbol gets its functions called on a
borrowed CPU (borrow.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import abi
from ..errors import UsageError
from .memory import Memory

ARGUMENTS = 6
"""`host_request.argument` holds this many."""


@dataclass(frozen=True, slots=True)
class Started:
    """A workload that nobody waits for."""

    sequence: int
    name: str
    oopses: int
    """How many there had been when it began."""


class Requests:
    """Numbers the requests and keeps the answers until they are asked for."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._sequence = 0
        self._results: dict[int, int] = {}
        self.started: Started | None = None
        """What was begun without waiting for its end (reach.py), until it ends."""

    def fill(
        self,
        address: int,
        kind: abi.RequestKind,
        *,
        function: int = 0,
        arguments: Sequence[int] = (),
        count: int = 1,
        comm: str = "",
        name: str = "",
    ) -> int:
        """Write the next request to `host_request` at `address`; its sequence number.

        Raises `UsageError` for what does not fit, `MemoryFault` for a bad address.
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
        """Note the guest's answer; one to no open request is dropped."""
        if self.started is not None and sequence == self.started.sequence:
            self.started = None
        elif sequence == self._sequence:
            self._results = {sequence: result}

    def finished(self, sequence: int) -> bool:
        """Whether `sequence` has been answered."""
        return sequence in self._results

    def result(self, sequence: int) -> int:
        """The answer, which is then forgotten."""
        return self._results.pop(sequence)

    def save(self) -> tuple[int, dict[int, int], Started | None]:
        """All of it, for `restore`."""
        return self._sequence, dict(self._results), self.started

    def restore(self, saved: tuple[int, dict[int, int], Started | None]) -> None:
        """Put back what `save` gave."""
        self._sequence, results, self.started = saved
        self._results = dict(results)


def _text(text: str, size: int, what: str) -> bytes:
    data = text.encode("utf-8", "replace")
    if len(data) >= size or b"\0" in data:
        raise UsageError(f"{what} has at most {size - 1} bytes: {text!r}")
    return data
