"""Text is verified as a whole, written by each method, and seen by the flushed CPUs."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from dynftrace import arches
from dynftrace.core.arch import Edit, ModuleStub, Sites
from dynftrace.core.errors import FtraceBug, GuestHang, UsageError
from dynftrace.core.ftrace.patch import Patcher
from dynftrace.core.ftrace.phases import Act, phases_of
from dynftrace.core.machine.machine import Machine
from dynftrace.core.machine.services import NoServices

PORT = arches.load("x86_64")
TEXT = 0xFFFF_FFFF_8100_0000
DATA = TEXT + 0x2000
STACK = DATA + 0x1000

# loop: call f; jmp loop                  f: <site>; ret             g: inc dword [g's counter]; ret
F, G = TEXT + 0x100, TEXT + 0x200
COUNTER = DATA + 0x10


def site_call(ip: int, target: int) -> bytes:
    return b"\xe8" + (target - ip - 5).to_bytes(4, "little", signed=True)


class Patching(NoServices):
    """Forwards breakpoints to the patcher once it exists."""

    patcher: Patcher

    def breakpoint(self, cpu: int, ip: int) -> bool:
        return self.patcher.emulate(cpu, ip)


@pytest.fixture
def services() -> Patching:
    return Patching()


@pytest.fixture
def machine(services: Patching) -> Machine:
    """Return a machine whose two vCPUs call F in a loop; F's site is a nop."""
    machine = Machine(PORT, 2, services=services)
    machine.memory.map(TEXT, 0x2000, "text")
    machine.memory.map(DATA, 0x3000, "data")
    for base in (TEXT, TEXT + 0x40):
        machine.memory.write(base, site_call(base, F) + b"\xeb\xf9")
    machine.memory.write(F, bytes.fromhex("0f1f440000 c3"))
    step = COUNTER - (G + 7)
    machine.memory.write(G, b"\x48\xff\x05" + step.to_bytes(4, "little") + b"\xc3")
    machine.start(TEXT, STACK)
    return machine


@pytest.fixture
def patcher(machine: Machine, services: Patching) -> Patcher:
    services.patcher = Patcher(machine, PORT)
    return services.patcher


def sites(*ips: int) -> Sites:
    return Sites(np.array(ips, np.uint64))


def counted(machine: Machine) -> int:
    return machine.memory.read_int(COUNTER)


@pytest.mark.parametrize("method", ["stop_machine", "breakpoint", "none"])
def test_each_method_ends_with_the_new_text_running(
    machine: Machine, patcher: Patcher, method: str
) -> None:
    machine.run(100_000)
    assert counted(machine) == 0
    patcher.apply(PORT.make_call(sites(F), G), "stop_machine" if method == "none" else method)
    assert machine.memory.read(F, 5) == site_call(F, G)
    machine.run(100_000)
    seen = counted(machine)
    assert seen > 1_000
    patcher.apply(PORT.make_nop(sites(F), G), method if method != "none" else "stop_machine")
    assert machine.memory.read(F, 5) == bytes.fromhex("0f1f440000")
    now = counted(machine)
    machine.run(100_000)
    assert counted(machine) <= now + 1, "at most one call may have been in progress"
    assert not machine.oopses


def test_a_cpu_at_a_breakpoint_does_what_the_new_text_does(
    machine: Machine, patcher: Patcher
) -> None:
    machine.run(100_000)
    seen = []
    sync = machine.sync

    def watched() -> None:
        seen.append((machine.memory.read(F, 5), counted(machine)))
        sync()

    machine.sync = watched  # type: ignore[method-assign]
    patcher.apply(PORT.make_call(sites(F), G), "breakpoint")
    call = site_call(F, G)
    assert [text for text, _ in seen] == [
        b"\xcc" + bytes.fromhex("1f440000"),
        b"\xcc" + call[1:],
        call,
    ]
    counts = [count for _, count in seen] + [counted(machine)]
    assert counts == sorted(counts)
    assert counts[1] > counts[0] and counts[2] > counts[1], "emulated calls must reach the function"
    assert not patcher.emulate(0, F), "no breakpoint may remain"
    assert not machine.oopses


