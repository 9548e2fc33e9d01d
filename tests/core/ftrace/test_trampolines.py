"""Several users at once, each with its own trampoline, on the running kernel."""

from __future__ import annotations

import re

import pytest

from dynftrace import arches
from dynftrace.core.errors import FtraceBug
from dynftrace.core.ftrace import trampolines as module
from dynftrace.core.ftrace.entry import CALLER, REGS_CALLER
from dynftrace.core.ftrace.ops import FtraceOps
from dynftrace.core.ftrace.records import Flag
from dynftrace.core.machine.function import enter
from dynftrace.core.machine.vcpu import State
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell

from ...support.booted import Booted, boot
from ...support.ports import FAMILIES
from ...support.user import User

MS = 1_000_000


@pytest.fixture
def guest() -> Booted:
    return boot()


@pytest.fixture
def user() -> User:
    return User("x86_64")


def counter(guest: Booted, name: str, *functions: str, save_regs: bool = False) -> FtraceOps:
    ops = guest.counter(name)
    ops.filter_hash, ops.save_regs = guest.filter(*functions), save_regs
    return ops


def called(guest: Booted, function: str) -> int | None:
    """Return the target that the site's bytes encode."""
    return guest.port.call_target(guest.address(function), guest.site(function))


def own(guest: Booted, ops: FtraceOps) -> int:
    """Return the address of the ops' trampoline."""
    assert guest.ftrace.trampolines is not None
    (found,) = (each for each in guest.ftrace.trampolines.made if each.ops is ops)
    return found.address


def whats(user: User) -> list[str]:
    return [line.partition(": ")[2] for line in user.events()]


@pytest.mark.parametrize("method", ["stop_machine", "breakpoint"])
def test_a_site_goes_through_every_state_with_the_guest_running(guest: Booted, method: str) -> None:
    ftrace, before = guest.ftrace, guest.text()
    ftrace.patcher.method = method
    one, two = counter(guest, "one", "schedule"), counter(guest, "two", "kfree")
    shared = guest.address(CALLER)
    counts = [guest.counted()]

    def calls() -> tuple[int | None, int | None]:
        guest.machine.requests.run_workload("syscalls", 3)
        counts.append(guest.counted())
        assert counts[-1] > counts[-2] or not ftrace.ops
        return called(guest, "schedule"), called(guest, "kfree")

    ftrace.register(one)
    assert calls() == (shared, None)
    ftrace.register(two)
    assert calls() == (own(guest, one), own(guest, two))
    ftrace.set_hashes(two, guest.filter("kfree", "schedule"))
    assert calls() == (shared, own(guest, two))
    ftrace.set_hashes(one, guest.filter("kfree"))
    assert calls() == (own(guest, two), shared)
    ftrace.set_hashes(two, guest.filter("vfs_read"))
    assert calls() == (None, own(guest, one))
    ftrace.unregister(one)
    assert calls() == (None, None) and called(guest, "vfs_read") == shared
    ftrace.unregister(two)
    assert calls() == (None, None)
    assert guest.text() == before and not guest.machine.oopses


def test_a_site_moves_from_one_trampoline_to_another(guest: Booted) -> None:
    one, two = counter(guest, "one", "schedule"), counter(guest, "two", "kfree")
    for ops in (one, two):
        guest.ftrace.register(ops)
    two.filter_hash = guest.filter("kfree", "schedule")
    guest.ftrace.set_hashes(one, guest.filter("vfs_read"))
    assert called(guest, "schedule") == own(guest, two)
    assert called(guest, "vfs_read") == own(guest, one)
    guest.machine.run(5 * MS)
    assert guest.counted() and not guest.machine.oopses


def test_each_user_gets_its_own_calls_with_their_callers(user: User) -> None:
    """Check ip, caller and op; op holds the id of the fprobe event."""
    user("echo 'f:read vfs_read' > dynamic_events; echo ksys_read ksys_write > set_ftrace_filter")
    user("echo function > current_tracer; echo 1 > events/fprobes/enable; run syscalls")
    rows = [user.row(name) for name in ("ksys_read", "ksys_write", "vfs_read")]
    own = user.session.boot.ftrace.records.flagged(Flag.TRAMP_EN)
    assert own[rows].all() and own.sum() == 3
    told = whats(user)
    assert {what.partition("+0x")[0] for what in told} == {
        *("ksys_read <-sys_read", "ksys_write <-sys_write", "read: (vfs_read")
    }
    outer, inner = (sum(what.startswith(w) for what in told) for w in ("ksys_read", "read: "))
    assert outer > 3 and abs(outer - inner) <= 2, (
        "counts may differ: a CPU may stop between the two functions"
    )
    assert [
        hop.label for hop in user.session.call_path(user.session.boot.ftrace.records.ip_of(rows[2]))
    ] == [*("site", "ftrace_caller", "ftrace_call", "tracer")]
    assert user.state("ksys_read") == user.state("vfs_read") == "enabled"


