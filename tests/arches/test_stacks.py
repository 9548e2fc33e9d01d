"""Stacks on every port: stack events and the stack tracer agree with the CPU."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

import pytest
from unicorn import Uc
from unicorn.unicorn_const import UC_HOOK_BLOCK, UC_HOOK_CODE

from dynftrace import arches
from dynftrace.core.abi import THREAD_SIZE, TraceType
from dynftrace.core.elf.symbols import Symbol
from dynftrace.core.ftrace.entry import REGION
from dynftrace.core.ftrace.ops import FtraceOps
from dynftrace.core.machine.function import function_at

from ..support.ports import FAMILIES
from ..support.user import User

SWITCH = "/proc/sys/kernel/stack_tracer_enabled"
OPENS = ("ramfs_create", "vfs_create", "lookup_open", "open_last_lookups", "path_openat")
OUTERMOST = {"ret_from_fork", "_start", "start_kernel"}
"""Functions at which stacks end; a kernel's start may jump to the last instead of calling it."""
SITE_AT = {
    **dict.fromkeys(("x86_64", "i386", "x86_64-2008"), 0),
    **{"ppc64": 16, "ppc32": -12, "mips": 4, "mipsel": 4, "mips64": -32},
    **{"arm64": -40, "arm64-mcount": -8},
}
"""Offset of the site's return address from sp when ftrace_caller is called; see entry.S."""


@pytest.fixture(scope="module", params=arches.names())
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def user(arch: str) -> User:
    return User(arch, cpus=1)


def code_of(user: User, name: str) -> int:
    """Return the code address of the guest's function `name`."""
    session = user.session
    address = session.boot.kallsyms.address(name)
    assert address is not None
    facts, memory = session.port.facts, session.boot.machine.memory
    return function_at(facts, memory, session.boot.kallsyms, address).code


def function(user: User, address: int) -> int:
    """Return the start of the function that contains `address`."""
    symbol = user.session.boot.kallsyms.lookup(address)
    assert isinstance(symbol, Symbol), hex(address)
    return symbol.address


def name(user: User, address: int) -> str:
    return user.session.boot.kallsyms.name(address).removeprefix(user.prefix)


def behind_call(user: User, address: int) -> bool:
    memory = user.session.boot.machine.memory
    region = memory.region_at(address - 1)
    assert region is not None
    start = max(region.address, address - user.session.port.facts.max_insn_size)
    return user.session.port.is_return_address(memory.read(start, address - start))


def stacks(user: User) -> list[list[int]]:
    """Return the addresses of each stack event, in buffer order."""
    events = user.session.boot.ring.events()
    assert not events.damaged and not user.session.boot.ring.lost(len(events))
    rows = events.events["parent"][events.events["type"] == TraceType.STACK]
    return [events.details.stacks.row(row).tolist() for row in rows.tolist()]


def test_the_stack_of_an_open_has_all_functions_of_the_call(user: User) -> None:
    before = user.text()
    user("echo 1 > options/func_stack_trace; echo ramfs_create > set_ftrace_filter")
    user("echo function > current_tracer; run syscalls; echo 0 > tracing_on")
    lines = user.events()
    prefix = f" => {user.prefix}"
    for start in (n for n, line in enumerate(lines) if line.endswith(": <stack trace>")):
        assert f": {user.prefix}ramfs_create <-" in lines[start - 1]
        assert lines[start + 1 : start + 6] == [prefix + each for each in OPENS]
        assert lines[start + 6].removeprefix(prefix) == "do_filp_open"
    assert sum("<stack trace>" in line for line in lines) >= 2
    assert sum("<-" in line for line in lines) == len(stacks(user))
    user("echo 0 > options/func_stack_trace; echo 1 > tracing_on; echo > trace; run syscalls")
    assert user.events() and not stacks(user)
    user("echo nop > current_tracer")
    user.same_text(before)
    user.alive()


@dataclass
class Shadow:
    """The functions entered and not left, by task, according to their returns."""

    calls: dict[int, list[tuple[int, int]]]
    """Function and return address."""
    wanted: list[list[int]]
    """The functions at each event, innermost first."""


