"""Requests: the host writes `host_request`, and the guest answers."""

from __future__ import annotations

import numpy as np
import pytest

from dynftrace.core import abi
from dynftrace.core.abi import Hypercall, RequestKind
from dynftrace.core.errors import GuestError, GuestHang, GuestOops, UsageError

from .guest import DATA, Guest, hypercall, irqs

LAYOUT = abi.host_request("little")


def server(answer: str = "lea rax, [rcx + rdx * 2]") -> Guest:
    """Return a guest whose interrupt handler answers argument 0 + 2 * argument 1."""
    guest = Guest()
    at = {name: DATA + offset for name, (_, offset) in LAYOUT.fields.items()}
    done = hypercall(Hypercall.REQUEST_DONE, "rbx", "r9", label="done")
    guest.put(
        "common_interrupt",
        0x1000,
        f"mov r8, rdi; cmp rsi, 2; jne back; mov rax, {DATA}; mov ebx, [rax];"
        f"mov rcx, [rax + {at['argument'] - DATA}]; mov rdx, [rax + {at['argument'] - DATA + 8}];"
        f"{answer}; mov r9, rax; {done}; back: " + hypercall(Hypercall.IRET, "r8"),
    )
    guest.names.by_name["host_request"] = DATA
    guest.boot(f"{irqs(True)}; again: {hypercall(Hypercall.IDLE)}; jmp again")
    guest.machine.run(3_000_000)
    return guest


def test_a_call_goes_to_the_guest_and_its_result_comes_back() -> None:
    guest = server()
    assert guest.machine.requests.call(0x1234, [40, 1], comm="try") == 42
    request = np.frombuffer(guest.machine.memory.read(DATA, LAYOUT.itemsize), LAYOUT)[0]
    assert request["sequence"] == 1
    assert request["kind"] == RequestKind.CALL
    assert request["function"] == 0x1234
    assert request["comm"] == b"try"
    assert guest.machine.requests.call(0x1234, [-2, 0]) == 2**64 - 2
    assert guest.machine.memory.read_int(DATA, 4) == 2


def test_a_workload_is_requested_by_name_and_count() -> None:
    guest = server(answer="mov rax, 7")
    assert guest.machine.requests.run_workload("syscalls", 300) == 7
    request = np.frombuffer(guest.machine.memory.read(DATA, LAYOUT.itemsize), LAYOUT)[0]
    assert (request["kind"], request["count"]) == (RequestKind.WORKLOAD, 300)
    assert (request["name"], request["comm"]) == (b"syscalls", b"syscalls")


def test_an_oversized_request_is_refused_before_writing() -> None:
    guest = server()
    before = guest.machine.memory.read(DATA, LAYOUT.itemsize)
    with pytest.raises(UsageError, match="at most 6 arguments"):
        guest.machine.requests.call(1, range(7))
    with pytest.raises(UsageError, match="workload's name has at most 31 bytes"):
        guest.machine.requests.run_workload("w" * 32)
    with pytest.raises(UsageError, match="task's name"):
        guest.machine.requests.call(1, comm="c" * 16)
    with pytest.raises(UsageError, match="cannot run -1 times"):
        guest.machine.requests.run_workload("boot", -1)
    assert guest.machine.memory.read(DATA, LAYOUT.itemsize) == before


def test_a_missing_answer_is_a_timeout_and_a_late_one_is_harmless() -> None:
    guest = server(answer="jmp back; nop")
    with pytest.raises(GuestHang, match="workload forkbomb did not finish"):
        guest.machine.requests.run_workload("forkbomb", limit_ns=5_000_000)
    guest.machine.requests.finish(999, 1)
    with pytest.raises(GuestHang):
        guest.machine.requests.call(0, limit_ns=5_000_000)


def test_a_cpu_that_dies_during_a_request_is_named() -> None:
    guest = server(answer="ud2")
    with pytest.raises(GuestOops, match="the call did not finish: CPU 0 has stopped"):
        guest.machine.requests.call(0)
    with pytest.raises(GuestError, match="CPU 0 has stopped; reboot"):
        guest.machine.requests.call(0)


def test_a_kernel_without_host_request_has_no_workloads() -> None:
    guest = Guest()
    guest.boot("l: jmp l")
    with pytest.raises(GuestError, match="does not define host_request"):
        guest.machine.requests.run_workload("boot")
