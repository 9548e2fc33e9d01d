"""A change of text that the guest prepares: what its CPUs execute, as the engine sees it."""

from __future__ import annotations

from itertools import groupby

import pytest
from unicorn.unicorn_const import UC_HOOK_BLOCK

from dynftrace.core.abi import MultiStop
from dynftrace.core.errors import GuestError
from dynftrace.core.machine.updates import LIMIT_NS
from dynftrace.core.machine.vcpu import State

from ...support.ports import FAMILIES
from ...support.user import User

ENABLE = "echo function > current_tracer"


class Watcher:
    """Every block that the CPUs begin in multi_cpu_stop or while a CPU writes text."""

    def __init__(self, user: User) -> None:
        self.machine, self.kallsyms = user.session.boot.machine, user.session.boot.kallsyms
        self.seen: list[tuple[int, MultiStop, str, bool]] = []
        """CPU, the guest's state of stop_machine, function, and whether interrupts are off."""
        for number, vcpu in enumerate(self.machine.vcpus):
            vcpu._uc.hook_add(UC_HOOK_BLOCK, self._block, number)

    def _block(self, uc: object, address: int, size: int, cpu: int) -> None:
        symbol = self.kallsyms.lookup(address)
        name = "" if symbol is None else symbol.name.lstrip(".")
        state = self.machine.updates.state()
        if name == "multi_cpu_stop" or state is MultiStop.RUN:
            off = bool(self.machine.vcpus[cpu].local["irqs_disabled"])
            self.seen.append((cpu, state, name, off))


@pytest.mark.parametrize("arch", FAMILIES)
def test_while_text_changes_no_other_cpu_leaves_multi_cpu_stop(arch: str) -> None:
    user = User(arch, alone=True, cpus=3)
    user("until schedule syscalls")
    watcher = Watcher(user)
    user(ENABLE)
    timing = user.session.boot.ftrace.patcher.last
    assert timing is not None and timing.method == "stop_machine"
    assert timing.asked < timing.first < timing.last < timing.ended
    others = {
        (name, off)
        for cpu, state, name, off in watcher.seen
        if state is MultiStop.RUN and cpu != timing.cpu
    }
    assert others == {("multi_cpu_stop", True)}
    active = {name for cpu, state, name, _ in watcher.seen if cpu == timing.cpu}
    assert active <= {"multi_cpu_stop", "__ftrace_modify_code", "set_state"}
    in_order = list(MultiStop)[1:]
    for number in range(3):
        states = [
            state
            for cpu, state, name, _ in watcher.seen
            if (cpu, name) == (number, "multi_cpu_stop") and state in in_order
        ]
        assert [state for state, _ in groupby(states)] == in_order


@pytest.mark.parametrize(
    "arch, method", [(a, "stop_machine") for a in FAMILIES] + [("i386", "breakpoint")]
)
def test_a_change_takes_time_and_two_runs_give_the_same_bytes(arch: str, method: str) -> None:
    ends = []
    for _ in range(2):
        user = User(arch)
        user(f"patch {method}; echo schedule vfs_read > set_ftrace_filter")
        before = user.session.now
        user(f"{ENABLE}; run syscalls; echo vfs_read > set_ftrace_filter; run syscalls")
        timing = user.session.boot.ftrace.patcher.last
        assert timing is not None and before < timing.asked < timing.ended < user.session.now
        ends.append((timing, user("cat trace dyn_ftrace_total_info"), user.session.now))
        assert {line.split()[-2] for line in ends[-1][1].splitlines() if "<-" in line} == {
            user.prefix + "schedule",
            user.prefix + "vfs_read",
        }
    assert ends[0] == ends[1]


def test_the_stoppers_and_their_ipis_are_in_the_trace() -> None:
    user = User("x86_64")
    user(f"{ENABLE}; run syscalls; echo schedule > set_ftrace_filter")
    text = user("cat trace")
    for task in ("migration/0", "migration/1"):
        assert any(task in line and "multi_cpu_stop <-" in line for line in text.splitlines())
    timing = user.session.boot.ftrace.patcher.last
    assert timing is not None
    assert "migr" in user(f"lanes {timing.asked} {timing.ended}")
    user("patch breakpoint; echo do_sync_core > set_ftrace_filter")
    user("echo > trace; echo vfs_read >> set_ftrace_filter")
    assert "do_sync_core <-flush_smp_call_function_queue" in user("cat trace")


@pytest.mark.parametrize("method", ["stop_machine", "breakpoint"])
def test_a_cpu_that_never_enables_interrupts_is_named_and_the_text_stays(method: str) -> None:
    user = User("x86_64", alone=True)
    user(f"patch {method}; until vfs_read syscalls")
    machine = user.session.boot.machine
    cpu = machine.scheduler.stands
    assert cpu is not None
    vcpu = machine.vcpus[cpu]
    vcpu.local["irqs_disabled"] = 1
    loop = vcpu.registers.pc
    before, now = user.text(), machine.now
    user.session.poke(loop, b"\xeb\xfe")  # jmp to itself
    damaged = user.text()
    user("echo schedule > set_ftrace_filter")
    with pytest.raises(GuestError, match=f"CPU {cpu} has kept interrupts off for 20 ms"):
        user.session.boot.array.set_tracer("function")
    user.same_text(damaged)
    assert before != damaged and machine.now - now < LIMIT_NS
    assert user("cat current_tracer") == "nop\n"
    assert user.session.boot.ftrace.patcher.patch is None


def test_a_kernel_whose_cpu_has_stopped_is_changed_at_once() -> None:
    user = User("x86_64", alone=True)
    user("patch watch on")
    machine = user.session.boot.machine
    machine.vcpus[1].state = State.DEAD
    user(ENABLE)
    assert "at once: the host writes between two instructions" in user("patch")
    assert "CPU 1 has stopped" in " ".join(user("patch").split())
    before = machine.now
    user("patch finish")
    assert machine.now == before and user("cat enabled_functions")


def test_a_cpu_stopped_at_a_place_is_still_there_afterwards() -> None:
    user = User("x86_64")
    user("until schedule syscalls")
    machine = user.session.boot.machine
    cpu = machine.scheduler.stands
    assert cpu is not None
    before = machine.registers(cpu)
    user(ENABLE)
    assert machine.registers(cpu) == before and machine.scheduler.stands == cpu
    assert "ftrace_caller" in user("step 1")


def test_the_machine_may_run_on_between_the_states() -> None:
    """Nothing holds the stoppers back: what was watched completes by itself."""
    user = User("x86_64")
    user(f"patch watch on; {ENABLE}; patch next")
    assert "DISABLE_IRQ" in user("patch")
    user("sleep 0.01")
    assert "comes next" not in user("patch") and "schedule" in user("cat enabled_functions")
    user("back; patch next")
    lanes = [line for line in user("patch").splitlines() if line.startswith("cpu")]
    assert len(lanes) == 2 and all("irqs off" in line for line in lanes)


def test_the_middle_of_a_change_is_an_instant_like_any_other() -> None:
    user = User("x86_64")
    user(f"{ENABLE}; run syscalls")
    timing = user.session.boot.ftrace.patcher.last
    assert timing is not None
    begin = f"goto {timing.first / 1e9:.9f} {timing.cpu}"
    user(begin)
    middle = user("patch; regs")
    assert "EXIT" in middle and "irqs off" in middle
    user("sleep 0.01")
    assert "comes next" not in user("patch") and "schedule" in user("cat enabled_functions")
    user("back")
    assert user("patch; regs") == middle