def shadow(user: User) -> Shadow:
    """Follow every block from now on."""
    session, kept = user.session, Shadow(defaultdict(list), [])
    (vcpu,) = session.boot.machine.vcpus
    arguments = session.port.facts.abi.arguments
    mask = (1 << 8 * session.port.facts.pointer_size) - 1
    new_task = function(user, code_of(user, "schedule_tail"))
    place = code_of(user, "function_stack_trace_call")

    def traced(uc: Uc, address: int, size: int, data: object) -> None:
        ip, back = (uc.reg_read(register.number) & mask for register in arguments[:2])
        calls = kept.calls[int(vcpu.local["current_task"])]
        called = function(user, ip)
        if called == new_task:
            calls.clear()  # the stack of a dead task
        calls.append((called, back))
        if vcpu.local["trace_recursion"] == 0:
            kept.wanted.append([each for each, _ in reversed(calls)])

    def block(uc: Uc, address: int, size: int, data: object) -> None:
        calls = kept.calls.get(int(vcpu.local["current_task"]), [])
        for number in reversed(range(len(calls))):
            if calls[number][1] == address & mask:
                del calls[number:]
                return

    vcpu._uc.hook_add(UC_HOOK_BLOCK, block)
    vcpu._uc.hook_add(UC_HOOK_CODE, traced, None, place, place)
    return kept


@pytest.mark.parametrize("arch", FAMILIES)
def test_every_stack_has_the_functions_that_have_not_returned(arch: str) -> None:
    user = User(arch, alone=True, cpus=1)
    user("echo 2048 > buffer_size_kb; echo 1 > options/func_stack_trace")
    kept = shadow(user)
    user("echo function > current_tracer; run locks; echo 0 > tracing_on")
    found = stacks(user)
    assert 0 <= len(kept.wanted) - len(found) <= 1  # the run may end between call and event
    assert len(found) > 1000
    records = user.session.boot.ftrace.records.table["ip"].tolist()
    sites = {function(user, ip) for ip in records}
    handler = user.session.boot.kallsyms.lookup(code_of(user, "common_interrupt"))
    tracer = user.session.boot.machine.memory.region(REGION)
    outermost, compared, across = set(), 0, 0
    for stack, wanted in zip(found, kept.wanted, strict=False):
        parts: list[list[int]] = [[]]
        in_caller = False
        for number, address in enumerate(stack):
            if number and user.session.boot.kallsyms.lookup(stack[number - 1] - 1) == handler:
                interrupted = function(user, address)  # at any position
                parts.append([interrupted] if interrupted in sites else [])
                # Beyond that, only a register may hold the return address.
                in_caller = tracer.address <= address < tracer.end
                continue
            assert behind_call(user, address), hex(address)
            if function(user, address - 1) in sites:
                parts[-1].append(function(user, address - 1))
        if not tracer.address <= stack[-1] < tracer.end:
            outermost.add(name(user, stack[-1] - 1))
        # Calls that were open before are unknown.
        if len(parts) == 1:
            assert parts[0][: len(wanted)] == wanted
            compared += 1
            continue
        assert wanted[: len(parts[0])] == parts[0]
        rest = wanted[len(parts[0]) :]
        if len(parts) == 2 and not in_caller:
            # Unknown: had the interrupted function entered, or its callee left?
            ways = [rest[drop:] for drop in range(2)]
            assert any(parts[1][s : s + len(way)] == way for way in ways for s in range(2))
            across += bool(rest)
    assert compared > 1000 and across
    assert outermost <= OUTERMOST and "ret_from_fork" in outermost


@pytest.mark.parametrize("arch", FAMILIES)
def test_return_to_handler_is_never_in_a_stack(user: User) -> None:
    """Stacks have the real return addresses, although the graph tracer has replaced them."""
    user("echo ramfs_create > set_ftrace_filter; echo 1 > options/func_stack_trace")
    user("echo function > current_tracer; run syscalls; echo 0 > tracing_on")
    plain = stacks(user)
    user("echo nop > current_tracer; echo > set_ftrace_filter; echo 1 > tracing_on")
    ops = FtraceOps("second", user.session.boot.kallsyms.address("function_stack_trace_call") or 0)
    ops.filter_hash = ops.filter_hash.add(
        user.session.boot.ftrace.records.table["ip"][[user.row("ramfs_create")]]
    )
    user("echo 2048 > buffer_size_kb; echo function_graph > current_tracer")
    user.session.boot.ftrace.register(ops)
    user("run syscalls; echo 0 > tracing_on")
    text = user("cat trace")
    traced = stacks(user)
    assert sorted(traced) == sorted(plain)
    comment = (
        rf"/\* <stack trace>\n => {re.escape(user.prefix)}ramfs_create\n( => .*\n)* => .* \*/\n"
    )
    assert len(re.findall(comment, text)) == len(traced)
    assert "return_to_handler" not in text


