"""The teaching kernel works on any number of CPUs, repeatedly, and frees its memory."""

from __future__ import annotations

import errno
import re

import numpy as np
import pytest

from dynftrace import arches
from dynftrace.core import abi
from dynftrace.core.errors import GuestError, ModuleError, RelocationOverflow
from dynftrace.core.ftrace.ops import FtraceHash, FtraceOps
from dynftrace.core.session.session import MachineSpec, Session

from ..support import equilibrium
from ..support.ports import FAMILIES
from ..support.user import subject

WORKLOADS = ["boot", "syscalls", "usb", "forkbomb", "irqstorm", "locks", "timers", "sockets"]
MACHINES = [*((arch, 4) for arch in arches.names()), *((arches.DEFAULT, cpus) for cpus in (1, 2))]
"""Ports and numbers of CPUs."""

LONG = [(arch, cpus) for arch, cpus in MACHINES if arch in FAMILIES]
"""Those for long tests of what the guest's C does on any port."""

SETTLE_NS = 200_000_000

MAX_PID = 50
"""Pids above those of all tasks that start with the kernel."""


@pytest.fixture(scope="module", params=arches.names())
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=MACHINES, ids=lambda each: f"{each[0]}-{each[1]}")
def kind(request: pytest.FixtureRequest) -> tuple[str, int]:
    arch, cpus = request.param
    return str(arch), int(cpus)


@pytest.fixture
def guest(kind: tuple[str, int]) -> Session:
    arch, cpus = kind
    return subject(arch).session(MachineSpec(cpus=cpus, modules=("usbcore", "usbhub")))


@pytest.fixture
def session(arch: str) -> Session:
    return subject(arch).session()


def word(session: Session, symbol: str, size: int = 4) -> int:
    """Return a variable of the kernel, `size` bytes."""
    address = session.boot.kallsyms.address(symbol)
    assert address is not None
    return session.boot.machine.memory.read_int(address, size)


def in_use(session: Session) -> dict[str, int]:
    """Return the allocated resources after the guest has been idle for a while."""
    session.run(SETTLE_NS)
    return {
        "tasks": word(session, "nr_threads"),
        "objects": session.call("slab_objects"),
        "pages": session.call("totalram_pages") - session.call("nr_free_pages"),
    }


def names(session: Session) -> set[str]:
    """Return the names of the tasks that exist."""
    memory, init = session.boot.machine.memory, session.boot.kallsyms.address("init_task")
    assert init is not None
    comm = memory.read(init, 64).index(b"swapper")
    tasks = filter(None, (session.call("find_task_by_vpid", [pid]) for pid in range(1, MAX_PID)))
    return {memory.read(task + comm, 16).split(b"\0")[0].decode() for task in tasks}


def test_every_cpu_comes_up_and_the_kernels_threads_run(guest: Session) -> None:
    cpus = guest.spec.cpus
    assert word(guest, "cpu_online_mask") == (1 << cpus) - 1
    guest.run(SETTLE_NS)
    threads = {"init", "sh", "crond", "kthreadd", "rcu_sched", "kswapd0", "khungtaskd", "khubd"}
    threads |= {f"kworker/{cpu}:0" for cpu in range(cpus)}
    threads |= {f"ksoftirqd/{cpu}" for cpu in range(cpus)}
    assert threads <= names(guest)
    assert not guest.boot.machine.oopses


@pytest.mark.parametrize("kind", LONG, ids=str)
def test_the_workloads_end_and_free_everything(guest: Session) -> None:
    assert guest.workloads() == WORKLOADS
    for name in WORKLOADS:  # the first time fills caches and adds names to /proc
        assert guest.run_workload(name) == 1
    before = in_use(guest)
    for name in WORKLOADS:
        assert guest.run_workload(name, 7) == 7
    after = in_use(guest)
    # The task that serves the request may be included; a leak adds 7 or more.
    assert all(abs(after[what] - before[what]) <= 5 for what in before), (before, after)
    assert not guest.boot.machine.oopses


