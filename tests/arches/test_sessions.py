"""What a user sees on every port: the same actions, with that port's own bytes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from dynftrace import arches
from dynftrace.core.arch import Sites
from dynftrace.core.errors import FtraceBug
from dynftrace.core.ftrace.entry import CALLER, REGS_CALLER
from dynftrace.core.kernel.kernel import RAM
from dynftrace.core.machine.function import enter
from dynftrace.core.machine.vcpu import State
from dynftrace.core.shell.shell import Shell

from ..support import equilibrium
from ..support.ports import FAMILIES
from ..support.user import User


@pytest.fixture(scope="module", params=arches.names())
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def user(arch: str) -> User:
    return User(arch)


@pytest.mark.parametrize("arch", FAMILIES)
def test_a_function_is_traced_and_then_a_nop_again(user: User) -> None:
    before = user.text()
    assert user.state("schedule") == "nop"
    user("echo schedule > set_ftrace_filter; echo function > current_tracer")
    assert user("cat set_ftrace_filter") == f"{user.prefix}schedule\n"
    assert user.state("schedule") == "enabled"
    user("run syscalls")
    events = user.events()
    assert len(events) > 5
    assert all(f": {user.prefix}schedule <-{user.prefix}" in line for line in events)
    known = {symbol.name for symbol in user.session.boot.kallsyms.functions()}
    assert {line.split("<-")[1] for line in events} <= known
    user("echo nop > current_tracer; echo > set_ftrace_filter")
    assert user.state("schedule") == "nop"
    user.same_text(before)


@pytest.mark.parametrize("arch", FAMILIES)
def test_the_guest_works_with_every_function_traced(user: User) -> None:
    quiet = user("run syscalls")
    user("echo function > current_tracer")
    assert user("run syscalls") == quiet
    assert len({line.split(": ")[1].split(" <-")[0] for line in user.events()}) > 60
    assert not user.session.boot.machine.oopses


@pytest.mark.parametrize("first", ["insmod", "enable"])
@pytest.mark.parametrize("arch", FAMILIES)
def test_kernel_and_module_share_a_trace_in_either_load_order(user: User, first: str) -> None:
    before = user.text()
    if first == "enable":
        user("echo function > current_tracer")
    user.insmod("usbcore")
    user("echo function > current_tracer")
    assert user.state("usb_ifnum_to_if") == "enabled"
    user("run usb")
    events = user.events()
    assert any(f": {user.prefix}usb_ifnum_to_if <-" in line for line in events)
    assert any(
        f": {user.prefix}kmalloc" in line or f": {user.prefix}mutex_lock" in line for line in events
    )
    user("echo nop > current_tracer")
    assert user.state("usb_ifnum_to_if") == "nop"
    user("rmmod usbcore")
    user.same_text(before)
    assert "usb_ifnum_to_if" not in user("cat available_filter_functions")
    assert not user.session.boot.machine.oopses


@pytest.mark.parametrize("arch", FAMILIES)
def test_a_module_can_call_another_while_everything_is_traced(user: User) -> None:
    user.insmod("usbcore", "usbhub")
    user("echo function > current_tracer; run usb")
    modules = {
        name
        for name in ("usbcore", "usbhub")
        for line in user.session.boot.ftrace.records.module_names()
        if line == name
    }
    assert modules == {"usbcore", "usbhub"}
    error = user.refused("rmmod usbcore")
    assert "in use by: usbhub" in error
    user("rmmod usbhub; rmmod usbcore; echo nop > current_tracer")
    assert not user.session.boot.machine.oopses


@pytest.mark.parametrize("arch", FAMILIES)
def test_a_poked_site_is_refused_and_nothing_is_written(user: User) -> None:
    user.insmod("usbcore")
    records = user.session.boot.ftrace.records
    row = records.names.index(f"{user.prefix}usb_ifnum_to_if")
    ip, size = int(records.table["ip"][row]), user.session.port.facts.sites.size
    user(f"poke 0x{ip:x} {'00' * size}")
    before = user.text()
    error = user.refused("echo function > current_tracer")
    assert f"ftrace failed to modify [<{ip:08x}>]" in error
    user.same_text(before)
    report = user("dmesg")
    assert "------------[ ftrace bug ]------------" in report
    assert " actual:   00:00:00:00" in report
    assert "No such device" in user.refused("echo function_graph > current_tracer")


STUBS = [name for name in arches.names() if arches.load(name).stubs is not None]
"""The ports whose loader makes stubs."""

MCOUNTS_STUBS = [
    name for name in STUBS if arches.load(name).init_nop(Sites(np.empty(0, np.uint64)), 0).via
]
"""The same, if their compiled sites call mcount."""


def words_of_stub(user: User) -> range:
    """Return the offsets of the words of a stub."""
    port = user.session.port
    assert port.stubs is not None
    return range(0, port.stubs.facts.size, port.facts.insn_align)


def test_only_modules_out_of_reach_have_stubs(user: User) -> None:
    user.insmod("usbcore", far=True)
    stubs = user.session.boot.modules.loaded[0].stubs
    callers = list(user.session.boot.ftrace.entry.callers)
    assert [stub.symbol for stub in stubs][-len(callers) :] == callers * bool(stubs)
    assert bool(stubs) == (user.session.port.stubs is not None)
    row = user.session.boot.ftrace.records.names.index(f"{user.prefix}usb_ifnum_to_if")
    far = user.session.call_site(user.session.boot.ftrace.records.ip_of(row)).via is not None
    assert ("without stubs" in user("tramp usbcore")) != far


def test_far_and_near_modules_are_traced_alike(user: User) -> None:
    """On ports with two module areas the same functions are called, with and without a stub."""
    if user.session.port.facts.modules_far is None:
        assert "no" in user.refused("insmod --far usbcore")
        return
    seen = []
    for far in ("", "--far"):
        before = user.text()
        user(f"insmod {far} usbcore; echo > trace; echo function > current_tracer; run usb 3")
        row = user.session.boot.ftrace.records.names.index(f"{user.prefix}usb_ifnum_to_if")
        assert (
            user.session.call_site(user.session.boot.ftrace.records.ip_of(row)).via is not None
        ) == bool(far)
        seen.append(
            {line.split(": ")[1].split(" <-")[0] for line in user.events() if "usb_" in line}
        )
        user("echo nop > current_tracer; rmmod usbcore")
        user.same_text(before)
    assert seen[0] == seen[1]
    assert len(seen[0]) > 10
    assert not user.session.boot.machine.oopses


@pytest.mark.parametrize("arch", STUBS)
def test_damage_to_any_word_of_a_stub_is_refused(user: User) -> None:
    user.insmod("usbcore", far=True)
    stubs = user.session.boot.modules.loaded[0].stubs
    stub = next(stub for stub in stubs if stub.symbol == "ftrace_caller")
    undamaged = user.session.save()
    for word in words_of_stub(user):
        undamaged()
        user(f"poke 0x{stub.address + word:x} 0xdeadbeef")
        before = user.text()
        error = user.refused("echo function > current_tracer")
        assert "the stub of ftrace_caller" in error and "found de ad be ef" in error
        user.same_text(before)
        report = user("dmesg")
        assert "------------[ ftrace bug ]------------" in report
        assert f"{stub.address + word:x}" in report


@pytest.mark.parametrize("arch", MCOUNTS_STUBS)
def test_a_site_is_not_disabled_before_its_stub_is_verified(user: User) -> None:
    user.insmod("usbcore", far=True)
    session = user.session
    ftrace, memory = session.boot.ftrace, session.boot.machine.memory
    rows = np.array([row for row, of in enumerate(ftrace.records.module_names()) if of])
    sites, compiled = ftrace.records.sites(rows), ftrace.records.compiled[rows]
    memory.scatter(sites.ip, compiled)  # as before their first change
    edit = ftrace.port.init_nop(sites, ftrace.mcount)
    stubs = ftrace.records.stubs_at(edit.via[0])
    ftrace.patcher.verify(edit, stubs)
    (stub,) = stubs
    for word in words_of_stub(user):
        good = memory.read(stub.address + word, 4)
        memory.write(stub.address + word, b"\xde\xad\xbe\xef")
        with pytest.raises(FtraceBug, match=r"the stub of .*mcount") as caught:
            ftrace.patcher.apply(edit, None, stubs)
        assert caught.value.address == stub.address + word
        assert (memory.gather(sites.ip, compiled.shape[1])[0] == compiled).all()
        memory.write(stub.address + word, good)


@pytest.mark.parametrize("arch", FAMILIES)
def test_a_fault_is_an_oops_in_the_architectures_format(user: User) -> None:
    user("insmod crashy")
    assert user.refused("call crashy_jump")
    report = user("dmesg")
    assert "Oops" in report or "BUG" in report
    assert "crashy_jump" in report
    user("reboot; run syscalls")


@pytest.mark.parametrize("arch", FAMILIES)
def test_data_is_not_executable(user: User) -> None:
    user.insmod("usbcore")
    memory, facts = user.session.boot.machine.memory, user.session.port.facts
    code = {"kernel0", "tracer", "tracer text", "module usbcore text"}
    assert {region.name for region in memory.regions if region.executable} == code
    assert not any(region.writable for region in memory.regions if region.executable)
    for name in (RAM, "tracer data"):
        memory = user.session.boot.machine.memory
        place = memory.region(name).address + 0x1000
        memory.write_int(place, place)  # a function pointer may point to a descriptor
        assert "has stopped: " in user.refused(f"call {place:#x}")
        assert f"{place:0{2 * facts.pointer_size}x}" in user("dmesg")
        user("reboot; run syscalls")


@pytest.mark.parametrize("arch", FAMILIES)
def test_code_is_not_writable(user: User) -> None:
    place = user.session.boot.ftrace.entry["ftrace_stub"]
    before = user.session.boot.machine.memory.read(place, 16)
    assert "has stopped: " in user.refused(f"call memset {place:#x} 0 16")
    assert f"{place:0{2 * user.session.port.facts.pointer_size}x}" in user("dmesg")
    assert user.session.boot.machine.memory.read(place, 16) == before
    user("reboot; run syscalls")


def test_sites_have_source_lines(user: User) -> None:
    user.insmod("usbcore")
    assert "sched/core.c:" in user(f"site {user.prefix}schedule")
    assert "modules/usbcore/" in user(f"site {user.prefix}usb_ifnum_to_if")


@pytest.mark.parametrize("arch", FAMILIES)
def test_two_machines_agree_byte_for_byte(arch: str) -> None:
    flow = (
        "insmod usbcore; echo function > current_tracer; run usb; cat trace; "
        "dmesg; cat per_cpu/cpu0/stats; lsmod; regs"
    )
    first, second = User(arch)(flow), User(arch, native_clock=False)(flow)
    assert first == second


@pytest.mark.parametrize("arch", FAMILIES)
def test_tracing_works_with_every_patch_method_and_number_of_cpus(arch: str) -> None:
    methods = arches.load(arch).facts.patch_methods
    # A single CPU never meets text that changes, whatever the method.
    for method, cpus in ((methods[0], 1), *((method, 4) for method in methods)):
        user = User(arch, patch=method, cpus=cpus, modules=("usbcore",))
        before = user.text()
        outcome = Shell(user.session).execute(
            "echo function > current_tracer; run boot; run usb; echo nop > current_tracer"
        )
        # With `none` a torn instruction may kill a CPU: that is what it demonstrates.
        if method != "none":
            assert (outcome.error, outcome.status) == ("", 0)
            user.same_text(before)
            assert not user.session.boot.machine.oopses


def test_steps_lead_through_site_stub_and_entry_code_to_the_tracer(user: User) -> None:
    """Follow a call of a module's function on CPU 0, instruction by instruction."""
    user.insmod("usbcore", far=True)
    user("echo usb_ifnum_to_if > set_ftrace_filter; echo function > current_tracer")
    session = user.session
    records, machine = session.boot.ftrace.records, session.boot.machine
    row = records.names.index(f"{user.prefix}usb_ifnum_to_if")
    path = session.call_path(session.boot.ftrace.records.ip_of(row))
    wanted = [hop.address for hop in path if hop.label in ("stub", "ftrace_caller", "tracer")]
    assert len(wanted) == (
        2 if session.call_site(session.boot.ftrace.records.ip_of(row)).via is None else 3
    )
    function = session.boot.kallsyms.address("usb_ifnum_to_if")
    assert function is not None
    base = session.port.facts.map.host_stack + 0x10_0000
    machine.memory.map(base, 0x10000, "test stack")
    vcpu = machine.vcpus[0]
    effect = enter(
        session.port, machine.memory, session.boot.kallsyms, function, (0, 0), base + 0x8000, base
    )
    vcpu.apply(effect, machine.memory)
    vcpu.state = State.RUNNING
    seen = [vcpu.registers.pc]
    while seen[-1] != wanted[-1] and len(seen) < 200:
        machine.step(0)
        seen.append(vcpu.registers.pc)
    assert int(records.table["ip"][row]) in seen
    assert [address for address in seen if address in wanted] == wanted


