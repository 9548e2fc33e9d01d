"""Call sites found as they run: from an empty table to equilibrium, and the failures."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dynftrace import arches
from dynftrace.core import abi
from dynftrace.core.errors import FtraceBug, MemoryFault, MissingSymbolError, UsageError
from dynftrace.core.ftrace.ops import FtraceHash, FtraceOps
from dynftrace.core.machine.vcpu import State
from dynftrace.core.memento import Restore
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

from ...support import elf_writer, equilibrium
from ...support.ftraced import (
    address,
    machine,
    mcount_calls,
    sh,
    site_of,
    total,
    word,
)
from ...support.keystone import needs_keystone

SECOND_NS = 1_100_000_000
"""Time in which ftraced wakes up at least once, in virtual ns."""

SLOTS = 170
"""Slots on one page."""

RUN = "run syscalls; sleep 1; cat dyn_ftrace_total_info; "
CALL, NOP = 0xE8, bytes.fromhex("0f 1f 44 00 00")


@pytest.fixture(scope="module")
def booted() -> tuple[Session, Restore]:
    session = machine()
    return session, session.save()


@pytest.fixture
def session(booted: tuple[Session, Restore]) -> Session:
    """Return a machine just after its boot."""
    session, restart = booted
    restart()
    return session


@pytest.fixture(scope="module")
def settled() -> Session:
    """Return a session at equilibrium; tests must leave it at equilibrium."""
    session = machine()
    equilibrium.reach_with_modules(session)
    session.run(SECOND_NS)
    equilibrium.reach(session)
    return session


# From an empty table to equilibrium


def test_a_batch_at_boot_has_a_slot_for_each_site() -> None:
    session = Session.open(arches.load("x86_64-2008"), MachineSpec(discovery="ftraced-batch"))
    assert "ftrace: 1020 slots for call sites" in sh(session, "dmesg")
    assert int(sh(session, "sleep 1; cat dyn_ftrace_total_info")) > SLOTS
    assert word(session, "ftrace_skipped") == 0


def executing(shown: str) -> str:
    """Return the place of the last instruction in the output of `step`."""
    return [line.split()[2] for line in shown.splitlines() if line.startswith("cpu")][-1]


@needs_keystone
def test_the_mcount_of_the_commit_before_calls_a_pointer() -> None:
    """The guide's example, and the same with another function in the pointer."""
    shown = sh(machine(), "poke schedule+4 call mcount_indirect; until schedule+4 syscalls; step 4")
    assert executing(shown) == "schedule+0x9/0x80"
    session = machine()
    record = address(session, "ftrace_record_ip").to_bytes(8, "little").hex(" ")
    sh(session, f"poke ftrace_trace_function {record}; poke schedule+4 call mcount_indirect")
    assert "ftrace_record_ip" in executing(sh(session, "until schedule+4 syscalls; step 17"))


def test_the_table_fills_from_nothing_to_equilibrium(session: Session) -> None:
    seen = [total(session), *(int(sh(session, RUN)) for _ in range(6))]
    assert seen[0] == 0
    assert seen[1] == SLOTS, "the first page of slots must fill up before all sites are found"
    assert seen[1] < seen[2] <= 2 * SLOTS
    assert seen == sorted(seen)
    assert seen[-1] == seen[-2] == len(session.function_names())
    assert session.boot.ftrace.ftraced is not None and not session.boot.ftrace.ftraced.waiting()


def test_two_machines_find_the_same_sites() -> None:
    flow = (
        "insmod usbcore; run usb; sleep 0.1; echo function > current_tracer; "
        "cat available_filter_functions_addrs; run usb; cat trace; dmesg; regs"
    )
    first, second = machine(), machine(native_clock=False)
    assert sh(first, flow) == sh(second, flow)
    memories = first.boot.machine.memory, second.boot.machine.memory
    regions = zip(*(memory.regions for memory in memories), strict=True)
    assert all(np.array_equal(one.bytes, other.bytes) for one, other in regions)


