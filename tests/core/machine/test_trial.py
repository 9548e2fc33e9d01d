"""Trial runs say which memory an instruction reads and writes, without doing so."""

from __future__ import annotations

import pytest
from unicorn.unicorn_const import UC_HOOK_MEM_READ, UC_HOOK_MEM_WRITE, UC_MEM_WRITE

from dynftrace import arches
from dynftrace.core.machine.trial import Trials
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

from ...support.ports import FAMILIES

STEPS = 120


@pytest.mark.parametrize("arch", FAMILIES)
def test_a_trial_predicts_the_accesses_and_values_of_the_step(arch: str) -> None:
    """The oracle is the engine of the vCPU itself: hooks of the step, and memory after it."""
    # Not a shared machine: the hook stays.
    session = Session.open(arches.load(arch), MachineSpec())
    traced = "echo vfs_write > set_ftrace_filter; echo function > current_tracer"
    assert not Shell(session).execute(f"{traced}; until vfs_write syscalls").status
    machine, cpu = session.boot.machine, session.boot.stepper.last or 0
    vcpu, mask = machine.vcpus[cpu], (1 << 8 * session.port.facts.pointer_size) - 1
    trials = Trials(session.port.facts, machine.memory)
    seen: list[tuple[int, int, bool]] = []

    def note(uc: object, access: int, address: int, size: int, value: int, data: object) -> None:
        seen.append((address & mask, size, access == UC_MEM_WRITE))

    vcpu._uc.hook_add(UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE, note)
    found = 0
    for _ in range(STEPS):
        before = vcpu.registers.read()
        predicted = trials.accesses(vcpu, machine.instructions_of_step(vcpu))
        assert vcpu.registers.read() == before
        seen.clear()
        machine.step(cpu)
        written = {(at, size) for at, size, write in seen if write}
        assert {(each.address, each.size) for each in predicted} == {
            (at, size) for at, size, _ in seen
        }
        for each in predicted:
            assert (each.after is not None) == ((each.address, each.size) in written)
            if each.address - session.port.facts.map.local in range(16):
                continue  # the clock, which the step itself advances
            now = vcpu._uc.mem_read(each.address, each.size)
            value = each.before if each.after is None else each.after
            assert int.from_bytes(now, machine.memory.byteorder) == value
        found += len(predicted)
    assert found > 20