def test_a_name_means_code_and_a_call_uses_its_descriptor(user: User) -> None:
    session = user.session
    code = session.address_of("schedule")
    assert session.boot.kallsyms.lookup(code) == session.boot.kallsyms.lookup(code + 1)
    assert f"{user.prefix}schedule+0x0/" in session.boot.kallsyms.format(code)
    for way in ("sys_getppid", f"{user.prefix}sys_getppid", hex(session.address_of("sys_getppid"))):
        assert user(f"call {way}").split(" = ")[1] == user("call sys_getppid").split(" = ")[1]


def test_an_errno_is_recognised_at_any_word_size(user: User) -> None:
    assert "No such device" in user.refused("run usb")


def test_an_event_has_the_registers_at_the_functions_entry(user: User) -> None:
    """They are the emulator's registers at the site, except those the site changes."""
    session = user.session
    user("call simple_strtol vermagic 0")
    equilibrium.reach(session)
    user("echo 'f:parse simple_strtol text=$arg1 end=$arg2' > dynamic_events")
    if REGS_CALLER not in session.boot.ftrace.entry.callers:
        assert f"has no {REGS_CALLER}" in user.refused("echo 1 > events/fprobes/enable")
        assert user.state("simple_strtol") == "nop"
        return
    user("echo 1 > events/fprobes/enable")
    assert user.state("simple_strtol") == "enabled"
    machine, abi = session.boot.machine, session.port.facts.abi
    records = session.boot.ftrace.records
    row = records.names.index(f"{user.prefix}simple_strtol")
    ip = int(records.table["ip"][row])
    function = session.boot.kallsyms.address("simple_strtol")
    assert function is not None
    base = session.port.facts.map.host_stack + 0x10_0000
    machine.memory.map(base, 0x10000, "test stack")
    effect = enter(
        session.port,
        machine.memory,
        session.boot.kallsyms,
        function,
        (base, 0),
        base + 0x8000,
        base,
    )
    vcpu = machine.vcpus[0]
    vcpu.apply(effect, machine.memory)
    vcpu.state = State.RUNNING
    while vcpu.registers.pc != ip:
        machine.step(0)
    entered = machine.registers(0)
    while not len(session.boot.ring.events()):
        machine.step(0)
    apart = {abi.pc.name, abi.link.name if abi.link else ""}
    edit = session.port.make_call(
        records.sites(slice(row, row + 1)), session.boot.ftrace.entry[CALLER]
    )
    apart |= session.port.emulate(entered, ip, edit.row(edit.expected, 0)).registers.keys()
    shown = user("regs hit").splitlines()
    assert shown[1].startswith("parse: (") and f"text={base:#x} end=0x0" in shown[1]
    saved = {line.split()[0]: int(line.split()[1], 16) for line in shown[3:]}
    assert {k: v for k, v in saved.items() if k not in apart} == {
        k: v for k, v in entered.items() if k not in apart
    }
    assert ip <= saved[abi.pc.name] <= ip + session.port.facts.sites.size