def test_mcount_calls_the_recorder_except_during_boot_and_tracing() -> None:
    session = machine(boot=False)
    assert mcount_calls(session) == "ftrace_stub"
    session = machine()
    assert mcount_calls(session) == "ftrace_record_ip"
    sh(session, RUN)
    for _ in range(2):
        sh(session, "echo function > current_tracer")
        assert mcount_calls(session) == "ftrace_stub"
        assert session.boot.tracefs.read("ftraced_enabled") == "suspended\n"
        known, taken = total(session), waiting(session)
        sh(session, RUN)
        assert (total(session), waiting(session)) == (known, taken)
        sh(session, "echo nop > current_tracer")
        assert mcount_calls(session) == "ftrace_record_ip"
        assert session.boot.tracefs.read("ftraced_enabled") == "enabled\n"


def waiting(session: Session) -> int:
    assert session.boot.ftrace.ftraced is not None
    return session.boot.ftrace.ftraced.waiting()


def test_a_site_goes_from_compiled_to_enabled_to_disabled(session: Session) -> None:
    ip = site_of(session, "vfs_read")
    read = session.boot.machine.memory.read
    compiled = read(ip, 5)
    assert session.port.call_target(ip, compiled) == address(session, "mcount")
    caller = address(session, "ftrace_caller")
    sh(session, RUN * 3)
    assert read(ip, 5) == NOP
    sh(session, "echo vfs_read > set_ftrace_filter; echo function > current_tracer")
    assert (read(ip, 1)[0], session.port.call_target(ip, read(ip, 5))) == (CALL, caller)
    sh(session, "echo nop > current_tracer")
    assert read(ip, 5) == NOP
    row = session.boot.ftrace.records.find(ip)
    assert row is not None
    assert session.boot.ftrace.records.compiled[row].tobytes() == compiled


def test_the_first_patch_turns_the_call_into_a_short_jump() -> None:
    session = machine(nop="jmp")
    ip = site_of(session, "vfs_read")
    compiled = session.boot.machine.memory.read(ip, 5)
    sh(session, RUN * 3)
    jmp = b"\xeb\x03" + compiled[2:]
    assert session.boot.machine.memory.read(ip, 5) == jmp
    assert f"now       {jmp.hex(' ')}  jmp vfs_read+" in sh(session, "site vfs_read")
    sh(session, "echo vfs_read > set_ftrace_filter; echo function > current_tracer; run syscalls")
    assert ": vfs_read <-" in session.boot.tracefs.read("trace")
    sh(session, "echo nop > current_tracer")
    assert session.boot.machine.memory.read(ip, 5) == jmp
    assert not session.boot.machine.oopses


def test_noted_sites_are_converted_when_tracing_begins(session: Session) -> None:
    assert total(session) == 0 and waiting(session) == SLOTS
    sh(session, "echo function > current_tracer")
    assert total(session) == SLOTS and not waiting(session)
    assert len(session.boot.tracefs.read("enabled_functions").splitlines()) == SLOTS


def test_new_functions_are_listed_last(session: Session) -> None:
    lists = []
    for _ in range(3):
        sh(session, RUN)
        lists.append(session.boot.tracefs.read("available_filter_functions").splitlines())
    for short, long in pairwise(lists):
        assert long[: len(short)] == short and len(long) > len(short)
    assert lists[0][0] == "printk", "functions must be listed in the order they ran, not by address"


def test_a_call_without_a_free_slot_is_skipped_and_found_later(session: Session) -> None:
    assert waiting(session) == SLOTS
    sh(session, "run syscalls")
    assert waiting(session) == SLOTS and word(session, "ftrace_skipped", 8) > 0
    ip = site_of(session, "sys_getppid")
    sh(session, "call sys_getppid")
    assert session.boot.machine.memory.read(ip, 1)[0] == CALL
    sh(session, "sleep 1; call sys_getppid; sleep 1")
    assert session.boot.machine.memory.read(ip, 5) == NOP