@pytest.mark.parametrize("method", ["breakpoint", "none"])
def test_if_the_guest_cannot_continue_the_text_is_restored(
    machine: Machine, patcher: Patcher, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def fails() -> None:
        raise GuestHang("the patch", 1)

    monkeypatch.setattr(machine, "sync", fails)
    machine.memory.write(TEXT + 0x800, bytes.fromhex("0f1f440000"))
    before = machine.memory.read(TEXT, 0x2000)
    with pytest.raises(GuestHang):
        patcher.apply(PORT.make_call(sites(F, TEXT + 0x800), G), method)
    assert machine.memory.read(TEXT, 0x2000) == before


def test_without_a_method_a_cpu_can_run_half_an_instruction(
    machine: Machine, patcher: Patcher
) -> None:
    machine.run(100_000)
    # The first two bytes of the call over the nop: e8 xx 44 00 00 calls far away.
    patcher.apply(PORT.make_call(sites(F), G), "none")
    assert [oops.cpu for oops in machine.oopses] == [0]


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_if_one_place_differs_nothing_is_written(
    machine: Machine, patcher: Patcher, bad: int
) -> None:
    ips = [TEXT + 0x800 + 0x10 * row for row in range(3)]
    for ip in ips:
        machine.memory.write(ip, bytes.fromhex("0f1f440000"))
    machine.memory.write(ips[bad] + 4, b"\x90")
    before = machine.memory.read(TEXT, 0x2000)
    with pytest.raises(FtraceBug, match="ftrace failed to modify") as caught:
        patcher.apply(PORT.make_call(sites(*ips), G))
    assert caught.value.ip == ips[bad]
    assert caught.value.errno == errno.EINVAL
    assert caught.value.found == bytes.fromhex("0f1f440090")
    assert caught.value.expected == bytes.fromhex("0f1f440000")
    assert machine.memory.read(TEXT, 0x2000) == before


@pytest.mark.parametrize("method", ["stop_machine", "breakpoint", "none"])
def test_an_unmapped_site_is_efault(machine: Machine, patcher: Patcher, method: str) -> None:
    with pytest.raises(FtraceBug, match="faulted on") as caught:
        patcher.apply(PORT.make_call(sites(F, TEXT - 0x10_0000), G), method)
    assert caught.value.errno == errno.EFAULT
    assert machine.memory.read(F, 5) == bytes.fromhex("0f1f440000")


def test_a_target_out_of_reach_is_refused(machine: Machine, patcher: Patcher) -> None:
    with pytest.raises(FtraceBug):
        patcher.apply(PORT.make_call(sites(F), 0x1000_0000_0000))
    assert machine.memory.read(F, 5) == bytes.fromhex("0f1f440000")


def test_a_damaged_stub_is_reported_with_its_address(machine: Machine, patcher: Patcher) -> None:
    edit = PORT.make_call(sites(F), G)
    via = (np.array([G], np.uint64),)
    stub = ModuleStub(G, b"\x48\xff\x06", 0x1000, "far")
    with pytest.raises(FtraceBug, match="stub of far") as caught:
        patcher.apply(
            Edit(edit.address, edit.expected, edit.replacement, edit.reachable, via), stubs=[stub]
        )
    assert (caught.value.ip, caught.value.address) == (F, G + 2)
    assert (caught.value.expected, caught.value.found) == (b"\x06", b"\x05")
    assert machine.memory.read(F, 5) == bytes.fromhex("0f1f440000")


def test_a_cpu_that_is_not_flushed_runs_the_old_text(machine: Machine, patcher: Patcher) -> None:
    machine.run(100_000)
    patcher.flush_cpus = (1,)
    patcher.apply(PORT.make_call(sites(F), G))
    machine.run(100_000)
    assert machine.memory.read(F, 5) == site_call(F, G)
    assert counted(machine) == 0
    machine.flush(F, F + 5)
    machine.run(100_000)
    assert counted(machine) > 1_000


def test_an_unknown_method_is_refused(patcher: Patcher) -> None:
    with pytest.raises(UsageError, match=r"choose from: stop_machine, breakpoint, none, nmi_enter"):
        patcher.method = "hope"
    patcher.method = "breakpoint"
    assert patcher.method == "breakpoint"


def test_an_empty_edit_does_not_even_let_the_guest_run(machine: Machine, patcher: Patcher) -> None:
    machine.run(100_000)
    before = machine.now
    patcher.apply(PORT.make_call(sites(), G), "breakpoint")
    assert machine.now == before


@pytest.mark.parametrize("method", ["stop_machine", "breakpoint", "none", "nmi_enter"])
@pytest.mark.parametrize("nmis", [(), (0, 1)], ids=["no NMI", "NMIs"])
def test_the_writes_of_all_phases_are_the_edit(method: str, nmis: tuple[int, ...]) -> None:
    """Replayed one after the other, they make the new text of the old, and each knows the last."""
    edit = PORT.make_call(sites(F, F + 0x20), G)
    places = [edit.expected[row].tobytes() for row in range(2)]
    for phase in phases_of(edit, method, PORT.facts, nmis):
        for write in phase.writes:
            for number, ip in enumerate((F, F + 0x20)):
                assert phase.covers(ip, 5) or method != "breakpoint"
                row = np.flatnonzero(write.address - np.uint64(ip) < 5)
                if len(row):
                    at = int(write.address[row[0]]) - ip
                    old, new = (each[row[0]].tobytes() for each in (write.old, write.new))
                    there = places[number][at : at + len(old)]
                    assert nmis or there == old
                    text = places[number]
                    places[number] = text[:at] + new + text[at + len(new) :]
        assert phase.safe == (phase.act not in (Act.FIRST_HALF, Act.SLICE, Act.PART))
    assert places == [edit.replacement[row].tobytes() for row in range(2)]
    assert sum(len(each.nmis) for each in phases_of(edit, method, PORT.facts, nmis)) in (
        (0,) if method == "none" else (len(nmis),)
    )
