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
from dynftrace.core.arch import Edit, EntryCode, Port, Sites
from dynftrace.core.assemble import assemble
from dynftrace.core.elf.image import Image
from dynftrace.core.facts import Register
from dynftrace.core.ftrace.entry import CALLER, NEEDED, REGS_CALLER, SLOTS
from dynftrace.core.ftrace.sites import call_sites, calls_of_mcount

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
    if port.facts.discovery[0] != "table":
        ips = calls_of_mcount(port, kernel, reader(kernel))
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


def callers(port: Port) -> tuple[EntryCode, list[str]]:
    """The entry code at its place, and which callers it has."""
    entry = assemble(port.facts, port.entry_source(), port.facts.map.tracer, lambda name: None)
    return entry, [name for name in SLOTS if name in entry.symbols]


def called(port: Port, kernel: Image, start: int, end: int, entry: EntryCode) -> Uc:
    """An engine that is to enter the function at `start`, of which the text up to `end` is there.

    Each register has a value of its own, but for those of the CPU's state, which are not 0
    in an engine that has done nothing.
    """
    facts, base = port.facts, port.facts.map.tracer
    uc = engine(port, base)
    uc.mem_map(start // PAGE * PAGE, 2 * PAGE)
    uc.mem_write(start, reader(kernel)(start, end - start))
    uc.mem_write(base, entry.code)
    values = {
        r.name: 0x1000 + number
        for number, r in enumerate(facts.abi.pt_regs)
        if not uc.reg_read(r.number)
    }
    call = port.enter_call(start, [1, 2, 3, 4], base + 8 * PAGE, base + 12 * PAGE)
    put(uc, port, {**values, **call.registers}, call.stores)
    return uc


def argument(port: Port, uc: Uc, number: int) -> int:
    """Argument `number`, from 0, of the call at pc."""
    abi, size = port.facts.abi, port.facts.pointer_size
    if number < len(abi.arguments):
        return uc.reg_read(abi.arguments[number].number)
    at = uc.reg_read(abi.sp.number) + abi.call_frame + (number - len(abi.arguments)) * size
    return int.from_bytes(uc.mem_read(at, size), port.facts.byteorder)


def everything(port: Port) -> list[Register]:
    abi = port.facts.abi
    return [abi.pc, abi.sp, abi.result, *abi.arguments, *abi.pt_regs, *filter(None, [abi.link])]


def start_of(kernel: Image, ip: int) -> int:
    """Where the function begins that the site `ip` is in."""
    starts = kernel.symbols.address[kernel.symbols.by_address]
    return int(starts[np.searchsorted(starts, np.uint64(ip), "right") - 1])


def is_call(port: Port, text: bytes, ip: int) -> bool:
    """Whether Capstone sees a call first in `text`."""
    decoder = Cs(port.facts.engine.cs_arch, port.facts.engine.cs_mode)
    decoder.detail = True
    insn = next(decoder.disasm(text, ip))
    return insn.group(CS_GRP_CALL) or insn.mnemonic in port.facts.engine.cs_calls


def call_offset(port: Port, edit: Edit, row: int) -> int:
    """Where in a site the call is: the first instruction that an edit changes."""
    first = int(np.argmax(edit.expected[row] != edit.replacement[row]))
    return first // port.facts.insn_align * port.facts.insn_align


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
    assert facts.discovery and set(facts.discovery) <= {"table", "ftraced"}
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
        at = call_offset(port, enable, row)
        assert is_call(port, text[at:], address + at)
        assert not is_call(port, enable.expected[row, at:].tobytes(), address + at)


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


def test_entry_code_has_its_labels_and_slots_that_call_the_stub(port: Port) -> None:
    base = port.facts.map.tracer
    entry, _ = callers(port)
    assert set(NEEDED) <= entry.symbols.keys()
    stub = base + entry.symbols["ftrace_stub"]
    for name in SLOTS.values():
        if name not in entry.symbols:
            continue
        slot = base + entry.symbols[name]
        edit = port.update_ftrace_func(slot, stub, base + 0x800)
        at = int(edit.address[0]) - base
        assert entry.code[at : at + edit.expected.shape[1]] == edit.expected[0].tobytes()
        assert port.call_target(slot, edit.replacement[0].tobytes()) == base + 0x800


def test_an_enabled_site_leaves_everything_as_a_disabled_one_does(
    port: Port, kernel: Image, sites: Sites
) -> None:
    """Runs functions from their start to behind the site, each way once, and compares."""
    facts, base = port.facts, port.facts.map.tracer
    entry, names = callers(port)
    edits = [port.make_call(sites, base + entry.symbols[name]) for name in names]
    for row in range(0, len(sites), 40):
        nop, address = edits[0].row(edits[0].expected, row), int(edits[0].address[row])
        forms = [nop, *(edit.row(edit.replacement, row) for edit in edits)]
        ip, end = int(sites.ip[row]), address + len(nop)
        seen = []
        for text in forms:
            uc = called(port, kernel, start_of(kernel, ip), end, entry)
            uc.mem_write(address, text)
            run_to(uc, port, start_of(kernel, ip), end)
            seen.append({r.name: uc.reg_read(r.number) for r in facts.abi.pt_regs})
            assert uc.reg_read(facts.abi.pc.number) == end, hex(ip)
        kept = [{k: v for k, v in s.items() if k not in facts.sites.clobbers} for s in seen]
        assert all(each == kept[0] for each in kept), hex(ip)


def test_ftrace_regs_caller_hands_the_tracer_the_registers_of_the_site(
    port: Port, kernel: Image, sites: Sites
) -> None:
    """Those before the site; pc may be behind it, and a link register is the caller's own."""
    facts, base = port.facts, port.facts.map.tracer
    entry, names = callers(port)
    if REGS_CALLER not in names:
        assert names == [CALLER]
        return
    slot = base + entry.symbols.get(SLOTS[REGS_CALLER], entry.symbols[SLOTS[CALLER]])
    edit = port.make_call(sites, base + entry.symbols[REGS_CALLER])
    size, order = facts.pointer_size, facts.byteorder
    for row in range(0, len(sites), 40):
        ip, address = int(sites.ip[row]), int(edit.address[row])
        text = edit.row(edit.replacement, row)
        start, end = start_of(kernel, ip), address + len(text)
        uc = called(port, kernel, start, end, entry)
        uc.mem_write(address, text)
        if start != ip:
            run_to(uc, port, start, ip)
        before = {r.name: uc.reg_read(r.number) for r in facts.abi.pt_regs}
        run_to(uc, port, ip, slot)
        assert uc.reg_read(facts.abi.pc.number) == slot
        raw = uc.mem_read(argument(port, uc, 3), size * len(facts.abi.pt_regs))
        saved = {
            r.name: int.from_bytes(raw[at * size : (at + 1) * size], order)
            for at, r in enumerate(facts.abi.pt_regs)
        }
        assert ip <= saved[facts.abi.pc.name] <= end
        apart = {facts.abi.pc.name, facts.abi.link.name if facts.abi.link else ""}
        # A site may change what nobody needs there even while it is disabled.
        apart |= port.emulate(before, ip, edit.row(edit.expected, row)).registers.keys()
        assert all(saved[k] == v for k, v in before.items() if k not in apart), hex(ip)
        assert argument(port, uc, 0) == ip


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
    start = {facts.abi.pc.name: ip, facts.abi.sp.name: sp}
    if facts.abi.link is not None:
        start[facts.abi.link.name] = base + 3 * PAGE
    for text in (edit.expected[0].tobytes(), edit.replacement[0].tobytes()):
        ran, done = engine(port, base), engine(port, base)
        for uc in (ran, done):
            uc.mem_write(ip, text)
            put(uc, port, start)
        stop = port.call_target(ip, text) or ip + len(text)
        run_to(ran, port, ip, stop)
        registers = {r.name: done.reg_read(r.number) for r in facts.abi.pt_regs}
        effect = port.emulate(registers, ip, text)
        put(done, port, effect.registers, effect.stores)
        for register in everything(port):
            assert ran.reg_read(register.number) == done.reg_read(register.number), register.name
        assert ran.mem_read(base, SIZE) == done.mem_read(base, SIZE)


def test_emulate_refuses_what_is_no_site(port: Port) -> None:
    registers = {register.name: 0x1000 for register in port.facts.abi.pt_regs}
    with pytest.raises(ValueError, match="no call site"):
        port.emulate(registers, 0x1000, b"\xff" * port.facts.sites.size)


def test_the_address_behind_a_call_is_a_return_address(port: Port, sites: Sites) -> None:
    edit = port.make_call(sites, port.facts.map.tracer)
    decoder = Cs(port.facts.engine.cs_arch, port.facts.engine.cs_mode)
    text = edit.replacement[0].tobytes()
    at = call_offset(port, edit, 0)
    call = next(decoder.disasm(text[at:], int(edit.address[0]) + at))
    pad = bytes(port.facts.max_insn_size)
    size = at + call.size * (2 if port.has_delay_slot(text) else 1)
    assert port.is_return_address((pad + text[:size])[-port.facts.max_insn_size :])
    assert not port.is_return_address(pad)


# Modules


def test_relocation_types_have_names(port: Port, kernel: Image) -> None:
    module = Image.load(port.images() / "usbcore.ko", port.facts)
    kinds = np.unique(np.concatenate([table.kind for table in module.relocations()]))
    for kind in kinds.tolist():
        assert port.relocation_name(kind).startswith("R_")
    assert str(0xABCD) in port.relocation_name(0xABCD)