@pytest.mark.parametrize("kind", LONG, ids=str)
def test_a_round_of_syscalls_is_short(guest: Session) -> None:
    equilibrium.reach(guest)
    guest.boot.tracefs.write("current_tracer", "function")
    start, events = guest.now, guest.boot.ring.written()
    assert guest.run_workload("syscalls") == 1
    assert 300 < guest.boot.ring.written() - events < 10_000
    assert guest.now - start < 50_000_000


@pytest.mark.parametrize("arch", FAMILIES)
def test_usb_needs_its_module(session: Session) -> None:
    no_device = -errno.ENODEV % (1 << 8 * session.port.facts.pointer_size)
    assert session.run_workload("usb") == no_device
    session.boot.tracefs.write("current_tracer", "function")
    session.insmod("usbcore")
    assert session.run_workload("usb") == 1
    session.rmmod("usbcore")
    assert session.run_workload("usb") == no_device
    assert " khubd\n" in session.boot.tracefs.read("saved_cmdlines")  # it ran to its end
    session.insmod("usbcore")
    session.insmod("usbhub")
    with pytest.raises(ModuleError):
        session.rmmod("usbcore")


@pytest.mark.parametrize("arch", FAMILIES)
def test_usbhub_probes_what_usbcore_finds(session: Session) -> None:
    for name in ("usbcore", "usbhub"):
        equilibrium.reach(session)
        session.insmod(name)
    equilibrium.reach(session)
    session.boot.tracefs.write("set_ftrace_filter", "usbhub_probe usbhub_disconnect hub_probe")
    session.boot.tracefs.write("current_tracer", "function")
    session.run_workload("usb", 2)
    lines = [line for line in session.boot.tracefs.read("trace").splitlines() if line[0] != "#"]
    called = [line.split(": ")[1].split(" <-")[0].split(" [")[0] for line in lines]
    assert [name.removeprefix(".") for name in called] == ["usbhub_probe", "usbhub_disconnect"] * 2


@pytest.mark.parametrize("arch", FAMILIES)
def test_a_task_is_preempted_and_moves_between_cpus(session: Session) -> None:
    equilibrium.reach(session)
    if session.boot.ftrace.ftraced is not None:
        session.run_workload("locks", 60)  # call sites must run before they can be traced
        equilibrium.reach(session)
    session.boot.tracefs.write("set_ftrace_filter", "preempt_schedule_irq mutex_lock")
    session.boot.tracefs.write("current_tracer", "function")
    session.run_workload("locks", 60)
    lines = session.boot.tracefs.read("trace").splitlines()
    callers = r"preempt_schedule_irq <-\.?common_interrupt"
    assert any(re.search(callers, line) for line in lines)
    session.boot.tracefs.write("set_ftrace_filter", "sys_getpid")
    session.run_workload("syscalls", 20)
    lines = session.boot.tracefs.read("trace").splitlines()
    assert {"[000]", "[001]"} <= {part for line in lines for part in line.split() if "[0" in part}


def test_jiffies_keep_pace_with_the_clock(session: Session) -> None:
    size = session.port.facts.pointer_size
    session.run(abi.TICK_NS)  # the first tick may be pending at the end of the boot
    start, jiffies = session.boot.machine.vcpus[0].ticks, word(session, "jiffies", size)
    session.run(50 * abi.TICK_NS)
    passed = (session.boot.machine.vcpus[0].ticks - start) / abi.TICK_NS
    assert abs(word(session, "jiffies", size) - jiffies - passed) <= 1


def test_a_module_cannot_write_to_the_kernels_code(session: Session) -> None:
    session.insmod("crashy")
    equilibrium.reach(session)
    names = [name.removeprefix(".") for name in session.function_names()]
    ip = int(session.boot.ftrace.records.table["ip"][names.index("schedule")])
    size = session.port.facts.sites.size
    before = session.boot.machine.memory.read(ip, size)
    with pytest.raises(GuestError):
        session.call("crashy_scribble")
    assert session.boot.machine.memory.read(ip, size) == before
    (oops,) = session.boot.machine.oopses
    assert session.boot.kallsyms.name(oops.pc).removeprefix(".") == "crashy_scribble [crashy]"