DISPATCHERS = (
    *("do_syscall_64", "do_int80_syscall_32", "system_call_exception"),
    *("handle_sys", "handle_sys64", "do_el0_svc"),
)

CHILD = [
    *("open", "write", "lseek", "read", "close", "getpid", "open", "read", "close"),
    *("open", "write", "close", "nanosleep"),
]
"""One round of the first two tasks of `syscalls`: syscalls_child in init/workloads.c."""


def calls_of(lines: list[str]) -> dict[int, list[tuple[str, dict[str, int], int | None]]]:
    """Return the system calls by PID: name, arguments, and result or None."""
    found: dict[int, list[tuple[str, dict[str, int], int | None]]] = {}
    for line in lines:
        entered = re.search(r"-(\d+) .* sys_(\w+)\((.*)\)$", line)
        left = re.search(r"-(\d+) .* sys_(\w+) -> 0x([0-9a-f]+)$", line)
        if entered is not None:
            own = found.setdefault(int(entered[1]), [])
            assert not own or own[-1][2] is not None, line
            values = [value.split(": ") for value in entered[3].split(", ") if value]
            own.append((entered[2], {name: int(value, 16) for name, value in values}, None))
        elif left is not None:
            # The task was inside a call when the events were enabled.
            own = found.setdefault(int(left[1]), [(left[2], {}, None)])
            name, arguments, returned = own[-1]
            assert (name, returned) == (left[2], None), line
            own[-1] = (name, arguments, int(left[3], 16))
    return found


