"""The machine on a 32-bit big-endian guest: clock, hypercalls, interrupts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import pytest
from capstone import CS_ARCH_PPC, CS_MODE_32, CS_MODE_BIG_ENDIAN
from unicorn.ppc_const import (
    UC_PPC_REG_0,
    UC_PPC_REG_CR,
    UC_PPC_REG_CTR,
    UC_PPC_REG_LR,
    UC_PPC_REG_PC,
    UC_PPC_REG_XER,
)
from unicorn.unicorn_const import UC_ARCH_PPC, UC_MODE_32, UC_MODE_BIG_ENDIAN

from dynftrace.core import abi
from dynftrace.core.abi import TICK_NS, Hypercall
from dynftrace.core.arch import Effect, Port
from dynftrace.core.asm.assemble import assemble
from dynftrace.core.crash import Crash
from dynftrace.core.facts import Abi, AddressMap, CallSites, Engine, Facts, Register, Trap
from dynftrace.core.machine.machine import Machine
from dynftrace.core.machine.scheduler import SLICE_NS
from dynftrace.core.machine.vcpu import State

from ...support.keystone import needs_keystone

pytestmark = needs_keystone

TEXT, STACK, DATA, LOCAL = 0xC000_0000, 0xC001_0000, 0xC001_8000, 0xF000_0000
GENERAL = tuple(Register(f"r{number}", UC_PPC_REG_0 + number) for number in range(32))
PC, LR = Register("pc", UC_PPC_REG_PC), Register("lr", UC_PPC_REG_LR)
REST = (
    Register("ctr", UC_PPC_REG_CTR),
    Register("cr", UC_PPC_REG_CR),
    Register("xer", UC_PPC_REG_XER),
)

FACTS = Facts(
    name="small",
    elf_machine=20,
    pointer_size=4,
    byteorder="big",
    engine=Engine(
        uc_arch=UC_ARCH_PPC,
        uc_mode=UC_MODE_32 | UC_MODE_BIG_ENDIAN,
        cs_arch=CS_ARCH_PPC,
        cs_mode=CS_MODE_32 | CS_MODE_BIG_ENDIAN,
        ks_arch="KS_ARCH_PPC",
        ks_mode=("KS_MODE_PPC32", "KS_MODE_BIG_ENDIAN"),
        traps={96: Trap("no instruction", True, 4), 6: Trap("a trap", False, 4)},
    ),
    abi=Abi(
        pc=PC,
        sp=GENERAL[1],
        arguments=GENERAL[3:11],
        result=GENERAL[3],
        pt_regs=(*GENERAL, PC, LR, *REST),
        link=LR,
        stack_align=16,
        red_zone=0,
        call_frame=16,
    ),
    map=AddressMap(
        local=LOCAL,
        tracer=0xC100_0000,
        modules=0xD000_0000,
        modules_end=0xD100_0000,
        ring_buffer=0xE000_0000,
        direct_map=0xC200_0000,
        host_stack=0xE800_0000,
        hashes=0xE900_0000,
        hashes_end=0xEA00_0000,
    ),
    sites=CallSites(4, (), (), frozenset(), 0),
    patch_methods=("stop_machine",),
    breakpoint=None,
    nops=("nop",),
    max_insn_size=4,
    insn_align=4,
)


@dataclass(frozen=True, slots=True)
class SmallPort:
    """The part of a port that the machine needs."""

    facts: Facts = FACTS

    def enter_call(
        self, function: int, arguments: Sequence[int], sp: int, return_to: int
    ) -> Effect:
        sp = sp - sp % 16 - 16
        values = {f"r{3 + row}": value for row, value in enumerate(arguments)}
        return Effect({"pc": function, "r1": sp, "lr": return_to, **values})

    def enter_variadic(self, code: bytes, *call: object) -> None:
        pass

    def has_delay_slot(self, text: bytes) -> bool:
        return False

    def is_return_address(self, before: bytes) -> bool:
        return before[-4:-3] == b"\x4b"

    def oops(self, crash: Crash) -> tuple[str, ...]:
        address = crash.fault.address or 0
        return (f"{crash.fault.access.name} {address:#x}", *map(crash.symbol, crash.trace))


@dataclass
class Names:
    names: dict[str, int]

    def address(self, name: str, module: str | None = None) -> int | None:
        return self.names.get(name)

    def lookup(self, address: int) -> object | None:
        return address if TEXT <= address < STACK else None

    def format(self, address: int) -> str:
        return f"0x{address:x}"


def machine_with(native: bool | None, **functions: str) -> Machine:
    """Put functions 0x400 bytes apart; CPU 0 starts at the first."""
    names = Names({})
    machine = Machine(cast(Port, SmallPort()), 1, symbols=names, native_clock=native)
    machine.memory.map(TEXT, 0x20000, "kernel")
    for row, (name, source) in enumerate(functions.items()):
        address = TEXT + 0x400 * row
        machine.memory.write(address, assemble(FACTS, source, address, names.address).code)
        names.names[name] = address
    machine.start(TEXT, STACK)
    return machine


FIELDS = abi.cpu_local("big").fields or {}


def call(number: int, argument: str = "0", label: str = "s") -> str:
    """Return a hypercall with one argument register; r30 points to the CPU-local data."""
    at = {name: hex(place[1]) for name, place in FIELDS.items()}
    low = hex(FIELDS["call_arg"][1] + 4)
    return (
        f"li 31, 0; stw 31, {at['call_arg']}(30); stw {argument}, {low}(30);"
        f"li 31, {hex(number)}; stw 31, {at['call']}(30); li 31, 1; stw 31, 0(30);"
        f"{label}: lwz 31, {at['call']}(30); cmpwi 31, 0; bne {label}"
    )


LOAD_LOCAL = "lis 30, 0xf000; addi 30, 30, 0x1000"


@pytest.mark.parametrize("native", [None, False])
def test_the_clock_has_the_guests_byte_order(native: bool | None) -> None:
    machine = machine_with(native, start="lis 4, 0xf000; b n; n: lwz 5, 0(4); lwz 6, 4(4); m: b m")
    vcpu = machine.vcpus[0]
    vcpu.ticks = 0x1_2345_0000
    vcpu.run(0x1_2345_0100)
    registers = machine.registers(0)
    assert registers["r5"] == 1
    assert registers["r6"] == 0x2345_0000 + 8 + 12  # two blocks, each counted as it starts
    assert int(vcpu.clock["ticks"]) == vcpu.ticks
    assert int.from_bytes(vcpu.clock.tobytes()[:8], "big") == vcpu.ticks


@pytest.mark.parametrize("native", [None, False])
def test_hypercalls_and_interrupts_work(native: bool | None) -> None:
    on = f"li 31, 0; stw 31, {hex(FIELDS['irqs_disabled'][1])}(30)"
    machine = machine_with(
        native,
        start=f"{LOAD_LOCAL}; {on}; again: addi 20, 20, 1; {call(Hypercall.IDLE)}; b again",
        common_interrupt=(
            f"lis 30, 0xf000; addi 30, 30, 0x1000; lis 10, {hex(DATA >> 16)};"
            f"ori 10, 10, {hex(DATA & 0xFFFF)}; lwz 11, 0(10); addi 11, 11, 1; stw 11, 0(10);"
            f"li 20, 0x77; {call(Hypercall.IRET, '3')}"
        ),
    )
    machine.run(20 * TICK_NS + SLICE_NS)
    assert not machine.oopses, machine.dmesg.text()
    assert machine.vcpus[0].state is State.IDLE
    assert machine.memory.read_int(DATA) == 20
    assert machine.registers(0)["r20"] == 21
    assert machine.registers(0)["r1"] == STACK


def test_a_borrowed_call_returns_and_an_oops_is_reported() -> None:
    machine = machine_with(
        None, start="m: b m", double="add 3, 3, 4; blr", bad="lis 9, 0x4000; lwz 3, 0(9); blr"
    )
    machine.run(SLICE_NS)
    assert machine.requests.call(TEXT + 0x400, [40, 2]) == 42
    machine.set_registers(0, {"pc": TEXT + 0x800, "lr": TEXT + 0x100})
    machine.run(SLICE_NS)
    (oops,) = machine.oopses
    assert oops.report == (
        "READ 0x40000000",
        "0xc0000100",
    )  # the second comes from the link register
    assert (str(oops), oops.pc) == ("READ 0x40000000", TEXT + 0x804)


@pytest.mark.parametrize("native", [None, False])
@pytest.mark.parametrize("step", [False, True])
@pytest.mark.parametrize(
    ("insn", "reason", "back"),
    [
        (".long 0", "no instruction", 4),
        ("trap", "a trap", 4),
        ("sc", "unexpected interrupt 0x08", 0),
    ],
)
def test_an_interrupt_of_the_port_is_an_oops_at_its_instruction(
    native: bool | None, step: bool, insn: str, reason: str, back: int
) -> None:
    machine = machine_with(native, start=f"nop; {insn}; m: b m")
    if step:
        machine.step(0)
        machine.step(0)
    else:
        machine.run(SLICE_NS)
    (oops,) = machine.oopses
    assert (str(oops), oops.pc) == (reason, TEXT + 8 - back)
    assert oops.report[0] == ("ILLEGAL 0x0" if reason == "no instruction" else "OTHER 0x0")
    assert machine.vcpus[0].state is State.DEAD
    assert machine.now == 8


def test_a_return_address_saved_twice_is_shown_once() -> None:
    machine = machine_with(None, start="m: b m", bad="lis 9, 0x4000; lwz 3, 0(9); blr")
    machine.memory.write(TEXT + 0x100, b"\x4b\xff\xff\x01")
    machine.memory.write_int(STACK + 0x104, TEXT + 0x104)
    machine.set_registers(0, {"pc": TEXT + 0x400, "lr": TEXT + 0x104, "r1": STACK + 0x100})
    machine.run(SLICE_NS)
    assert machine.oopses[0].report[1:] == ("0xc0000104",)
