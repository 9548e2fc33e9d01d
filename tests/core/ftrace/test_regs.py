"""Users that need registers: which caller each site calls, and how it is shown."""

from __future__ import annotations

import errno

import pytest

from dynftrace import arches
from dynftrace.core.errors import FtraceBug, TracefsError
from dynftrace.core.ftrace.entry import CALLER, REGS_CALLER, TRAMPOLINE, load_entry
from dynftrace.core.ftrace.ops import FtraceOps
from dynftrace.core.ftrace.records import Flag
from dynftrace.core.session.session import Session

from ...support.booted import Booted, boot
from ...support.keystone import needs_keystone

MS = 1_000_000


@pytest.fixture
def guest() -> Booted:
    return boot()


def regs_user(guest: Booted, *names: str) -> FtraceOps:
    ops = guest.counter("regs")
    ops.save_regs = True
    ops.filter_hash = guest.filter(*names)
    return ops


def plain_user(guest: Booted, *names: str) -> FtraceOps:
    ops = guest.counter("plain")
    ops.filter_hash = guest.filter(*names)
    return ops


def called(guest: Booted, name: str) -> str:
    """Return what a function's site calls; empty for a nop."""
    target = guest.port.call_target(guest.address(name), guest.site(name))
    symbol = None if target is None else guest.kallsyms.lookup(target)
    return "" if symbol is None else symbol.name


def flags(guest: Booted, name: str) -> Flag:
    row = guest.ftrace.records.find(guest.address(name))
    return Flag(int(guest.ftrace.records.table["flags"][row]) & ~0xFFFF)


def slots(guest: Booted) -> set[int | None]:
    """Return the targets of the slots."""
    read = guest.machine.memory.read
    return {guest.port.call_target(slot, read(slot, 5)) for slot in guest.ftrace.entry.slots}


@pytest.mark.parametrize("method", ["stop_machine", "breakpoint", "none"])
def test_a_site_calls_ftrace_regs_caller_while_a_user_needs_registers(
    guest: Booted, method: str
) -> None:
    before = guest.text()
    ftrace = guest.ftrace
    ftrace.patcher.method = method
    plain, regs = plain_user(guest, "schedule", "kfree"), regs_user(guest, "schedule", "vfs_read")
    ftrace.register(plain)
    assert [called(guest, name) for name in ("schedule", "kfree", "vfs_read")] == [
        *(CALLER, CALLER, "")
    ]
    ftrace.register(regs)
    assert [called(guest, name) for name in ("schedule", "kfree", "vfs_read")] == [
        *(REGS_CALLER, TRAMPOLINE, TRAMPOLINE)
    ]
    both = Flag.ENABLED | Flag.TOUCHED | Flag.REGS | Flag.REGS_EN
    own = Flag.TRAMP | Flag.TRAMP_EN
    assert flags(guest, "schedule") == both and flags(guest, "vfs_read") == both | own
    assert flags(guest, "kfree") == Flag.ENABLED | Flag.TOUCHED | own
    guest.machine.run(3 * MS)
    # With `none`, a CPU that runs half a call may crash.
    assert guest.counted() and (method == "none" or not guest.machine.oopses)
    ftrace.unregister(regs)
    assert [called(guest, name) for name in ("schedule", "kfree", "vfs_read")] == [
        *(CALLER, CALLER, "")
    ]
    assert flags(guest, "schedule") == Flag.ENABLED | Flag.TOUCHED
    assert flags(guest, "vfs_read") == Flag.TOUCHED
    ftrace.unregister(plain)
    assert guest.text() == before


def test_all_slots_call_the_same_function(guest: Booted) -> None:
    ftrace = guest.ftrace
    assert len(ftrace.entry.slots) == 2
    assert slots(guest) == {guest.address("ftrace_stub")}
    regs = regs_user(guest, "schedule")
    ftrace.register(regs)
    assert slots(guest) == {guest.address("function_count_call")}
    ftrace.register(plain_user(guest, "kfree"))
    assert slots(guest) == {guest.address("ftrace_ops_list_func")}


def test_changing_a_filter_changes_the_callers(guest: Booted) -> None:
    ftrace = guest.ftrace
    ftrace.register(plain_user(guest, "schedule", "kfree"))
    regs = regs_user(guest, "schedule")
    ftrace.register(regs)
    ftrace.set_hashes(regs, filter_hash=guest.filter("kfree"))
    assert (called(guest, "schedule"), called(guest, "kfree")) == (TRAMPOLINE, REGS_CALLER)
    ftrace.set_hashes(regs, filter_hash=guest.filter("kfree", "schedule"))
    assert (called(guest, "schedule"), called(guest, "kfree")) == (REGS_CALLER, REGS_CALLER)


