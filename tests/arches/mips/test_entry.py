"""ftrace_caller and mcount, run from sites of each form: arguments and preserved registers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from unicorn import Uc, mips_const
from unicorn.unicorn_const import UC_TLB_VIRTUAL

from dynftrace.arches import load
from dynftrace.arches.mips import insn
from dynftrace.arches.mips.port import MipsPort
from dynftrace.core.arch import EntryCode, Sites

from ...support.entry import entry_code

ARCHES = ["mips", "mipsel", "mips64"]
CALLS = 100_000
PARENT = 0x8040_0000

FAR = {
    "far": ["slot"],
    "far-ra": ["ra", "slot"],
    "far-slow": ["slot", "nop"],
    "far-ra-slow": ["ra", "slot", "nop"],
}
"""Forms of a far site in a module: what is around `jalr v1` after `move at,ra`. `ra` is of
-mmcount-ra-address, and without optimization `slot` is not in the delay slot."""

FORMS = ["kernel", *FAR, "stub"]
"""A near site in the kernel, far sites in a module, and a near one through a stub."""

CASES = [(arch, form) for arch in ARCHES for form in FORMS if arch != "mips64" or "-" not in form]


@dataclass
class World:
    """The entry code, a function with a site at `ip`, and a loop that calls it."""

    port: MipsPort
    entry: EntryCode
    uc: Uc
    ip: int
    loop: int
    size: int
    """Bytes of the site."""

    def label(self, name: str) -> int:
        return self.port.facts.map.tracer + self.entry.symbols[name]

    def read(self, name: str) -> int:
        numbers = {register.name: register.number for register in self.port.facts.abi.pt_regs}
        value = self.uc.reg_read(numbers[name])
        assert isinstance(value, int)
        return value

    def write(self, name: str, value: int) -> None:
        numbers = {register.name: register.number for register in self.port.facts.abi.pt_regs}
        self.uc.reg_write(numbers[name], value)


def world(arch: str, form: str) -> World:
    port = load(arch)
    assert isinstance(port, MipsPort)
    facts, order = port.facts, port.facts.byteorder
    entry = entry_code(port)
    caller = facts.map.tracer + entry.symbols["ftrace_caller"]
    uc = Uc(facts.engine.uc_arch, facts.engine.uc_mode)
    if facts.engine.uc_cpu is not None:
        uc.ctl_set_cpu_model(facts.engine.uc_cpu)
    uc.ctl_set_tlb_mode(UC_TLB_VIRTUAL)
    kernel = facts.map.tracer - 0x10_0000
    base = kernel + 0x2000 if form == "kernel" else facts.map.modules
    for place in (kernel, facts.map.modules, facts.map.tracer, facts.map.host_stack):
        uc.mem_map(place, 0x4000)

    def put(at: int, *words: int) -> None:
        uc.mem_write(at, insn.pack(order, *words))

    def jump(opcode: int, at: int, to: int) -> int:
        word, _ = insn.j_type(opcode, np.array([at], np.uint64), np.array([to], np.uint64))
        return int(word[0])

    uc.mem_write(facts.map.tracer, entry.code)
    mcount, stub = kernel, base + 0x100
    put(mcount, jump(insn.J, mcount, caller), insn.NOP)
    add = insn.addiu if facts.pointer_size == 4 else insn.daddiu
    after = (insn.jr(insn.RA), insn.NOP)
    move = insn.move(insn.AT, insn.RA)
    if form in FAR:
        high, low = (mcount + 0x8000) >> 16 & 0xFFFF, mcount & 0xFFFF
        address = insn.lui(insn.V1, high), add(insn.V1, insn.V1, low)
        ip = base
        words = {"ra": insn.addiu(insn.T4, insn.SP, 28), "slot": port.form.slot, "nop": insn.NOP}
        rest = [words[each] for each in FAR[form]]
        rest.insert(len(rest) - 1, 0x0060_F809)
        put(ip, *address, move, *rest, *after)
    else:
        ip = base + insn.WORD
        to = caller if form == "kernel" else stub
        put(base, move, jump(insn.JAL, ip, to), port.form.slot, *after)
        t0 = 8 if facts.pointer_size == 4 else 12
        high, low = (caller + 0x8000) >> 16 & 0xFFFF, caller & 0xFFFF
        put(stub, insn.lui(t0, high), add(t0, t0, low), t0 << 21 | insn.JR, insn.NOP)
    loop = base + 0x200
    # loop: jal base; addiu s0,s0,-1; bne s0,zero,loop; nop
    again = insn.i_type(5, 16, insn.ZERO, -3)
    put(loop, jump(insn.JAL, loop, base), insn.addiu(16, 16, -1), again, insn.NOP)
    return World(port, entry, uc, ip, loop, 16 + 4 * len(FAR[form]) if form in FAR else 8)


@pytest.mark.parametrize("arch", ARCHES)
def test_labels_are_where_the_code_expects_them(arch: str) -> None:
    here = world(arch, "kernel")
    order, tracer = here.port.facts.byteorder, here.port.facts.map.tracer
    assert here.label("ftrace_stub") == tracer
    slot = here.entry.symbols["ftrace_call"]
    call = insn.word_at(here.entry.code, order, slot)
    assert insn.jump_target(tracer + slot, call) == tracer
    assert insn.word_at(here.entry.code, order, slot + insn.WORD) == insn.NOP
    op = here.entry.symbols["function_trace_op"]
    width = here.port.facts.pointer_size
    assert op % width == 0
    here.uc.mem_write(
        tracer + op, (0x1234).to_bytes(width, "little" if order == "little" else "big")
    )
    here.write("sp", here.port.facts.map.host_stack + 0x2000)
    here.write("s0", 1)
    here.uc.emu_start(here.loop, tracer)
    assert here.read("a2") == 0x1234


@pytest.mark.parametrize(("arch", "form"), CASES)
def test_a_traced_call_reaches_the_tracer_and_preserves_registers(arch: str, form: str) -> None:
    here = world(arch, form)
    abi = here.port.facts.abi
    sp = here.port.facts.map.host_stack + 0x2000
    free = here.port.facts.sites.clobbers | {"zero", "sp", "ra", "pc"}
    free |= {"v1"} if form in FAR else set()
    kept = [register.name for register in abi.pt_regs if register.name not in free]
    for number, name in enumerate(kept):
        here.write(name, 0x100 + number)
    here.write("sp", sp)
    here.write("ra", PARENT)
    start = here.ip if form in FAR else here.ip - insn.WORD
    here.uc.emu_start(start, here.label("ftrace_stub"))
    mask = (1 << 8 * here.port.facts.pointer_size) - 1
    told = [here.read(name) & mask for name in ("a0", "a1", "a3")]
    assert told == [here.ip, PARENT, 0]
    assert here.read("sp") % abi.stack_align == 0
    for name in ("v0", "v1", "at", *(name for name in kept if name[0] in "at"), "hi", "lo"):
        here.write(name, 0xDEAD)  # what a function may change
    here.uc.ctl_flush_tb()  # the end of the run was translated inside it
    here.uc.emu_start(here.label("ftrace_stub"), here.ip + here.size)
    assert [here.read(name) for name in kept if name not in ("hi", "lo")] == [
        0x100 + number for number, name in enumerate(kept) if name not in ("hi", "lo")
    ]
    assert here.read("sp") == sp
    assert (here.read("ra"), here.read("at")) == (PARENT, PARENT)


@pytest.mark.parametrize(("arch", "form"), CASES)
def test_many_calls_keep_sp(arch: str, form: str) -> None:
    here = world(arch, form)
    sp = here.port.facts.map.host_stack + 0x2000
    here.write("sp", sp)
    here.write("s0", CALLS)
    here.uc.emu_start(here.loop, here.loop + 16)
    assert here.read("s0") == 0
    assert here.read("sp") == sp
    assert here.uc.reg_read(mips_const.UC_MIPS_REG_PC) == here.loop + 16


@pytest.mark.parametrize(("arch", "form"), CASES)
def test_many_calls_keep_sp_while_the_site_is_patched(arch: str, form: str) -> None:
    here = world(arch, form)
    port, rounds = here.port, 200
    sp = port.facts.map.host_stack + 0x2000
    compiled = bytes(here.uc.mem_read(here.ip, port.facts.sites.size))
    caller = here.label("ftrace_caller")
    mcount = port.facts.map.tracer - 0x10_0000
    through = {"kernel": 0, "stub": here.ip - 4 + 0x100}.get(form, mcount)
    stubs = {caller: np.array([through], np.uint64)} if through else {}
    row = np.frombuffer(compiled, np.uint8)[None, :]
    sites = Sites(np.array([here.ip], np.uint64), stubs, row)
    here.write("sp", sp)
    for number in range(rounds):
        verb = port.make_call if number % 2 else port.make_nop
        edit = verb(sites, caller)
        assert edit.reachable.all()
        assert here.uc.mem_read(here.ip, len(edit.row(edit.expected, 0))) == edit.row(
            edit.expected, 0
        )
        here.uc.mem_write(here.ip, edit.row(edit.replacement, 0))
        here.uc.ctl_remove_cache(here.ip, here.ip + port.facts.sites.size)
        here.write("s0", CALLS // rounds)
        here.uc.emu_start(here.loop, here.loop + 16)
        assert (here.read("s0"), here.read("sp")) == (0, sp)