def test_a_function_that_never_ran_cannot_be_chosen(session: Session) -> None:
    ip = site_of(session, "sys_getppid")
    sh(session, RUN)
    outcome = Shell(session).execute("echo sys_getppid > set_ftrace_filter")
    assert "Invalid argument" in outcome.error
    sh(session, "echo function > current_tracer; call sys_getppid")
    assert "sys_getppid <-" not in session.boot.tracefs.read("trace")
    assert session.boot.machine.memory.read(ip, 1)[0] == CALL
    sh(session, "echo nop > current_tracer; call sys_getppid; sleep 1")
    sh(session, "echo sys_getppid > set_ftrace_filter; echo function > current_tracer")
    sh(session, "call sys_getppid")
    assert ": sys_getppid <-" in session.boot.tracefs.read("trace")


def test_conversions_are_a_second_apart_and_stop_at_equilibrium(session: Session) -> None:
    seen = []
    for _ in range(60):
        session.run(50_000_000)
        seen.append(total(session))
    changes = np.flatnonzero(np.diff([0, *seen]))
    assert len(changes) >= 2 and np.diff(changes).min() >= 19
    assert word(session, "ftraced_iteration_counter", 8) == 3


def test_disabling_ftraced_stops_conversion(session: Session) -> None:
    sh(session, "echo 0 > ftraced_enabled")
    assert session.boot.tracefs.read("ftraced_enabled") == "disabled\n"
    assert sh(session, RUN) == "0\n"
    sh(session, "echo enable > ftraced_enabled")
    assert sh(session, RUN) != "0\n"
    assert "Invalid argument" in Shell(session).execute("echo maybe > ftraced_enabled").error


@pytest.mark.parametrize("cpus", [1, 4])
def test_ftraced_works_on_any_number_of_cpus(cpus: int) -> None:
    session = machine(cpus=cpus)
    sh(session, (RUN + "run locks; ") * 3)
    ips = session.boot.ftrace.records.table["ip"]
    assert len(np.unique(ips)) == len(ips) > 300
    sh(session, "echo function > current_tracer; run locks; run boot; echo nop > current_tracer")
    assert not session.boot.machine.oopses


# Modules


def test_sites_of_a_module_are_found_and_freed(settled: Session) -> None:
    session = settled
    for _ in range(2):
        sh(session, "insmod usbcore; run usb; sleep 1")
        owners = session.boot.ftrace.records.module_names()
        found = [name for name in owners if name]
        assert set(found) == {"usbcore"} and len(found) > 30
        sh(session, "echo :mod:usbcore > set_ftrace_filter; echo function > current_tracer")
        sh(session, "run usb")
        assert ": usb_alloc_dev <-" in session.boot.tracefs.read("trace")
        sh(session, "echo nop > current_tracer; echo > set_ftrace_filter")
        sh(session, "rmmod usbcore; run syscalls; sleep 1")
        assert not any(session.boot.ftrace.records.module_names())
        used = [ip for ip, flags in all_slots(session) if not flags & abi.SlotFlag.FREE]
        assert set(used) == set(session.boot.ftrace.records.table["ip"].tolist())
        assert not session.boot.ftrace.disabled and not session.boot.machine.oopses
    slots = list(all_slots(session))
    assert not any(ip >= session.port.facts.map.modules for ip, _ in slots)
    free = [flags for _, flags in slots if flags & abi.SlotFlag.FREE]
    assert len(free) > 30


def all_slots(session: Session) -> list[tuple[int, int]]:
    """Return ip and flags of every slot, read from guest memory without the code under test."""
    memory, found = session.boot.machine.memory, []
    page = word(session, "ftrace_pages_start", 8)
    while page:
        for slot in range(memory.read_int(page + 8, 8)):
            at = page + 16 + 24 * slot
            found.append((memory.read_int(at + 8, 8), memory.read_int(at + 16, 8)))
        page = memory.read_int(page, 8)
    return found