def table(user: User) -> list[tuple[int, int, str]]:
    """Return depth, size and location of each row of stack_trace, after its two header lines."""
    first, second, *rows = user("cat stack_trace").splitlines()
    assert first == f"        Depth    Size   Location    ({len(rows)} entries)"
    assert second == "        -----    ----   --------"
    found = [re.fullmatch(r" *(\d+)\) {1,8}(\d+) {3,7}(\d+)   (\S.*)", row) for row in rows]
    assert [int(row[1]) for row in found if row] == list(range(len(rows)))
    return [(int(row[2]), int(row[3]), row[4]) for row in found if row]


@pytest.mark.parametrize(
    ("arch", "others"),
    [*((arch, ()) for arch in arches.names()), *((arch, ("function",)) for arch in FAMILIES)],
)
def test_the_maximum_is_the_stack_of_the_deepest_call(arch: str, others: tuple[str, ...]) -> None:
    user = User(arch, alone=True, cpus=1)
    before = user.text()
    session = user.session
    (vcpu,) = session.boot.machine.vcpus
    width = session.port.facts.pointer_size
    deepest = [0]

    def called(uc: Uc, address: int, size: int, data: object) -> None:
        sp, task = vcpu.registers.sp, int(vcpu.local["current_task"])
        stack = session.boot.machine.memory.read_int(task + width, width)
        if stack == sp & ~(THREAD_SIZE - 1):
            used = THREAD_SIZE - (sp - stack) - SITE_AT[session.port.facts.name]
            deepest[0] = max(deepest[0], used)

    place = session.boot.ftrace.entry["ftrace_caller"]
    vcpu._uc.hook_add(UC_HOOK_CODE, called, None, place, place)
    for tracer in others:
        user(f"echo {tracer} > current_tracer")
    # Calls while the switch changes may be traced by the other tracers only.
    user(f"echo 1 > {SWITCH}; echo 0 > stack_max_size")
    deepest[0] = 0
    user("run syscalls")
    assert user("cat stack_max_size") == f"{deepest[0]}\n"
    rows = table(user)
    depths = [depth for depth, _, _ in rows]
    assert depths == sorted(depths, reverse=True) and len({*depths}) == len(depths) > 5
    assert sum(size for _, size, _ in rows) == depths[0] <= deepest[0]
    if not session.port.facts.abi.saves_link_late:
        assert depths[0] == deepest[0]
    function_and_offset = r"\.?[\w.]+\+0x[0-9a-f]+/0x[0-9a-f]+"
    assert all(re.fullmatch(function_and_offset, where) for _, _, where in rows)
    assert user(f"echo 0 > {SWITCH}; cat {SWITCH}")[-2:] == "0\n"
    user("echo nop > current_tracer")
    user.same_text(before)
    user.alive()


def test_a_written_maximum_must_be_exceeded(user: User) -> None:
    user(f"echo 1 > {SWITCH}; run syscalls")
    size, rows = int(user("cat stack_max_size")), table(user)
    user(f"echo {THREAD_SIZE} > stack_max_size; run syscalls")
    assert user("cat stack_max_size") == f"{THREAD_SIZE}\n" and table(user) == rows
    user("echo schedule > stack_trace_filter; echo 0 > stack_max_size; run syscalls")
    assert 0 < int(user("cat stack_max_size")) < size
    assert table(user)[0][2].startswith(f"{user.prefix}schedule+0x")
    user(f"echo 0 > {SWITCH}")
    user.alive()


@pytest.mark.parametrize("arch", FAMILIES)
def test_a_stacktrace_command_records_only_the_way_to_its_function(user: User) -> None:
    """Include the first function of a module, which has nothing before its call site."""
    user.insmod("usbcore")
    user("echo usb_ifnum_to_if:stacktrace:1 > set_ftrace_filter; run usb")
    (stack,) = stacks(user)
    tracer = user.session.boot.machine.memory.region(REGION)
    assert not any(tracer.address <= address < tracer.end for address in stack)
    names = [name(user, address - 1) for address in stack]
    assert names[0] == "usb_ifnum_to_if [usbcore]" and len(names) >= 5
    assert names[-1] == "ret_from_fork"
