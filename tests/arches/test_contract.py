"""What every port owes, whatever its architecture."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import pytest
from capstone import CS_GRP_CALL, Cs
from unicorn import Uc
from unicorn.unicorn_const import UC_TLB_VIRTUAL

from dynftrace import arches
from dynftrace.core.arch import Edit, Port, Sites
from dynftrace.core.assemble import assemble
from dynftrace.core.elf.image import Image
from dynftrace.core.facts import Register
from dynftrace.core.ftrace.entry import NEEDED
from dynftrace.core.ftrace.sites import call_sites

PAGE = 4096
SIZE = 16 * PAGE

REACH_EVERYTHING = {"i386"}
"""Ports on which a call has as many bits for a distance as an address has."""


@pytest.fixture(params=arches.names())
def port(request: pytest.FixtureRequest) -> Port:
    return arches.load(request.param)


@pytest.fixture
def kernel(port: Port) -> Image:
    return Image.load(port.images() / "vmlinux.elf", port.facts)


@pytest.fixture
def sites(port: Port, kernel: Image) -> Sites:
    """The kernel's own call sites."""
    ips = call_sites(port, kernel, reader(kernel))
    assert len(ips) > 100
    return Sites(ips, compiled=texts(kernel, ips, port.facts.sites.size))


def reader(image: Image):
    def read(address: int, size: int) -> bytes:
        found = image.read(address, size)
        assert found is not None
        return found.tobytes()

    return read


def texts(image: Image, ips: np.ndarray, width: int) -> np.ndarray:
    return np.array([np.frombuffer(reader(image)(int(ip), width), np.uint8) for ip in ips])


def engine(port: Port, base: int) -> Uc:
    """An emulator with memory at `base`."""
    uc = Uc(port.facts.engine.uc_arch, port.facts.engine.uc_mode)
    uc.ctl_set_tlb_mode(UC_TLB_VIRTUAL)
    uc.mem_map(base, SIZE)
    return uc


def run_to(uc: Uc, port: Port, start: int, end: int) -> None:
    """Run from `start` until pc is `end`, an instruction at a time.

    On some architectures the engine's own `until` leaves pc where its block begins.
    """
    at = start
    for _ in range(1000):
        uc.emu_start(at, 0, count=1)
        at = uc.reg_read(port.facts.abi.pc.number)
        if at == end:
            return


def put(uc: Uc, port: Port, registers: Mapping[str, int], stores: tuple = ()) -> None:
    numbers = {register.name: register.number for register in everything(port)}
    for name, value in registers.items():
        uc.reg_write(numbers[name], value)
    for address, data in stores:
        uc.mem_write(address, data)


def everything(port: Port) -> list[Register]:
    abi = port.facts.abi
    return [abi.pc, abi.sp, abi.result, *abi.arguments, *abi.pt_regs, *filter(None, [abi.link])]


def is_call(port: Port, text: bytes, ip: int) -> bool:
    """Whether Capstone sees a call first in `text`."""
    decoder = Cs(port.facts.engine.cs_arch, port.facts.engine.cs_mode)
    decoder.detail = True
    insn = next(decoder.disasm(text, ip))
    return insn.group(CS_GRP_CALL) or insn.mnemonic in port.facts.engine.cs_calls


def check(edit: Edit, count: int) -> None:
    assert edit.expected.shape == edit.replacement.shape == (count, edit.expected.shape[1])
    assert edit.expected.dtype == edit.replacement.dtype == np.uint8
    assert edit.address.shape == edit.reachable.shape == (count,)


# Facts


def test_the_facts_fit_together(port: Port) -> None:
    facts = port.facts
    assert facts.name in arches.names()
    assert facts.byteorder in ("little", "big")
    assert facts.pointer_size in (4, 8)
    assert set(facts.patch_methods) <= {"stop_machine", "breakpoint", "none"}
    assert ("breakpoint" in facts.patch_methods) == (facts.breakpoint is not None)
    assert facts.sites.size % facts.insn_align == 0
    names = [register.name for register in facts.abi.pt_regs]
    assert len(names) == len(set(names))
    assert {facts.abi.pc.name, facts.abi.sp.name, facts.abi.result.name} <= set(names)
    assert {register.name for register in facts.abi.arguments} <= set(names)


def test_the_address_map_is_aligned_and_fits_a_pointer(port: Port) -> None:
    area = port.facts.map
    values = [getattr(area, entry.name) for entry in dataclasses.fields(area)]
    assert all(value % PAGE == 0 for value in values)
    assert all(0 <= value < 1 << (8 * port.facts.pointer_size) for value in values)
    assert len(set(values)) == len(values)
    assert area.modules < area.modules_end


def test_the_engines_open(port: Port) -> None:
    uc = engine(port, port.facts.map.tracer)
    for register in everything(port):
        uc.reg_read(register.number)
    Cs(port.facts.engine.cs_arch, port.facts.engine.cs_mode)


