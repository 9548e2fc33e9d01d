"""The instruction that trapped, found from its block and registers after a run."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.asm.assemble import assemble
from dynftrace.core.errors import GuestOops
from dynftrace.core.machine.machine import Machine

from ...support.keystone import needs_keystone

pytestmark = needs_keystone

CODE = {
    "break": ("nop\nbreak\nnop", 1),
    "none": ("nop\nnop\n.word 0x4c00003f", 2),
    "a break in a delay slot": ("nop\nb here\nbreak\nnop", 2),
    "a trap that is always one": ("nop\nteq $zero, $zero", 1),
    "a division": ("teq $a0, $zero\nteq $a1, $zero\nnop", 1),
    "the other conditions": ("tne $a1, $zero\ntlt $a0, $a1\ntgeu $a1, $a0\ntltu $a1, $a0\nnop", 3),
    "signed and not": ("tge $a2, $zero\ntlt $zero, $a2\ntgeu $a2, $zero\nnop", 2),
    "a trap with an immediate": (".word 0x048e0003\n.word 0x048c0003\nnop", 1),  # tnei, teqi a0
    "a load": ("lw $t0, 0($a3)\nlw $t0, 2($a3)\nlw $t0, 4($a3)", 1),
    "a load of a half": ("lbu $t0, 1($a3)\nlhu $t0, 3($a3)\nnop", 1),
    "a store": ("sw $t0, 0($a3)\nlw $t0, 0($a3)\nsh $t0, 1($a3)\nnop", 2),
    "an overflow": ("addiu $t0, $t1, 0x7000\naddi $t0, $a0, 1\naddi $t0, $t1, 0x7000\nnop", 2),
    "a sum": ("add $t0, $a0, $a0\nadd $t0, $t1, $t1\nnop", 1),
    "a difference": ("sub $t0, $a0, $a1\nsub $t0, $t2, $t1\nnop", 1),
}
REGISTERS = {"a0": 3, "a1": 0, "a2": -1, "t1": 0x7FFF_FFF0, "t2": -(2**31)}


def ended(arch: str, code: str) -> tuple[GuestOops, int, int]:
    """Return the oops that ends `code`, the address of the code, and that of the data at a3."""
    port = arches.load(arch)
    machine = Machine(port, cpus=1)
    base, data = port.facts.map.tracer, port.facts.map.direct_map
    machine.memory.map(base, 4096, "code")
    machine.memory.map(data, 4096, "data")
    source = f".set noreorder\n.set noat\n{code}\nhere: b here\nnop"
    machine.memory.write(base, assemble(port.facts, source, base, lambda name: None).code)
    machine.start(base, data + 2048)
    machine.set_registers(0, {**REGISTERS, "a3": data})
    machine.run(1000)
    (oops,) = machine.oopses
    return oops, base, data


@pytest.mark.parametrize("arch", ["mips", "mipsel", "mips64"])
@pytest.mark.parametrize("name", CODE)
def test_the_instruction_that_trapped_is_found(arch: str, name: str) -> None:
    code, row = CODE[name]
    oops, base, _ = ended(arch, code)
    assert oops.pc == base + 4 * row


@pytest.mark.parametrize("arch", ["mips", "mipsel", "mips64"])
def test_a_jump_to_an_unaligned_address_is_found(arch: str) -> None:
    oops, _, data = ended(arch, "addiu $a3, $a3, 6\njr $a3\nnop")
    assert oops.pc == data + 6


@pytest.mark.parametrize("arch", ["mips", "mipsel", "mips64"])
def test_a_jump_to_an_odd_address_is_an_address_error_not_mips16(arch: str) -> None:
    oops, _, _ = ended(arch, "bal .+8\nnop\naddiu $ra, $ra, 17\njr $ra\nnop\nnop\nnop\nnop")
    assert str(oops).startswith("Address Error"), oops
