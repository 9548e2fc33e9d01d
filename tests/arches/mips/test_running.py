"""Sites run in the emulator while they are patched.

A function of six instructions and a site runs up to some instruction. Then the site
is patched, and the function runs to its end. The test checks the caller's stack
pointer, the return address in ra, and whether the tracer was called.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from unicorn import Uc, UcError
from unicorn.unicorn_const import UC_TLB_VIRTUAL

from dynftrace.arches.mips import insn
from dynftrace.arches.mips.mips32 import port as mips32
from dynftrace.arches.mips.mips64 import port as mips64
from dynftrace.arches.mips.mipsel import port as mipsel
from dynftrace.arches.mips.port import MipsPort
from dynftrace.core.arch import Edit, Sites

PORTS = {"mips": mips32.port(), "mipsel": mipsel.port(), "mips64": mips64.port()}
T0, T1, V0 = 8, 9, 2
LW, SW = 35, 43
STACK = 0x3000
FRAME = (insn.addiu(29, 29, -32), insn.i_type(SW, 29, 31, 28))
"""The prologue: it stores ra as a word, which is enough to compare."""

SITE_AT = len(FRAME)


@pytest.fixture(params=PORTS)
def port(request: pytest.FixtureRequest) -> MipsPort:
    return PORTS[request.param]


@dataclass
class End:
    """The result of a run."""

    returned: bool
    sp: int
    """Bytes by which sp has changed."""
    ra: bool
    """Whether ra held the return address after the site."""
    calls: int


class Guest:
    """A machine with mcount, a counting ftrace_caller, and one function with a site."""

    def __init__(self, port: MipsPort, far: bool) -> None:
        self.port = port
        high = 2 ** (8 * port.facts.pointer_size) - 2**32
        self.mcount, self.caller = high + 0x8020_8000, high + 0x8020_9000
        self.function = high + (0xC000_0000 if far else 0x8020_1000)
        self.site = self.function + 4 * SITE_AT
        self.back = high + 0x8020_2000
        self.count = high + 0x8020_A000
        self.uc = Uc(port.facts.engine.uc_arch, port.facts.engine.uc_mode)
        self.uc.ctl_set_tlb_mode(UC_TLB_VIRTUAL)
        self.uc.mem_map(high + 0x8020_0000, 0x10000)
        if far:
            self.uc.mem_map(self.function, 0x1000)
        give_back = () if port.form.slot == insn.NOP else (insn.addiu(29, 29, 8),)
        self.write(self.mcount, *give_back, insn.jr(31), insn.move(31, 1))
        hi, lo = insn.halves(self.count)
        counts = (
            *(insn.lui(T0, hi), insn.i_type(LW, T0, T1, lo), insn.addiu(T1, T1, 1)),
            insn.i_type(SW, T0, T1, lo),
        )
        enter = (insn.NOP, *(give_back or (insn.NOP,)))
        self.write(self.caller, *enter, *counts, insn.jr(31), insn.move(31, 1))
        hi, lo = insn.halves(self.mcount)
        jal, _ = insn.jal(np.array([self.site], np.uint64), np.array([self.mcount], np.uint64))
        add = insn.i_type(port.form.add, 3, 3, lo)
        site = (
            (insn.lui(3, hi), add, insn.move(1, 31), insn.jalr(3), port.form.slot)
            if far
            else (int(jal[0]), port.form.slot)
        )
        before = FRAME if far else (*FRAME[:1], insn.move(1, 31))
        end = (insn.move(V0, 31), insn.addiu(29, 29, 32), insn.jr(31), insn.NOP)
        self.length = len(site)
        self.write(self.function, *before, *site, *end)
        compiled = np.frombuffer(bytes(self.uc.mem_read(self.site, 20)), np.uint8)[None, :]
        stubs = {self.caller: np.array([self.mcount if far else 0], np.uint64)}
        self.sites = Sites(np.array([self.site], np.uint64), stubs, compiled)
        init = port.dyn_arch_init(self.mcount, self.caller)
        assert init is not None
        self.apply(init)
        self.apply(port.init_nop(self.sites, self.mcount))

    def write(self, address: int, *words: int) -> None:
        self.uc.mem_write(address, insn.pack(self.port.form.order, *words))

    def apply(self, edit: Edit) -> None:
        """Write an edit if the expected bytes are there, and flush."""
        address, text = int(edit.address[0]), edit.replacement[0].tobytes()
        assert edit.reachable.all()
        assert self.uc.mem_read(address, len(text)) == edit.expected[0].tobytes()
        self.uc.mem_write(address, text)
        self.uc.ctl_remove_cache(address, address + len(text))

    def set(self, enabled: bool) -> None:
        verb = self.port.make_call if enabled else self.port.make_nop
        self.apply(verb(self.sites, self.caller))

    def start(self) -> None:
        abi = self.port.facts.abi
        values = self.port.enter_call(self.function, [], self.back + STACK, self.back).registers
        numbers = {register.name: register.number for register in abi.pt_regs}
        for name, value in values.items():
            self.uc.reg_write(numbers[name], value)
        self.uc.reg_write(numbers["v1"], 0x40)
        self.sp = values["sp"]
        self.pc = self.function

    def run(self, steps: int) -> None:
        """Run `count` instructions one at a time; a branch includes its delay slot."""
        for _ in range(steps):
            self.uc.emu_start(self.pc, self.back, count=1)
            self.pc = self.uc.reg_read(self.port.facts.abi.pc.number)

    def finish(self) -> End:
        try:
            self.uc.emu_start(self.pc, self.back, count=200)
        except UcError:
            return End(False, 0, False, 0)
        abi = self.port.facts.abi
        values = {each.name: self.uc.reg_read(each.number) for each in abi.pt_regs}
        order = "little" if self.port.form.order == "little" else "big"
        return End(
            returned=values["pc"] == self.back,
            sp=values["sp"] - self.sp,
            ra=values["v0"] == self.back,
            calls=int.from_bytes(self.uc.mem_read(self.count, 4), order),
        )


def changed_at(port: MipsPort, far: bool, enabled: bool, steps: int) -> End:
    """Return the result if a site that was `enabled` changes after `steps` instructions."""
    guest = Guest(port, far)
    if enabled:
        guest.set(True)
    guest.start()
    guest.run(steps)
    guest.set(not enabled)
    return guest.finish()


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize("enabled", [False, True])
def test_a_site_restores_the_stack(port: MipsPort, far: bool, enabled: bool) -> None:
    guest = Guest(port, far)
    if enabled:
        guest.set(True)
    guest.start()
    assert guest.finish() == End(True, 0, True, int(enabled))


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
def test_a_site_that_was_never_changed_calls_mcount(port: MipsPort, far: bool) -> None:
    guest = Guest(port, far)
    guest.uc.mem_write(guest.site, guest.sites.compiled[0].tobytes())
    guest.start()
    # After dyn_arch_init both far and near calls reach mcount.
    assert guest.finish() == End(True, 0, True, 1)


@pytest.mark.parametrize("steps", range(10))
@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize("enabled", [False, True])
def test_a_site_may_change_under_a_task_anywhere(
    port: MipsPort, far: bool, enabled: bool, steps: int
) -> None:
    past = steps > SITE_AT  # the task has executed the old site
    calls = int(enabled if past else not enabled)
    assert changed_at(port, far, enabled, steps) == End(True, 0, True, calls)


def test_replacing_a_near_call_with_two_nops_breaks_a_task_between_them(port: MipsPort) -> None:
    end = changed_at(port.with_nop("nop"), False, False, SITE_AT + 1)
    assert end == End(True, 0 if port.form.slot == insn.NOP else -8, True, 0)


@pytest.mark.parametrize("steps", range(10))
@pytest.mark.parametrize("enabled", [False, True])
def test_linux_changes_one_word_of_a_kernel_site(enabled: bool, steps: int) -> None:
    end = changed_at(mips32.port().with_nop("linux"), False, enabled, steps)
    assert end == End(True, 0, True, int(enabled if steps > SITE_AT else not enabled))


@pytest.mark.parametrize("steps", range(SITE_AT, SITE_AT + 3))
def test_linux_changes_two_words_of_a_far_site(steps: int) -> None:
    end = changed_at(mips32.port().with_nop("linux"), True, True, steps)
    whole = steps != SITE_AT + 1  # between the two, v1 has half of the address
    assert end.returned == whole


@pytest.mark.parametrize("steps", range(SITE_AT + 1, SITE_AT + 5))
def test_replacing_a_far_call_with_nops_breaks_a_task_inside_it(port: MipsPort, steps: int) -> None:
    """The reason for the `b`: the task would resume in the middle of a call it never began."""
    end = changed_at(port.with_nop("nop"), True, False, steps)
    if steps == SITE_AT + 4 and port.form.slot == insn.NOP:
        assert end == End(True, 0, True, 0), "a nop in the delay slot must do no harm"
    elif steps == SITE_AT + 4:
        assert end == End(True, -8, True, 0), "sp must drift: the delay slot ran without the call"
    else:
        assert not end.returned, "the task must jump to half an address"


@pytest.mark.parametrize("steps", [SITE_AT, SITE_AT + 5])
def test_replacing_a_far_call_with_nops_spares_tasks_outside_it(port: MipsPort, steps: int) -> None:
    end = changed_at(port.with_nop("nop"), True, False, steps)
    assert end == End(True, 0, True, int(steps == SITE_AT))


def test_replacing_only_the_jal_makes_sp_drift(port: MipsPort) -> None:
    guest = Guest(port, far=False)
    guest.set(True)
    guest.write(guest.site, insn.NOP)
    guest.start()
    drift = 0 if port.form.slot == insn.NOP else -8
    assert guest.finish() == End(True, drift, True, 0)
