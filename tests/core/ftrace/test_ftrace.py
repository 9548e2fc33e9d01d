"""Sites follow the registered ops on the running teaching kernel; a bug disables ftrace."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest
from capstone import Cs

from dynftrace.core.abi import FTRACE_OPS_MAX
from dynftrace.core.errors import (
    FtraceBug,
    FtraceBugType,
    MissingSymbolError,
    NoCallSitesError,
    TracefsError,
)
from dynftrace.core.ftrace.ops import FtraceHash, FtraceOps
from dynftrace.core.ftrace.records import Flag

from ...support import elf_writer
from ...support.booted import Booted, boot, load

NOP = bytes.fromhex("0f1f440000")
MS = 1_000_000


@pytest.fixture
def guest() -> Booted:
    return boot()


def target(guest: Booted, name: str) -> int:
    """Return the target of the call at a function's site, by Capstone; 0 if it is not a call."""
    engine = guest.port.facts.engine
    decoder = Cs(engine.cs_arch, engine.cs_mode)
    found = next(decoder.disasm(guest.site(name), guest.address(name)))
    return int(found.op_str, 16) if found.mnemonic == "call" else 0


def slot(guest: Booted) -> str:
    return guest.kallsyms.format(guest.ftrace.slot).split("+")[0]


def test_at_boot_every_call_of_fentry_becomes_a_nop(guest: Booted) -> None:
    records = guest.ftrace.records
    now, _ = guest.machine.memory.gather(records.table["ip"], 5)
    assert (now == np.frombuffer(NOP, np.uint8)).all()
    assert (records.compiled[:, 0] == 0xE8).all()
    assert slot(guest) == "ftrace_stub"


def test_a_filter_enables_only_its_own_sites(guest: Booted) -> None:
    before = guest.text()
    ops = guest.counter()
    ops.filter_hash = guest.filter("schedule", "vfs_read")
    guest.ftrace.register(ops)
    caller = guest.address("ftrace_caller")
    assert target(guest, "schedule") == target(guest, "vfs_read") == caller
    changed = [n for n, (a, b) in enumerate(zip(before, guest.text(), strict=True)) if a != b]
    base = guest.kernel.section(".text").address
    sites = {guest.address(name) - base for name in ("schedule", "vfs_read")}
    assert {n for n in changed if not any(s <= n < s + 5 for s in sites)} == set()
    assert slot(guest) == "function_count_call"
    guest.machine.run(5 * MS)
    assert guest.counted() > 0
    guest.ftrace.unregister(ops)
    assert guest.text() == before
    assert slot(guest) == "ftrace_stub"
    assert guest.ftrace.records.users.tolist() == [0] * len(guest.ftrace.records)
    count = guest.counted()
    guest.machine.run(5 * MS)
    assert guest.counted() == count


def test_an_empty_filter_means_all_functions_except_notrace(guest: Booted) -> None:
    ops = guest.counter()
    guest.ftrace.register(ops)
    assert guest.ftrace.records.flagged(Flag.ENABLED).all()
    guest.ftrace.set_hashes(ops, notrace_hash=guest.filter("schedule"))
    assert guest.site("schedule") == NOP
    assert int(guest.ftrace.records.flagged(Flag.ENABLED).sum()) == len(guest.ftrace.records) - 1


def test_with_two_users_the_list_function_calls_each(guest: Booted) -> None:
    ftrace = guest.ftrace
    one, two = guest.counter("one"), guest.counter("two")
    one.filter_hash = guest.filter("schedule")
    two.filter_hash = guest.filter("schedule", "vfs_read")
    ftrace.register(one)
    ftrace.register(two)
    assert slot(guest) == "ftrace_ops_list_func"
    row = ftrace.records.find(guest.address("schedule"))
    assert ftrace.records.users[row] == 2
    assert ftrace.state(row).users == (one, two)
    result = guest.machine.requests.call(guest.address("schedule"), ())
    assert result is not None
    both = guest.counted()
    assert both >= 2
    ftrace.unregister(one)
    assert slot(guest) == "function_count_call"
    assert ftrace.records.users[row] == 1


