"""NMIs on one port of each family: at many positions of the kernel and of the tracer."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from unicorn.unicorn_const import UC_HOOK_BLOCK

from dynftrace import arches
from dynftrace.core.abi import TraceFlag
from dynftrace.core.elf.image import Image
from dynftrace.core.ftrace.phases import Act
from dynftrace.core.ftrace.settle import settle
from dynftrace.core.views.disasm import Disassembler

from ..support.ports import FAMILIES
from ..support.user import User

HANDLERS = ["nmi_handle", "watchdog_overflow_callback", "watchdog_check_timestamp"]
"""The functions of an NMI that ftrace knows, in the order of their calls."""

NMI_MASK = 0x00F0_0000
"""The bits of preempt_count that count NMIs."""

UNDIVIDED = {
    *("function_trace_call", "prepare_ftrace_return", "ftrace_return_to_handler"),
    *("rb_reserve", "rb_end_commit", "ring_buffer_lock_reserve"),
    *("array_buffer_lock_reserve", "trace_clock_global"),
}
"""Functions of the tracer with code that no NMI may divide."""


@pytest.fixture(scope="module", params=FAMILIES)
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def user(arch: str) -> User:
    return User(arch, cpus=1)


class Run:
    """What a workload left in the trace while NMIs came every `period` ns."""

    def __init__(self, user: User, period: int) -> None:
        user("echo > trace")
        boot = user.session.boot
        cpu = boot.machine.vcpus[0]
        before = cpu.interrupts.nmis
        user(f"nmi 0 every {period}; run syscalls; nmi 0 off")
        settle(boot.machine)
        self.nmis = cpu.interrupts.nmis - before
        table = boot.ring.events()
        events = table.events
        named = [
            "" if ip == 0 else boot.kallsyms.name(ip).removeprefix(user.prefix)
            for ip in table.ips().tolist()
        ]
        self.names = np.array(named)
        self.of_nmis = (events["flags"] & TraceFlag.NMI) != 0
        shown = user("cat per_cpu/cpu0/stats").splitlines()
        stats = dict(line.split(": ") for line in shown if line)
        assert not boot.machine.oopses
        assert table.damaged == 0
        assert (np.diff(events["ts"].astype(np.int64)) >= 0).all()
        assert (events["flags"][self.of_nmis] & TraceFlag.HARDIRQ).all()
        assert int(stats["entries"]) == len(events)
        assert not cpu.local["buffer"]["write"] and not cpu.local["buffer"]["committing"]
        assert not cpu.local["trace_recursion"] and not cpu.local["preempt_count"] & NMI_MASK

    def calls(self, prefix: str) -> Counter[str]:
        """Count the events of functions whose names begin with `prefix`."""
        return Counter(name for name in self.names.tolist() if name.startswith(prefix))


def test_no_nmi_loses_or_damages_an_event(user: User) -> None:
    user("echo function > current_tracer; run syscalls")
    without = Counter(
        line.split()[-2] for line in user("cat trace").splitlines() if "sys_get" in line
    )
    run = Run(user, 14_983)
    assert run.nmis > 200
    assert run.names[run.of_nmis].tolist() == HANDLERS * run.nmis
    assert sum(run.calls("sys_get").values()) == sum(without.values()) > 0


def test_no_nmi_breaks_the_graph(user: User) -> None:
    user("echo function_graph > current_tracer")
    run = Run(user, 59_981)
    assert run.nmis > 100
    assert run.of_nmis.sum() == 2 * len(HANDLERS) * run.nmis
    user("echo 8 > buffer_size_kb")
    Run(user, 59_981)


@pytest.mark.parametrize("overwrite", (0, 1))
def test_a_full_buffer_counts_what_it_loses(user: User, overwrite: int) -> None:
    user(f"echo 8 > buffer_size_kb; echo {overwrite} > options/overwrite")
    user("echo function > current_tracer")
    Run(user, 13_001)


def test_the_stack_of_an_nmi_ends_where_the_interrupted_stack_does(user: User) -> None:
    user(f"echo {user.prefix}nmi_handle > set_ftrace_filter; echo 1 > options/func_stack_trace")
    user("echo function > current_tracer; nmi 0 every 150001; run syscalls; nmi 0 off")
    stacks = user("cat trace").split("<stack trace>")[1:]
    assert len(stacks) > 10
    for stack in stacks:
        calls = [line.split()[-1] for line in stack.splitlines() if line.startswith(" => ")]
        assert "common_nmi" in calls[2]
        assert calls[-1].lstrip(".") in ("ret_from_fork", "_start", "start_kernel"), calls


def test_an_nmi_comes_at_its_time_although_interrupts_are_off(user: User) -> None:
    cpu = user.session.boot.machine.vcpus[0]
    user("echo function > current_tracer")
    at = cpu.ticks + 700_001
    user(f"nmi 0 {at // 10**9}.{at % 10**9:09d}; run syscalls")
    table = user.session.boot.ring.events()
    times = table.events["ts"][(table.events["flags"] & TraceFlag.NMI) != 0]
    assert len(times) == len(HANDLERS)
    assert 0 < int(times[0]) - at < 2_000
    assert user("nmi").startswith(f"cpu0  {cpu.interrupts.nmis} NMIs\n")


def test_what_no_nmi_may_divide_is_on_one_page() -> None:
    for name in arches.names():
        port = arches.load(name)
        table = Image.load(port.images() / "tracer.o", port.facts).symbols
        rows = zip(table.names, table.address.tolist(), table.size.tolist(), strict=True)
        code = {name.removeprefix("."): (at, size) for name, at, size in rows if size > 24}
        for function in UNDIVIDED:
            at, size = code[function]
            assert at % 4096 + size <= 4096, (name, function)


@pytest.mark.parametrize("arch", arches.names())
def test_a_block_of_the_tracer_ends_only_at_a_branch(arch: str) -> None:
    user = User(arch, alone=True, cpus=1)
    user("echo function_graph > current_tracer; run syscalls")
    machine, kallsyms = user.session.boot.machine, user.session.boot.kallsyms
    disassembler = Disassembler(machine.port.facts, kallsyms)
    blocks: set[tuple[int, int]] = set()

    def block(uc: object, address: int, size: int, data: object) -> None:
        blocks.add((address, size))

    machine.vcpus[0]._uc.hook_add(UC_HOOK_BLOCK, block)
    machine.flush()
    user("run syscalls; echo function > current_tracer; run syscalls")
    starts = {address for address, _ in blocks}
    seen = set()
    for address, size in blocks:
        name = kallsyms.name(address).removeprefix(".")
        if name not in UNDIVIDED or address + size not in starts:
            continue
        seen.add(name)
        # On MIPS, the last instruction is in the branch's delay slot.
        last = disassembler.decode(address, machine.memory.read(address, size))[-2:]
        assert any(each.branches for each in last), (name, hex(address + size))
    assert seen >= {"prepare_ftrace_return", "ftrace_return_to_handler", "function_trace_call"}


FOUND = "poke trace_nmi 01; nmi 0 every 300000000; sleep 1.5; nmi 0 off"
"""Leave out the annotation notrace_nmi, and have ftraced find the functions of NMIs."""
CHANGE = "echo nmi_handle_traced > set_ftrace_filter; nmi 0 change; echo function > current_tracer"


@pytest.mark.parametrize(
    ("method", "survives"), [("stop_machine", False), ("nmi_enter", True), ("breakpoint", True)]
)
def test_in_2008_an_nmi_in_the_middle_of_a_change_must_be_helped(
    method: str, survives: bool
) -> None:
    user = User("x86_64-2008", cpus=1, patch=method)
    user(f"{FOUND}; {CHANGE}")
    machine = user.session.boot.machine
    assert machine.alive is survives
    performed = [each.act for each in user.session.boot.ftrace.patcher.performed]
    assert (Act.HELP in performed) == (method == "nmi_enter"), "the NMI writes the text"
    if not survives:
        assert "? nmi_handle_traced+0x9" in user("dmesg")
        return
    user("echo > trace; nmi 0; sleep 0.1")
    assert re.search(r" d\.h[12]\. ", user("cat trace"))
    assert ": nmi_handle_traced <-do_nmi" in user("cat trace")


@pytest.mark.parametrize(
    ("nop", "method", "survives"),
    [("b", "stop_machine", False), ("b", "nmi_enter", True), ("linux", "stop_machine", True)],
)
def test_on_mips_an_nmi_between_the_two_words_of_a_site_must_be_helped(
    nop: str, method: str, survives: bool
) -> None:
    user = User("mips", cpus=1, patch=method, nop=nop)
    user("echo nmi_handle > set_ftrace_filter; nmi 0 change; echo function > current_tracer")
    assert user.session.boot.machine.vcpus[0].interrupts.nmis == 1
    assert user.session.boot.machine.alive is survives


def test_in_2008_the_annotation_keeps_nmis_out_of_the_change() -> None:
    user = User("x86_64-2008", cpus=1)
    assert "nmi_handle\n" not in user("nmi 0; sleep 1.2; cat available_filter_functions")
    user("nmi 0 change; echo function > current_tracer; run syscalls")
    assert user("nmi").startswith("cpu0  2 NMIs")