# Records


def test_the_images_are_there(port: Port) -> None:
    for name in ("vmlinux.elf", "tracer.o", "usbcore.ko", "usbhub.ko", "crashy.ko"):
        Image.load(port.images() / name, port.facts)


def test_every_site_of_the_kernel_lies_in_a_function(
    port: Port, kernel: Image, sites: Sites
) -> None:
    symbols = kernel.symbols
    rows = symbols.by_address
    starts = symbols.address[rows]
    at = np.searchsorted(starts, sites.ip, "right") - 1
    assert symbols.functions[rows[at]].all()
    assert np.unique(at).size == len(sites), "one site a function"


# Patching


def test_each_compiled_site_becomes_a_nop_and_a_call_and_a_nop(
    port: Port, kernel: Image, sites: Sites
) -> None:
    count = len(sites)
    mcount = kernel.symbols.address_of(port.facts.sites.mcount_symbols[0])
    caller = port.facts.map.tracer
    first = port.init_nop(sites, mcount)
    check(first, count)
    assert first.reachable.all()
    assert (first.expected == texts(kernel, sites.ip, first.expected.shape[1])).all()
    enable, disable = port.make_call(sites, caller), port.make_nop(sites, caller)
    check(enable, count)
    check(disable, count)
    assert (enable.expected == disable.replacement).all()
    assert (enable.replacement == disable.expected).all()
    assert (first.replacement == enable.expected).all()
    assert (enable.replacement != enable.expected).any(axis=1).all()
    for row in range(0, count, 25):
        address, text = int(enable.address[row]), enable.replacement[row].tobytes()
        assert port.call_target(address, text) == caller
        assert port.call_target(address, enable.expected[row].tobytes()) is None
        assert is_call(port, text, address)
        assert not is_call(port, enable.expected[row].tobytes(), address)


def test_one_site_and_many_are_encoded_alike(port: Port, sites: Sites) -> None:
    caller = port.facts.map.tracer
    many = port.make_call(sites, caller)
    for row in (0, len(sites) - 1):
        one = port.make_call(
            Sites(sites.ip[row : row + 1], compiled=sites.compiled[row : row + 1]), caller
        )
        assert one.row(one.replacement, 0) == many.row(many.replacement, row)
    check(port.make_call(Sites(sites.ip[:0]), caller), 0)


def test_a_call_is_modified_from_one_target_to_another(port: Port, sites: Sites) -> None:
    old, new = port.facts.map.tracer, port.facts.map.tracer + 0x40
    edit = port.modify_call(sites, old, new)
    check(edit, len(sites))
    assert (edit.expected == port.make_call(sites, old).replacement).all()
    assert (edit.replacement == port.make_call(sites, new).replacement).all()


def test_what_is_out_of_reach_is_said_to_be(port: Port, sites: Sites) -> None:
    far = 0x1000 if port.facts.pointer_size == 4 else 0x1000_0000_0000
    edit = port.make_call(sites, far)
    assert (edit.reachable == (port.facts.name in REACH_EVERYTHING)).all()
    for address, text in zip(edit.address, edit.replacement, strict=True):
        leads_there = port.call_target(int(address), text.tobytes()) == far
        assert leads_there == (port.facts.name in REACH_EVERYTHING)


def test_a_verb_leaves_its_arguments_alone(port: Port, sites: Sites) -> None:
    before = sites.ip.copy()
    port.make_call(sites, port.facts.map.tracer)
    port.call_adjust(sites.ip)
    assert (sites.ip == before).all()


# Entry code


def test_entry_code_has_its_labels_and_a_slot_that_calls_the_stub(port: Port) -> None:
    base = port.facts.map.tracer
    entry = assemble(port.facts, port.entry_source(), base, lambda name: None)
    assert set(NEEDED) <= entry.symbols.keys()
    slot = base + entry.symbols["ftrace_call"]
    stub = base + entry.symbols["ftrace_stub"]
    edit = port.update_ftrace_func(slot, stub, base + 0x800)
    at = int(edit.address[0]) - base
    assert entry.code[at : at + edit.expected.shape[1]] == edit.expected[0].tobytes()
    assert port.call_target(slot, edit.replacement[0].tobytes()) == base + 0x800


