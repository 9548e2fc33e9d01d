"""Return addresses on a stack: recognition, order, and the graph tracer's replacements."""

from __future__ import annotations

import numpy as np

from dynftrace.core import abi
from dynftrace.core.machine.backtrace import RETURN_TO_HANDLER, backtrace

from .guest import DATA, TEXT, Guest

TOP = DATA + 0x1000


def guest_with(*words: int) -> Guest:
    """Return a guest whose CPU 0 is in `start`, with `words` on its stack."""
    guest = Guest()
    guest.put("f", 0x3000, f"nop; call {TEXT}; nop")
    guest.put(RETURN_TO_HANDLER, 0x4000, "ret")
    guest.boot(f"mov rsp, {TOP - 8 * len(words)}; l: jmp l")
    for row, word in enumerate(words):
        guest.machine.memory.write_int(TOP - 8 * (len(words) - row), word)
    guest.machine.run(1000)
    return guest


def found(guest: Guest, most: int | None = None) -> list[tuple[int, int]]:
    """Return the addresses and their distances from the end of the stack."""
    machine = guest.machine
    calls = backtrace(machine.vcpus[0], machine.memory, machine.port, guest.names, TOP, most)
    return [(each.address, TOP - (each.place or 0)) for each in calls]


BACK = TEXT + 0x3006


def test_a_return_address_follows_a_call() -> None:
    guest = guest_with(0, BACK, BACK - 1, TEXT + 0x3001, 1 << 63, BACK, TEXT + 0x30_0000)
    assert found(guest) == [(BACK, 48), (BACK, 16)]
    assert found(guest, 1) == [(BACK, 48)]


def test_an_address_of_data_is_not_a_return_address() -> None:
    place = TEXT - 0x10000
    guest = guest_with(0, place + 0x106)
    memory = guest.machine.memory
    guest.names.by_name["words"] = place
    for executable in (True, False):
        memory.map(place, 0x1000, "words", executable=executable)
        memory.write(place + 0x100, memory.read(TEXT + 0x3000, 8))
        assert found(guest) == [(place + 0x106, 8)][: int(executable)]
        memory.unmap("words")


def test_return_to_handler_is_replaced_from_the_ret_stack() -> None:
    handler = TEXT + 0x4000
    guest = guest_with(handler, BACK, handler, handler, 0)
    layout = abi.ftrace_ret_stack("little", 8)
    stack = np.zeros((), layout)
    entries = ((0x1111, TOP - 8), (0x2222, TOP - 32))
    for row, (ret, fp) in enumerate(entries):
        stack["stack"][row]["ret"], stack["stack"][row]["fp"] = ret, fp
    stack["index"] = len(entries)
    guest.machine.memory.write(DATA + 0x1800, stack.tobytes())
    guest.machine.vcpus[0].local["ret_stack"] = DATA + 0x1800
    # The third is left over from an earlier call: no entry matches its position.
    assert found(guest) == [(0x2222, 40), (BACK, 32), (0x1111, 16)]