def test_system_calls_are_recorded_with_name_and_arguments(user: User) -> None:
    """Events come in pairs; those of two tasks agree with their source."""
    memory = user.session.boot.machine.memory
    user("echo 1 > events/syscalls/enable")
    user("run syscalls")
    by_task = calls_of(user.events())
    user("echo 0 > events/syscalls/enable; echo > trace; run syscalls")
    assert not user.events()
    children = [calls for calls in by_task.values() if [c[0] for c in calls[:13]] == CHILD]
    assert len(children) == 2
    paths = set()
    for calls in children:
        assert [call[0] for call in calls] == [*CHILD, *CHILD, "unlink"]
        (opened, wrote, sought, read, closed), stopped = calls[:5], calls[-1]
        at = opened[1].pop("filename")
        path = memory.read(at, 7)
        paths.add(path)
        fd = opened[2]
        assert opened[1] == {"flags": 0x242, "mode": 0}
        assert memory.read(wrote[1]["buf"], 19) == b"the quick brown fox"
        assert (wrote[1]["fd"], wrote[1]["count"], wrote[2]) == (fd, 19, 19)
        assert sought == ("lseek", {"fd": fd, "offset": 0}, 0)
        assert (read[1]["fd"], read[1]["count"], read[2]) == (fd, 64, 19)
        assert closed == ("close", {"fd": fd}, 0)
        assert calls[12] == ("nanosleep", {"ns": 1_000_000}, 0)
        assert stopped == ("unlink", {"pathname": at}, 0)
    assert paths == {b"/tmp/a\0", b"/tmp/b\0"}
    assert any(name == "pipe" for calls in by_task.values() for name, _, _ in calls)