def test_a_site_with_two_users_is_counted_by_each(guest: Booted) -> None:
    """Two users count the same call exactly twice as often as one."""
    function = guest.address("simple_strtol")
    counts = []
    for users in (1, 2):
        ops = [guest.counter(str(number)) for number in range(users)]
        for each in ops:
            each.filter_hash = guest.filter("simple_strtol")
            guest.ftrace.register(each)
        before = guest.counted()
        text = guest.kernel.section(".rodata").address
        guest.machine.requests.call(function, (text, 0))
        counts.append(guest.counted() - before)
        for each in ops:
            guest.ftrace.unregister(each)
    assert counts == [1, 2]


@pytest.mark.parametrize("method", ["stop_machine", "breakpoint"])
def test_changing_filters_while_the_guest_runs_breaks_nothing(guest: Booted, method: str) -> None:
    before = guest.text()
    guest.ftrace.patcher.method = method
    one, two = guest.counter("one"), guest.counter("two")
    for _ in range(3):
        guest.ftrace.register(one)
        guest.machine.run(1 * MS)
        guest.ftrace.register(two)
        guest.machine.run(1 * MS)
        guest.ftrace.set_hashes(one, guest.filter("schedule"))
        guest.ftrace.unregister(two)
        guest.machine.run(1 * MS)
        guest.ftrace.set_hashes(one, FtraceHash())
        guest.ftrace.unregister(one)
        guest.machine.run(1 * MS)
    assert guest.text() == before
    assert not guest.machine.oopses
    assert guest.counted() > 100


def test_a_poked_site_is_a_bug_that_disables_ftrace(guest: Booted) -> None:
    ftrace, ip = guest.ftrace, guest.address("schedule")
    guest.machine.memory.write(ip + 3, b"\x90")
    before = guest.text()
    lines = guest.machine.dmesg.total
    with pytest.raises(FtraceBug) as caught:
        ftrace.register(guest.counter())
    assert guest.text() == before, "a refused patch must write nothing"
    assert slot(guest) == "ftrace_stub"
    assert ftrace.disabled and not ftrace.ops
    row = ftrace.records.find(ip)
    assert ftrace.records.table["failed"][row]
    bug = caught.value
    assert (bug.ip, bug.errno) == (ip, errno.EINVAL)
    logged = [line.split("] ", 1)[1] for line in guest.machine.dmesg.since(lines)]
    size = guest.kallsyms.lookup(ip).size
    assert logged == list(bug.report)
    assert logged == [
        "------------[ ftrace bug ]------------",
        "ftrace failed to modify ",
        f"[<{ip:016x}>] schedule+0x0/{size:#x}",
        " actual:   0f:1f:44:90:00",
        " expected: 0f:1f:44:00:00",
        "Setting ftrace call site to call ftrace function",
        "ftrace record flags: 1",
        " (1)  ",
        f" expected tramp: {guest.address('ftrace_caller'):x}",
    ]
    for attempt in (
        lambda: ftrace.register(guest.counter()),
        lambda: ftrace.set_hashes(guest.counter(), guest.filter("schedule")),
        lambda: ftrace.unregister(guest.counter()),
    ):
        with pytest.raises(TracefsError) as refused:
            attempt()
        assert refused.value.errno == errno.ENODEV


def test_a_poked_slot_is_a_bug_too(guest: Booted) -> None:
    place = guest.address("ftrace_call")
    guest.machine.memory.write(place, NOP)
    before = guest.text()
    with pytest.raises(FtraceBug) as caught:
        guest.ftrace.register(guest.counter())
    assert caught.value.ip == place
    assert guest.text() == before


def test_a_bug_in_one_site_keeps_the_filter_the_counts_and_the_text(guest: Booted) -> None:
    ops = guest.counter()
    ops.filter_hash = guest.filter("vfs_read")
    guest.ftrace.register(ops)
    guest.machine.memory.write(guest.address("schedule"), b"\xcc")
    before, users = guest.text(), guest.ftrace.records.users.tolist()
    with pytest.raises(FtraceBug) as caught:
        guest.ftrace.set_hashes(ops, guest.filter("schedule", "kfree"))
    assert caught.value.type is FtraceBugType.CALL
    assert guest.text() == before
    assert ops.filter_hash == guest.filter("vfs_read")
    assert guest.ftrace.ops == [ops] and guest.ftrace.records.users.tolist() == users