def test_the_registers_are_those_of_the_call(user: User) -> None:
    session = user.session
    text = session.boot.kallsyms.address("vermagic") or 0
    user("echo 'f:parse simple_strtol a=$arg1 b=$arg2 c=$arg3 at=%rip:symbol' > dynamic_events")
    user("echo kfree > set_ftrace_filter; echo function > current_tracer")
    user("echo 1 > events/fprobes/enable")
    assert session.boot.ftrace.records.flagged(Flag.TRAMP_EN)[user.row("simple_strtol")]
    result = session.call("simple_strtol", [text, 0, 0x1D])
    said = next(what for what in whats(user) if what.startswith("parse"))
    size = session.boot.kallsyms.format(session.address_of("simple_strtol")).rpartition("/")[2]
    place = f"simple_strtol+0x0/{size}"
    assert said == f"parse: ({place}) a={text:#x} b=0x0 c=0x1d at=simple_strtol+0x5/{size}"
    user("echo 0 > events/fprobes/enable")
    assert session.call("simple_strtol", [text, 0, 0x1D]) == result


def test_the_graph_tracer_and_another_user(user: User) -> None:
    before = user.text()
    user("echo filemap_read > set_graph_function; echo kfree > set_ftrace_notrace")
    user("echo 'f:free kfree' > dynamic_events; echo function_graph > current_tracer")
    user("echo 1 > events/fprobes/enable; run syscalls")
    assert user.session.boot.ftrace.records.flagged(Flag.TRAMP_EN).all()
    lines = user.events()
    assert sum("filemap_read() {" in line for line in lines) > 1
    assert sum("free: (kfree" in line for line in lines) > 3
    opened, closed = (sum(line.endswith(end) for line in lines) for end in ("{", " }"))
    assert opened == closed
    user("echo > set_ftrace_notrace; run syscalls")
    assert not user.session.boot.ftrace.records.flagged(Flag.TRAMP_EN)[user.row("kfree")]
    user("echo 0 > events/fprobes/enable; echo nop > current_tracer")
    user.alive()
    user.same_text(before)


def test_function_trace_stop_stops_all_trampolines(guest: Booted) -> None:
    for ops in (counter(guest, "one", "schedule"), counter(guest, "two", "kfree", save_regs=True)):
        guest.ftrace.register(ops)
    guest.machine.memory.write_int(guest.address("function_trace_stop"), 1, 4)
    before = guest.counted()
    guest.machine.requests.run_workload("syscalls", 1)
    assert guest.counted() == before and not guest.machine.oopses


def test_the_files_have_the_kernels_format(user: User) -> None:
    user("echo 'f:e vfs_read' > dynamic_events; echo schedule vfs_read > set_ftrace_filter")
    user("echo function > current_tracer; echo 1 > events/fprobes/enable")
    user("echo 'f:o kfree' >> dynamic_events; echo 1 > events/fprobes/o/enable")
    end = r"\+0x0/0x[0-9a-f]+"
    patterns = [
        rf"schedule \(1\) {'':10}\ttramp: ftrace_trampoline{end} \[__builtin__ftrace\] "
        rf"\(function_trace_call{end}\) ->function_trace_call{end}",
        rf"kfree \(1\) R {'':8}\ttramp: ftrace_trampoline{end} \[__builtin__ftrace\] "
        rf"\(fentry_trace_func{end}\) ->fentry_trace_func{end}",
        rf"vfs_read \(2\) R {'':8} ->ftrace_ops_list_func{end}",
    ]
    lines = user("cat enabled_functions").splitlines()
    assert len(lines) == 3
    for pattern, line in zip(patterns, lines, strict=True):
        assert re.fullmatch(pattern, line), line
    ways = user("tramp").split("\n\n")
    assert len(ways) == 2 + 3
    assert "ftrace_caller only for global_ops" in ways[2]
    assert "ftrace_regs_caller only for fprobes:o" in ways[4]
    assert "call ftrace_trampoline" in user("site kfree")
    user("echo 0 > events/enable; echo nop > current_tracer")
    assert len(user("tramp").split("\n\n")) == 2