@pytest.mark.parametrize("arch", FAMILIES)
def test_system_calls_are_inline_in_both_tracers(arch: str) -> None:
    """Their events come between the dispatcher and the call's own function."""
    user = User(arch, cpus=1)  # nothing comes between the lines of a call
    session = user.session
    dispatcher = next(
        name for name in DISPATCHERS if session.boot.kallsyms.address(name) is not None
    )
    user("echo syscalls:sys_enter_kill syscalls:sys_exit_kill > set_event")
    function, inner = f"{user.prefix}{dispatcher}", f"{user.prefix}sys_kill"
    nr = next(e.event.syscall.nr for e in session.boot.array.syscalls if e.name == "sys_enter_kill")
    session.call(dispatcher, [nr, 0, 1])
    equilibrium.reach(session)
    user(f"echo {function} {inner} > set_ftrace_filter; echo function > current_tracer")
    minus = (1 << 8 * session.port.facts.pointer_size) - 22
    told = ["sys_kill(pid: 0, sig: 1)", f"sys_kill -> {minus:#x}"]

    def call() -> list[str]:
        """Return the lines around one call of `kill`."""
        user("echo > trace")
        session.call(dispatcher, [nr, 0, 1])
        return [line for line in user.events() if function in line or "sys_kill" in line]

    said = [re.sub(r"^.*\d: ", "", line.partition(" <-")[0]) for line in call()]
    at = said.index(told[0])
    assert said[at - 1 : at + 3] == [function, told[0], inner, told[1]]
    user("echo function_graph > current_tracer")
    said = [re.sub(r"^.*\|  +|^.*\|  ", "", line) for line in call()]
    at = said.index(f"/* {told[0]} */")
    assert said[at - 1 : at + 3] == [
        *(f"{function}() {{", f"/* {told[0]} */", f"{inner}();", f"/* {told[1]} */")
    ]
    assert user.session.boot.ftrace.disabled == 0