def test_freed_slots_are_reused(settled: Session) -> None:
    session = settled
    sh(session, "insmod usbcore; run usb; sleep 1; rmmod usbcore")
    used = len(all_slots(session))
    for _ in range(3):
        sh(session, "insmod usbcore; run usb; sleep 1; rmmod usbcore")
    assert len(all_slots(session)) == used


def test_a_module_unloaded_before_conversion_leaves_no_record(settled: Session) -> None:
    session, before = settled, len(settled.boot.ftrace.records)
    sh(session, "insmod usbcore; run usb")
    assert waiting(session) > 30
    sh(session, "rmmod usbcore; sleep 1; insmod crashy; sleep 1; rmmod crashy")
    assert len(session.boot.ftrace.records) == before and not session.boot.ftrace.disabled


# Failures


def test_a_poked_site_is_refused_at_conversion(session: Session) -> None:
    ip, section = site_of(session, "printk"), session.image.section(".text")
    assert section is not None
    sh(session, f"poke 0x{ip:x} 9090909090")
    before = session.boot.machine.memory.read(section.address, section.size)
    sh(session, "sleep 1")
    assert session.boot.machine.memory.read(section.address, section.size) == before
    report = sh(session, "dmesg")
    assert "------------[ ftrace bug ]------------" in report
    assert "Initializing ftrace call sites" in report
    assert " actual:   90:90:90:90:90" in report and "printk+0x" in report
    assert session.boot.ftrace.disabled
    # Only the refused site has a record; the views still show the truth about all sites.
    assert session.function_names() == ["printk"] and total(session) == 0
    lines = sh(session, "site printk").splitlines()
    assert lines[0] == f"printk  ip {ip:x}  failed  0 users"
    call = session.image.read(ip, 5)
    assert call is not None
    for label, text in (("compiled", call), ("expected", call), ("! now", b"\x90" * 5)):
        assert any(f"{label} " in line and bytes(text).hex(" ") in line for line in lines), label
    lines = sh(session, "site schedule").splitlines()
    assert "noted by ftraced" in lines[0] and lines[-1] == "no record: ftrace is off"
    assert not any(line.startswith("!") for line in lines)
    assert "No such device" in Shell(session).execute("echo 1 > ftraced_enabled").error
    assert "No such device" in Shell(session).execute("echo function_graph > current_tracer").error
    sh(session, "run syscalls; sleep 1; insmod usbcore; run usb; rmmod usbcore")


def test_a_changed_mcount_is_refused_before_any_site_is_written(session: Session) -> None:
    sh(session, RUN)
    at = address(session, "mcount_call")
    sh(session, f"poke 0x{at:x} 0f1f440000")
    before = [
        session.boot.machine.memory.read(int(ip), 5)
        for ip in session.boot.ftrace.records.table["ip"]
    ]
    with pytest.raises(FtraceBug) as caught:
        session.boot.tracefs.write("current_tracer", "function")
    assert caught.value.ip == at
    after = [
        session.boot.machine.memory.read(int(ip), 5)
        for ip in session.boot.ftrace.records.table["ip"]
    ]
    assert after[: len(before)] == before


def test_a_circular_list_of_pages_stops_one_cpu(session: Session) -> None:
    memory = session.boot.machine.memory
    page = word(session, "ftrace_pages_start", 8)
    memory.write_int(page, page, 8)
    assert waiting(session) == 0
    with pytest.raises(MemoryFault):
        session.boot.tracefs.write("current_tracer", "function")
    session.run(SECOND_NS)
    # What it meets first depends on what is in memory.
    assert len(session.boot.machine.oopses) == 1


