"""Properties of these ports only: registers, jump regions, mcount, typed instructions."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.arches.mips import insn
from dynftrace.arches.mips.port import MipsPort
from dynftrace.core.abi import LOCAL_PAGE_SIZE
from dynftrace.core.asm.assemble import assemble_line
from dynftrace.core.elf.image import Image
from dynftrace.core.errors import AssemblyError

from ...support.keystone import needs_keystone

REGION = 256 << 20


@pytest.fixture(params=["mips", "mipsel", "mips64"])
def port(request: pytest.FixtureRequest) -> MipsPort:
    found = arches.load(request.param)
    assert isinstance(found, MipsPort)
    return found


def test_interrupt_registers_have_the_kernels_order(port: MipsPort) -> None:
    names = [register.name for register in port.facts.abi.pt_regs]
    numbers = [register.number for register in port.facts.abi.pt_regs]
    assert names[32:] == ["hi", "lo", "pc"]
    assert numbers[:32] == [*range(numbers[0], numbers[0] + 32)]
    known = {insn.ZERO: "zero", insn.AT: "at", insn.V1: "v1", insn.SP: "sp", insn.RA: "ra"}
    assert {number: names[number] for number in known} == known
    wide = port.facts.pointer_size == 8
    assert names[8:16] == (
        ["a4", "a5", "a6", "a7", "t0", "t1", "t2", "t3"] if wide else [f"t{n}" for n in range(8)]
    )


def test_one_displacement_reaches_the_local_pages(port: MipsPort) -> None:
    assert port.facts.map.local == 2 ** (8 * port.facts.pointer_size) - 0x8000
    assert 2 * LOCAL_PAGE_SIZE <= 0x8000


def test_the_kernel_reaches_the_tracer_and_modules_do_not(port: MipsPort) -> None:
    area, kernel = port.facts.map, Image.load(port.images() / "vmlinux.elf", port.facts)
    ends = [*(section.address for section in kernel.sections if section.executable), area.tracer]
    assert len({end // REGION for end in ends}) == 1
    assert area.modules // REGION != area.tracer // REGION


def test_mcount_begins_as_the_port_expects(port: MipsPort) -> None:
    kernel = Image.load(port.images() / "vmlinux.elf", port.facts)
    mcount = kernel.symbols.address_of("_mcount")
    assert mcount is not None
    edit = port.dyn_arch_init(mcount, port.facts.map.tracer)
    found = kernel.read(mcount, 8)
    assert edit is not None and found is not None
    assert found.tobytes() == edit.expected[0].tobytes()


def test_both_byte_orders_share_one_entry_source() -> None:
    assert arches.load("mipsel").entry_source() == arches.load("mips").entry_source()
    assert arches.load("mipsel").images() != arches.load("mips").images()


@needs_keystone
@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("addiu sp, sp, -8", 0x27BD_FFF8),
        ("addiu $sp, $sp, -8", 0x27BD_FFF8),
        ("move at, ra", 0x03E0_0825),
        ("lw $a0, 16(sp)", 0x8FA4_0010),
        ("lui v1, 0x8020", 0x3C03_8020),
        ("li t9, 100", 0x2419_0064),
        ("teq zero, s8", 0x001E_0034),
        ("break", 0x0000_000D),
    ],
)
def test_a_typed_instruction_is_the_manuals_word(port: MipsPort, line: str, word: int) -> None:
    code = assemble_line(port.facts, line, port.facts.map.tracer, lambda name: None)
    assert code == insn.pack(port.facts.byteorder, word)


@needs_keystone
@pytest.mark.parametrize(("arch", "line"), [("mips", "move a4, a0"), ("mips64", "move x0, a0")])
def test_an_unknown_register_is_an_error(arch: str, line: str) -> None:
    facts = arches.load(arch).facts
    with pytest.raises(AssemblyError):
        assemble_line(facts, line, facts.map.tracer, lambda name: None)


@needs_keystone
def test_the_twelfth_register_has_two_names() -> None:
    for arch, name in (("mips", "t4"), ("mips64", "t0")):
        facts = arches.load(arch).facts
        code = assemble_line(facts, f"jalr {name}", facts.map.tracer, lambda name: None)
        assert int.from_bytes(code[:4], "big") == insn.jalr(12)