# Damage


def test_a_site_that_does_not_call_its_trampoline_is_a_bug(guest: Booted) -> None:
    one, two = counter(guest, "one", "schedule"), counter(guest, "two", "kfree")
    for ops in (one, two):
        guest.ftrace.register(ops)
    ip, wrong = guest.address("schedule"), own(guest, two)
    guest.machine.memory.write(ip + 1, (wrong - ip - 5).to_bytes(4, "little", signed=True))
    before = guest.text()
    with pytest.raises(FtraceBug) as caught:
        guest.ftrace.unregister(one)
    assert guest.text() == before
    assert caught.value.reason == "it calls the trampoline of two and not the trampoline of one"
    name, func = guest.kallsyms.format(own(guest, one)), guest.kallsyms.format(one.func)
    flags = Flag.ENABLED | Flag.TOUCHED | Flag.TRAMP_EN
    assert caught.value.expected == b"\xe8" + (own(guest, one) - ip - 5).to_bytes(4, "little")
    assert caught.value.report[-4:] == (
        "Setting ftrace call site to NOP",
        f"ftrace record flags: {flags:x}",
        f" (0)  \ttramp: {name} ({func})",
        f" expected tramp: {own(guest, one):x}",
    )


def test_a_damaged_slot_of_a_trampoline_stops_any_write(guest: Booted) -> None:
    one, two = counter(guest, "one", "schedule"), counter(guest, "two", "kfree")
    for ops in (one, two):
        guest.ftrace.register(ops)
    assert guest.ftrace.trampolines is not None
    place = guest.ftrace.trampolines.of([one, two])[1].slot
    guest.machine.memory.write(place, b"\x90")
    before = guest.text()
    with pytest.raises(FtraceBug) as caught:
        guest.ftrace.set_hashes(one, guest.filter("vfs_read"))
    assert caught.value.ip == place and guest.text() == before


def test_an_oops_in_a_trampoline_names_it(guest: Booted) -> None:
    one, two = counter(guest, "one", "schedule"), counter(guest, "two", "kfree")
    for ops in (one, two):
        guest.ftrace.register(ops)
    place = own(guest, one) + 0x0D
    guest.machine.memory.write(place, b"\x0f\x0b")
    guest.machine.flush(place, place + 2)
    guest.machine.run(20 * MS)
    report = "\n".join(guest.machine.oopses[0].report)
    assert re.search(r"RIP: \S+ ftrace_trampoline\+0xd/0x98 \[__builtin__ftrace\]", report), report


def test_steps_go_through_a_trampoline(user: User) -> None:
    user("echo 'f:e simple_strtol' > dynamic_events; echo schedule > set_ftrace_filter")
    user("echo function > current_tracer; echo 1 > events/fprobes/enable")
    session, row = user.session, user.row("simple_strtol")
    machine, facts = session.boot.machine, session.port.facts
    text = session.address_of("vermagic")
    base = facts.map.host_stack + 0x10_0000
    machine.memory.map(base, 0x10000, "test stack", executable=False)
    function, stack = session.address_of("simple_strtol"), base + 0x8000
    effect = enter(
        session.port, machine.memory, session.boot.kallsyms, function, (text, 0, 10), stack, base
    )
    machine.vcpus[0].apply(effect, machine.memory)
    machine.vcpus[0].state = State.RUNNING
    assert session.boot.ftrace.trampolines is not None
    hops = session.call_path(session.boot.ftrace.records.ip_of(row))
    trampoline = session.boot.ftrace.trampolines.at(hops[1].address)
    assert trampoline is not None and trampoline.op == trampoline.end - 8
    way = [hop.address for hop in hops]
    seen: list[int] = []
    while len(seen) < 2000 and function + 5 not in seen:
        if trampoline.address <= (pc := machine.registers(0)[facts.abi.pc.name]) < trampoline.end:
            assert "ftrace_trampoline+0x" in session.instruction(0)
        seen.append(pc)
        session.step(0)
    assert [pc for pc in seen if pc in way] == way
    assert session.boot.ftrace.entry["ftrace_graph_call"] in seen
    assert [what.partition(" ")[0] for what in whats(user)][-1:] == ["e:"]