def test_a_damaged_slot_of_either_caller_stops_any_write(
    guest: Booted,
) -> None:
    place = guest.address("ftrace_regs_call")
    guest.machine.memory.write(place, b"\x90")
    before = guest.text()
    with pytest.raises(FtraceBug) as caught:
        guest.ftrace.register(plain_user(guest, "schedule"))
    assert caught.value.ip == place
    assert guest.text() == before
    slot = guest.address("ftrace_call")
    found = guest.port.call_target(slot, guest.machine.memory.read(slot, 5))
    assert found == guest.address("ftrace_stub")


def test_a_site_that_calls_the_wrong_caller_is_a_bug(
    guest: Booted,
) -> None:
    ftrace, ip = guest.ftrace, guest.address("schedule")
    ftrace.register(plain_user(guest, "schedule"))
    guest.machine.memory.write(ip + 4, b"\xcc")
    before = guest.text()
    with pytest.raises(FtraceBug) as caught:
        ftrace.register(regs_user(guest, "schedule", "kfree"))
    assert guest.text() == before
    assert caught.value.report[-4:] == (
        "Updating ftrace call site to call a different ftrace function",
        f"ftrace record flags: {Flag.REGS | Flag.ENABLED | Flag.TOUCHED | 2:x}",
        " (2) R",
        f" expected tramp: {guest.address(CALLER):x}",
    )
    with pytest.raises(TracefsError):
        ftrace.register(plain_user(guest, "kfree"))


def test_a_port_without_saved_registers_refuses_the_user() -> None:
    guest = boot("ppc32")
    before = guest.text()
    ops = guest.counter()
    ops.save_regs = True
    refusal = r"^Invalid argument: ppc32 has no ftrace_regs_caller"
    with pytest.raises(TracefsError, match=refusal) as refused:
        guest.ftrace.register(ops)
    assert refused.value.errno == errno.EINVAL
    assert guest.text() == before
    assert not guest.ftrace.ops and not guest.ftrace.disabled
    guest.ftrace.register(guest.counter())


@needs_keystone
def test_a_shared_slot_is_listed_once(guest: Booted) -> None:
    """ftrace_regs_caller may jump into ftrace_caller."""
    port = arches.load("x86_64")
    source = port.entry_source().replace(".globl ftrace_regs_call\n", "\n")
    image, kallsyms = guest.kernel, guest.kallsyms
    memory = type(guest.machine.memory)("little", 8)
    entry = load_entry(port, image, memory, kallsyms, source)
    assert tuple(entry.callers) == (CALLER, REGS_CALLER)
    assert entry.slots == (entry["ftrace_call"],)
    assert entry.slot_of(REGS_CALLER) == entry.slot_of(CALLER) == entry["ftrace_call"]


# Files and views


def enable_regs(session: Session) -> FtraceOps:
    """Have registers saved at schedule."""
    kallsyms, ftrace = session.boot.kallsyms, session.boot.ftrace
    ops = FtraceOps("counter", kallsyms.address("function_count_call") or 0, save_regs=True)
    names = session.boot.tracefs.functions
    ops.filter_hash = ops.filter_hash.add(names.ips(ftrace.records.names.index("schedule")))
    ftrace.register(ops)
    return ops


def test_the_files_and_views_name_the_caller(session: Session, sh) -> None:
    enable_regs(session)
    end = session.boot.kallsyms.format(session.boot.ftrace.slot)
    assert sh("cat enabled_functions") == f"schedule (1) R{'':9} ->{end}\n"
    site = sh("site schedule")
    assert site.count("call ftrace_regs_caller") == 2
    assert "call ftrace_caller" not in site
    row = session.boot.ftrace.records.names.index("schedule")
    hops = session.call_path(session.boot.ftrace.records.ip_of(row))
    assert [hop.name for hop in hops] == [
        *("schedule", "ftrace_regs_caller", "ftrace_regs_call", "function_count_call")
    ]
    assert all(hop.verified for hop in hops)
    assert hops[1].target == hops[2].address
    sh("echo function > current_tracer")
    assert f"schedule (2) R{'':9} ->ftrace_ops_list_func" in sh("cat enabled_functions")
    assert f"kfree (1){'':11}\ttramp: ftrace_trampoline+0x0/" in sh("cat enabled_functions")
    assert "call ftrace_trampoline" in sh("site kfree")


def test_tramp_shows_both_callers(sh) -> None:
    text = sh("tramp")
    first, second = text.split("\n\n")
    assert first.startswith("   ftrace_caller ") and "ftrace_regs_call" not in first
    assert second.startswith("   ftrace_regs_caller ") and "-> ftrace_regs_call " in second