def test_a_site_that_changes_during_patching_is_a_bug(
    guest: Booted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guest runs between the steps of the breakpoint method and may write to the site."""
    guest.ftrace.patcher.method = "breakpoint"
    ip, memory, entry = guest.address("schedule"), guest.machine.memory, guest.ftrace.entry
    one = guest.counter("one")
    one.filter_hash = guest.filter("vfs_read")
    guest.ftrace.register(one)
    region = memory.region("tracer")
    before, slot_before = region.bytes.copy(), guest.ftrace.slot
    monkeypatch.setattr(guest.machine, "flush", lambda *args, **kept: memory.write(ip, b"\x90"))
    with pytest.raises(FtraceBug, match="schedule") as caught:
        guest.ftrace.register(guest.counter("two"))
    assert caught.value.found[:1] == b"\x90"
    assert guest.ftrace.disabled and guest.ftrace.ops == [one]
    assert guest.ftrace.records.flagged(Flag.ENABLED).sum() == 1
    assert target(guest, "vfs_read") == guest.address("ftrace_caller")
    assert guest.ftrace.slot == slot_before
    at = entry["ftrace_ops_list"] - region.address
    assert bytes(region.bytes[:at]) == bytes(before[:at]), "the slots must be put back"


def test_registering_twice_is_ebusy(guest: Booted) -> None:
    ops = guest.counter()
    guest.ftrace.register(ops)
    with pytest.raises(TracefsError) as caught:
        guest.ftrace.register(ops)
    assert caught.value.errno == errno.EBUSY
    with pytest.raises(TracefsError):
        guest.ftrace.unregister(guest.counter())


def test_registering_more_ops_than_fit_is_ebusy(guest: Booted) -> None:
    for number in range(FTRACE_OPS_MAX):
        guest.ftrace.register(guest.counter(str(number)))
    with pytest.raises(TracefsError) as caught:
        guest.ftrace.register(guest.counter("one too many"))
    assert caught.value.errno == errno.EBUSY
    assert len(guest.ftrace.ops) == FTRACE_OPS_MAX


# Other kernels


def test_a_users_kernel_needs_only_sites_and_fentry(tmp_path: Path) -> None:
    path = elf_writer.write(tmp_path / "k", elf_writer.kernel(["mine", "yours"]))
    guest = load(path)
    assert guest.ftrace.records.names == ["mine", "yours"]
    assert guest.site("mine") == NOP
    assert guest.machine.requests.call(guest.address("mine"), (41,)) == 42
    ops = guest.counter()
    guest.ftrace.register(ops)
    assert guest.machine.requests.call(guest.address("yours"), (1,)) == 2
    assert guest.counted() == 1


def test_a_kernel_without_sites_is_refused(tmp_path: Path) -> None:
    content = elf_writer.kernel(["mine"]).replace(b"_mcount_loc", b"_nothing_at")
    content = content.replace(b"__fentry__", b"__fantry__")
    with pytest.raises(NoCallSitesError, match=r"neither .* nor __fentry__"):
        load(elf_writer.write(tmp_path / "k", content))


def test_a_kernel_without_fentry_is_refused(tmp_path: Path) -> None:
    content = elf_writer.kernel(["mine"]).replace(b"__fentry__", b"__fantry__")
    with pytest.raises(MissingSymbolError, match="__fentry__ is needed"):
        load(elf_writer.write(tmp_path / "k", content))


def test_a_kernel_whose_sites_are_not_calls_is_a_bug(tmp_path: Path) -> None:
    content = bytearray(elf_writer.kernel(["mine"]))
    content[content.index(b"\xe8")] = 0x90
    with pytest.raises(FtraceBug) as caught:
        load(elf_writer.write(tmp_path / "k", bytes(content)))
    assert "Initializing ftrace call sites" in caught.value.report


def test_forty_thousand_sites_are_enabled_at_once(tmp_path: Path) -> None:
    guest = load(elf_writer.write(tmp_path / "k", elf_writer.kernel(40_000)))
    ops = FtraceOps("all", guest.address("function_count_call"))
    guest.ftrace.register(ops)
    assert guest.ftrace.records.flagged(Flag.ENABLED).all()
    assert target(guest, "function_39999") == guest.address("ftrace_caller")