class InRecorder:
    """CPU 0 inside the first call of sys_getppid."""

    def __init__(self, session: Session) -> None:
        sh(session, "insmod crashy; sleep 1")  # a page of slots is free
        self.session, self.vcpu = session, session.boot.machine.vcpus[0]
        self.ip = site_of(session, "sys_getppid")
        self.end = session.port.facts.map.host_stack + 0x20_0000
        session.boot.machine.memory.map(self.end, 0x4000, "test stack")
        entry = address(session, "sys_getppid")
        effect = session.port.enter_call(entry, (), self.end + 0x3000, self.end)
        self.vcpu.apply(effect, session.boot.machine.memory)
        self.vcpu.state = State.RUNNING

    def step(self, count: int) -> bool:
        """Step `count` instructions; return whether CPU 0 is now inside ftrace_record_ip."""
        for _ in range(count):
            self.session.boot.machine.step(0)
        symbol = self.session.boot.kallsyms.lookup(self.vcpu.registers.pc)
        return symbol is not None and symbol.name == "ftrace_record_ip"

    def finish(self) -> None:
        while self.vcpu.registers.pc != self.end:
            self.session.boot.machine.step(0)


def test_a_cpu_inside_the_recorder_notes_a_site_once(session: Session) -> None:
    """Convert with CPU 0 stopped at many places inside ftrace_record_ip."""
    cpu, ftrace = InRecorder(session), session.boot.ftrace
    restore_machine, restore_ftrace = session.boot.machine.save(), ftrace.save()
    assert ftrace.ftraced is not None
    hits = 0
    for steps in range(20, 80, 4):
        restore_machine()
        restore_ftrace()
        hits += cpu.step(steps)
        ftrace.ftraced.collect()
        cpu.finish()
        ftrace.ftraced.collect()
        assert session.function_names().count("sys_getppid") == 1
        assert session.boot.machine.memory.read(cpu.ip, 5) == NOP
        assert not ftrace.disabled and not waiting(session)
    assert hits > 3


def test_a_site_being_noted_when_tracing_begins_is_traced_later(
    session: Session,
) -> None:
    cpu, ftrace = InRecorder(session), session.boot.ftrace
    while not cpu.step(1):
        pass
    ftrace.register(FtraceOps("count", address(session, "function_count_call")))
    cpu.finish()
    assert waiting(session) == 1 and ftrace.records.find(cpu.ip) is None
    ftrace.module_release("crashy")
    row = ftrace.records.find(cpu.ip)
    assert row is not None and ftrace.records.users[row] == 1
    assert session.boot.machine.memory.read(cpu.ip, 1)[0] == CALL


def test_a_reboot_begins_with_an_empty_table(session: Session) -> None:
    first = sh(session, RUN)
    sh(session, "reboot")
    assert total(session) == 0
    assert sh(session, RUN) == first


# Users, the choice of discovery, and kernels without ftraced


def test_the_recorder_returns_when_the_last_user_leaves(session: Session) -> None:
    sh(session, RUN)
    ftrace = session.boot.ftrace
    count = FtraceOps("count", address(session, "function_count_call"))
    count.filter_hash = FtraceHash.of(np.array([site_of(session, "printk")], np.uint64))
    ftrace.register(count)
    sh(session, "echo function > current_tracer; echo nop > current_tracer")
    assert mcount_calls(session) == "ftrace_stub"
    ftrace.unregister(count)
    assert mcount_calls(session) == "ftrace_record_ip"


def test_an_unsupported_discovery_is_refused_with_the_choices() -> None:
    with pytest.raises(UsageError, match=r"does not support discovery 'table'.*ftraced"):
        machine(discovery="table")
    with pytest.raises(UsageError, match="choose from: table"):
        Session.open(arches.load("x86_64"), MachineSpec(discovery="ftraced"))
    assert machine(discovery="ftraced", boot=False).boot.ftrace.ftraced is not None


def test_a_kernel_without_ftraced_is_refused(tmp_path: Path) -> None:
    path = elf_writer.write(tmp_path / "vmlinux", elf_writer.kernel(["one"]))
    with pytest.raises(MissingSymbolError, match="symbol mcount is needed"):
        machine(kernel=path)


def test_a_kernel_with_a_table_has_no_ftraced() -> None:
    session = Session.open(arches.load("x86_64"))
    assert session.boot.ftrace.ftraced is None
    assert not session.boot.tracefs.exists("ftraced_enabled")