@pytest.mark.parametrize("arch", FAMILIES)
def test_crashy_jumps_to_the_given_address(session: Session) -> None:
    session.insmod("crashy")
    with pytest.raises(GuestError):
        session.call("crashy_jump", [0x12340000])
    assert [oops.pc for oops in session.boot.machine.oopses] == [0x12340000]


FLAVOURED = [
    arch for arch in arches.names() if (arches.load(arch).images() / "usbcore-near.ko").exists()
]
"""Further builds of usbcore, by port."""


@pytest.mark.parametrize("arch", FLAVOURED)
def test_a_module_out_of_reach_is_refused_and_leaves_no_trace(session: Session) -> None:
    before = (session.boot.machine.memory.regions, session.function_names())
    with pytest.raises(RelocationOverflow) as refused:
        session.insmod("usbcore-near")
    mcount = session.boot.kallsyms.address("_mcount")
    assert str(refused.value).startswith(
        f"module usbcore_near: relocation overflow, v:{mcount:x}, location:"
    )
    assert refused.value.errno == errno.ENOEXEC
    assert not session.boot.modules.loaded
    assert (session.boot.machine.memory.regions, session.function_names()) == before
    session.insmod("usbcore")
    assert session.run_workload("usb") == 1


@pytest.mark.parametrize("arch", FLAVOURED)
def test_two_builds_of_usbcore_can_be_loaded_together(session: Session) -> None:
    session.insmod("usbcore")
    session.insmod("usbcore-trampoline")
    session.boot.tracefs.write("set_ftrace_filter", "usb_alloc_dev")
    session.boot.tracefs.write("current_tracer", "function")
    assert session.run_workload("usb", 2) == 2
    assert session.boot.ring.written() == 4
    session.rmmod("usbcore")
    assert session.run_workload("usb") == 1
    assert session.boot.ring.written() == 5
    session.rmmod("usbcore_trampoline")
    no_device = -errno.ENODEV % (1 << 8 * session.port.facts.pointer_size)
    assert session.run_workload("usb") == no_device


@pytest.mark.parametrize("arch", FLAVOURED)
def test_sites_of_every_form_pass_their_ip_to_the_list_function(session: Session) -> None:
    """The list function looks up users by ip, so the guest's ip must match the record."""
    for module in ("usbcore", "usbcore-trampoline"):
        session.insmod(module)
    session.boot.tracefs.write("set_ftrace_filter", "usb_alloc_dev kmem_cache_free")
    session.boot.tracefs.write("current_tracer", "function")
    names = session.function_names()
    rows = [row for row, name in enumerate(names) if name in ("usb_alloc_dev", "kmem_cache_free")]
    ips = session.boot.ftrace.records.table["ip"][rows]
    assert len(ips) == 3
    counted = session.boot.ftrace.entry["function_count"]
    for ip in ips:
        ops = FtraceOps("one", session.boot.ftrace.entry["function_count_call"])
        ops.filter_hash = FtraceHash.of(np.array([ip], np.uint64))
        session.boot.ftrace.register(ops)
        session.boot.tracefs.write("trace", "")  # lets a CPU leave the tracer
        for cpu in range(8):
            session.boot.machine.memory.write_int(counted + 8 * cpu, 0, 8)
        for _ in range(2):  # a task may free its memory after its run counts as finished
            session.run_workload("usb", 3)
        counts = [session.boot.machine.memory.read_int(counted + 8 * cpu, 8) for cpu in range(8)]
        lines = [line for line in session.boot.tracefs.read("trace").splitlines() if line[0] != "#"]
        if ip < session.port.facts.map.modules:
            told = len([line for line in lines if "kmem_cache_free" in line])
            # A CPU may have stopped between its two users.
            assert told > 3 and 0 <= told - sum(counts) < len(session.boot.machine.vcpus)
        else:
            assert sum(counts) == 6
        session.boot.ftrace.unregister(ops)