# Allocation


def test_a_returning_user_gets_its_trampoline_back(user: User) -> None:
    user("echo 'f:e vfs_read' > dynamic_events; echo function > current_tracer")
    trampolines = user.session.boot.ftrace.trampolines
    assert trampolines is not None
    for _ in range(5):
        user("echo 1 > events/fprobes/enable; run syscalls; echo 0 > events/fprobes/enable")
    assert len(trampolines.made) == 2
    user("echo 'f:other vfs_read' >> dynamic_events; echo 1 > events/fprobes/enable")
    assert len(trampolines.made) == 3
    assert len({each.address for each in trampolines.of(user.session.boot.ftrace.ops)}) == 3
    user("run syscalls")
    user.alive()


def test_a_user_without_a_free_trampoline_shares_the_caller(
    guest: Booted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PLACES", 1)
    one, two = counter(guest, "one", "schedule"), counter(guest, "two", "kfree", save_regs=True)
    for ops in (one, two):
        guest.ftrace.register(ops)
    assert called(guest, "schedule") == own(guest, one)
    assert called(guest, "kfree") == guest.address(REGS_CALLER)
    guest.machine.requests.run_workload("syscalls", 1)
    assert guest.counted() and not guest.machine.oopses


def test_trampolines_continue_on_the_next_page(guest: Booted) -> None:
    users = [counter(guest, str(number), "schedule", "kfree") for number in range(12)]
    users[11].filter_hash = guest.filter("vfs_read")
    for ops in users:
        guest.ftrace.register(ops)
    assert len({own(guest, ops) // 4096 for ops in users}) == 2
    assert called(guest, "vfs_read") == own(guest, users[11])
    guest.machine.requests.run_workload("syscalls", 1)
    assert guest.counted() and not guest.machine.oopses


def test_a_trampoline_calls_the_changed_function(guest: Booted) -> None:
    one, two = counter(guest, "one", "schedule"), counter(guest, "two", "kfree")
    two.func = guest.address("ftrace_graph_stub")
    for ops in (one, two):
        guest.ftrace.register(ops)
    guest.machine.requests.run_workload("syscalls", 1)
    assert (count := guest.counted()) > 0
    one.func = two.func
    guest.ftrace.set_hashes(two, guest.filter("vfs_write"))
    assert guest.ftrace.trampolines is not None
    assert guest.ftrace.trampolines.calls(own(guest, one)) == one.func
    guest.machine.requests.run_workload("syscalls", 1)
    assert guest.counted() == count and not guest.machine.oopses


# Other ports


class Without:
    """x86-64 as a port from another package that has no `trampolines`."""

    def __init__(self) -> None:
        self._port = arches.load("x86_64")

    def __getattr__(self, name: str) -> object:
        if name == "trampolines":
            raise AttributeError(name)
        return getattr(self._port, name)


def test_a_port_without_trampolines_works() -> None:
    session = Session.open(Without())  # type: ignore[arg-type]
    shell = Shell(session)
    commands = "echo 'f:e vfs_read' > dynamic_events; echo schedule > set_ftrace_filter"
    commands += "; echo function > current_tracer; echo 1 > events/fprobes/enable; run syscalls"
    assert not shell.execute(commands).error
    assert session.boot.ftrace.trampolines is None
    row = session.boot.ftrace.records.names.index("schedule")
    assert session.boot.ftrace.state(row).target == session.boot.ftrace.entry[CALLER]
    assert all(hop.verified for hop in session.call_path(session.boot.ftrace.records.ip_of(row)))
    assert shell.execute("cat enabled_functions").output.count(" ->ftrace_ops_list_func") == 2


@pytest.mark.parametrize("arch", FAMILIES[1:])
def test_on_other_ports_several_users_share_a_caller(arch: str) -> None:
    guest = boot(arch)
    for number in range(2):
        guest.ftrace.register(guest.counter(str(number)))
    records = guest.ftrace.records
    assert guest.ftrace.trampolines is None and not records.flagged(Flag.TRAMP).any()
    targets = {guest.ftrace.state(row).target for row in range(len(records))}
    assert targets == {guest.ftrace.entry[CALLER]}