def test_an_enabled_site_leaves_everything_as_a_disabled_one_does(
    port: Port, kernel: Image, sites: Sites
) -> None:
    """Runs functions from their start to behind the site, once each way, and compares."""
    facts, base = port.facts, port.facts.map.tracer
    entry = assemble(facts, port.entry_source(), base, lambda name: None)
    caller = base + entry.symbols["ftrace_caller"]
    symbols = kernel.symbols
    starts = symbols.address[symbols.by_address]
    edit = port.make_call(sites, caller)
    for row in range(0, len(sites), 40):
        forms = edit.row(edit.expected, row), edit.row(edit.replacement, row)
        ip, end = int(sites.ip[row]), int(edit.address[row]) + len(forms[0])
        start = int(starts[np.searchsorted(starts, sites.ip[row], "right") - 1])
        seen = []
        for text in forms:
            uc = engine(port, base)
            page = start // PAGE * PAGE
            uc.mem_map(page, 2 * PAGE)
            uc.mem_write(start, reader(kernel)(start, end - start))
            uc.mem_write(int(edit.address[row]), text)
            uc.mem_write(base, entry.code)
            values = {r.name: 0x1000 + number for number, r in enumerate(facts.abi.pt_regs)}
            call = port.enter_call(start, [1, 2, 3, 4], base + 8 * PAGE, base + 12 * PAGE)
            put(uc, port, {**values, **call.registers}, call.stores)
            run_to(uc, port, start, end)
            seen.append({r.name: uc.reg_read(r.number) for r in facts.abi.pt_regs})
            assert uc.reg_read(facts.abi.pc.number) == end, hex(ip)
        nop, called = ({k: v for k, v in s.items() if k not in facts.sites.clobbers} for s in seen)
        assert nop == called, hex(ip)


# Running


def test_a_call_the_machine_makes_begins_and_returns_as_the_abi_says(port: Port) -> None:
    facts, base = port.facts, port.facts.map.tracer
    entry = assemble(facts, port.entry_source(), base, lambda name: None)
    uc = engine(port, base)
    uc.mem_write(base, entry.code)
    stub, back = base + entry.symbols["ftrace_stub"], base + 12 * PAGE
    count = min(4, len(facts.abi.arguments))
    effect = port.enter_call(stub, [0x11 * (n + 1) for n in range(count)], base + 8 * PAGE, back)
    put(uc, port, effect.registers, effect.stores)
    for number, register in enumerate(facts.abi.arguments[:count]):
        assert uc.reg_read(register.number) == 0x11 * (number + 1)
    uc.emu_start(effect.registers[facts.abi.pc.name], back)
    assert uc.reg_read(facts.abi.pc.number) == back
    assert uc.reg_read(facts.abi.sp.number) % facts.abi.stack_align == 0


def test_too_many_arguments_are_refused(port: Port) -> None:
    with pytest.raises(ValueError, match="at most"):
        port.enter_call(0x1000, range(20), 0x8000, 0x2000)


def test_emulating_a_site_is_what_running_it_does(port: Port) -> None:
    facts, base = port.facts, port.facts.map.tracer
    ip = base + PAGE
    site = Sites(np.array([ip], np.uint64))
    edit = port.make_call(site, base + 2 * PAGE)
    sp = base + 8 * PAGE
    for text in (edit.expected[0].tobytes(), edit.replacement[0].tobytes()):
        ran, done = engine(port, base), engine(port, base)
        for uc in (ran, done):
            uc.mem_write(ip, text)
            put(uc, port, {facts.abi.pc.name: ip, facts.abi.sp.name: sp})
        stop = port.call_target(ip, text) or ip + len(text)
        run_to(ran, port, ip, stop)
        effect = port.emulate({facts.abi.pc.name: ip, facts.abi.sp.name: sp}, ip, text)
        put(done, port, effect.registers, effect.stores)
        for register in everything(port):
            assert ran.reg_read(register.number) == done.reg_read(register.number), register.name
        assert ran.mem_read(base, SIZE) == done.mem_read(base, SIZE)


def test_emulate_refuses_what_is_no_site(port: Port) -> None:
    registers = {port.facts.abi.pc.name: 0x1000, port.facts.abi.sp.name: 0x2000}
    with pytest.raises(ValueError, match="no call site"):
        port.emulate(registers, 0x1000, b"\xff" * port.facts.sites.size)


def test_the_address_behind_a_call_is_a_return_address(port: Port, sites: Sites) -> None:
    edit = port.make_call(sites, port.facts.map.tracer)
    decoder = Cs(port.facts.engine.cs_arch, port.facts.engine.cs_mode)
    call = next(decoder.disasm(edit.replacement[0].tobytes(), int(edit.address[0])))
    pad = bytes(port.facts.max_insn_size)
    text = edit.replacement[0].tobytes()
    size = call.size * (2 if port.has_delay_slot(text) else 1)
    assert port.is_return_address((pad + text[:size])[-port.facts.max_insn_size :])
    assert not port.is_return_address(pad)


# Modules


def test_relocation_types_have_names(port: Port, kernel: Image) -> None:
    module = Image.load(port.images() / "usbcore.ko", port.facts)
    kinds = np.unique(np.concatenate([table.kind for table in module.relocations()]))
    for kind in kinds.tolist():
        assert port.relocation_name(kind).startswith("R_")
    assert str(0xABCD) in port.relocation_name(0xABCD)
