"""The verbs of both ports: direct calls, calls through stubs, refusals."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynftrace.arches.powerpc.port import PowerPort
from dynftrace.arches.powerpc.ppc32 import port as ppc32
from dynftrace.arches.powerpc.ppc64 import port as ppc64
from dynftrace.core.arch import Edit, Sites

REACH = 32 << 20
OBJDUMP = "powerpc64-linux-gnu-objdump"
BL, NOP, LD_R2 = "48000001", "60000000", "e8410028"

PORTS = {"ppc64": ppc64.port(), "ppc32": ppc32.port()}


@pytest.fixture(params=PORTS)
def port(request: pytest.FixtureRequest) -> PowerPort:
    return PORTS[request.param]


def array(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def words(text: np.ndarray) -> list[str]:
    return [text.tobytes()[at : at + 4].hex() for at in range(0, len(text), 4)]


def world(port: PowerPort) -> tuple[int, int, int]:
    """Return the start of the kernel, the start of modules, and ftrace_caller."""
    area = port.facts.map
    return area.tracer - 0x100_0000, area.modules, area.tracer + 0x40


def test_sites_of_the_kernel_are_encoded(port: PowerPort) -> None:
    kernel, _, caller = world(port)
    mcount = kernel + 0x100
    sites = Sites(array(kernel + 0x200, kernel + 0x10))
    first = port.init_nop(sites, mcount)
    after = [NOP] * (port.facts.sites.size // 4 - 1)
    assert words(first.expected[0]) == ["4bffff01", *after]
    assert words(first.expected[1]) == ["480000f1", *after]
    assert words(first.replacement[0]) == [NOP, *after]
    call = port.make_call(sites, caller)
    assert words(call.replacement[0]) == ["48fffe41", *after]
    assert (call.expected == first.replacement).all()
    for edit in (first, call, port.make_nop(sites, caller)):
        assert edit.reachable.all()
        assert [via.tolist() for via in edit.via] == [[0, 0]]


def test_sites_of_a_module_go_through_its_stubs(port: PowerPort) -> None:
    _, module, caller = world(port)
    other = module + 4 * REACH
    sites = Sites(
        array(module + 0x100, other + 0x100, module + 0x200, module + 0x200),
        {caller: array(module + 0x1000, other + 0x2000, 0, module + 4 * REACH)},
    )
    edit = port.make_call(sites, caller)
    after = [LD_R2] if port.facts.sites.size == 8 else []
    assert words(edit.replacement[0]) == ["48000f01", *after]
    assert words(edit.replacement[1]) == ["48001f01", *after]
    assert edit.reachable.tolist() == [True, True, False, False]  # no stub; a stub too far
    assert not edit.replacement[2:].any()
    assert [via.tolist() for via in edit.via] == [[module + 0x1000, other + 0x2000, 0, 0]]
    undo = port.make_nop(sites, caller)
    assert (undo.expected == edit.replacement).all()
    assert (undo.replacement == edit.expected).all()
    assert [via.tolist() for via in undo.via] == [via.tolist() for via in edit.via]


def test_changing_the_target_involves_both_stubs(port: PowerPort) -> None:
    _, module, caller = world(port)
    old, new = caller, caller + 0x80
    sites = Sites(array(module), {old: array(module + 64), new: array(module + 128)})
    edit = port.modify_call(sites, old, new)
    assert edit.reachable.all()
    assert [via.tolist() for via in edit.via] == [[module + 64], [module + 128]]
    assert (edit.expected == port.make_call(sites, old).replacement).all()
    assert (edit.replacement == port.make_call(sites, new).replacement).all()
    assert not port.modify_call(sites, old, new + 4).reachable.any()


@pytest.mark.parametrize(("name", "by_stub"), [("ppc64", True), ("ppc32", False)])
def test_only_ppc64_uses_a_stub_for_a_target_within_reach(name: str, by_stub: bool) -> None:
    port = PORTS[name]
    kernel = port.facts.map.tracer - 0x100_0000
    stub = kernel + 0x1000
    sites = Sites(array(kernel), {kernel + 0x800: array(stub)})
    edit = port.make_call(sites, kernel + 0x800)
    assert edit.via[0].tolist() == [stub if by_stub else 0]
    assert port.call_target(kernel, edit.replacement[0].tobytes()) == (
        stub if by_stub else kernel + 0x800
    )


def test_the_slot_is_one_word(port: PowerPort) -> None:
    slot = port.facts.map.tracer + 0x80
    edit = port.update_ftrace_func(slot, slot + 0x40, slot - 0x40)
    assert edit.reachable.all()
    assert words(edit.expected[0]) == ["48000041"]
    assert words(edit.replacement[0]) == ["4bffffc1"]


@given(data=st.data())
@pytest.mark.parametrize("name", PORTS)
def test_many_sites_are_encoded_as_if_one_by_one(name: str, data: st.DataObject) -> None:
    port = PORTS[name]
    kernel, module, caller = world(port)
    near = st.integers(0, 0x4000).map(lambda n: 4 * n)
    ips = data.draw(st.lists(near, min_size=1, max_size=8))
    modular = data.draw(st.lists(st.booleans(), min_size=len(ips), max_size=len(ips)))
    offsets = data.draw(st.lists(near, min_size=len(ips), max_size=len(ips)))
    ip = array(*[(module if m else kernel) + at for at, m in zip(ips, modular, strict=True)])
    stub = array(*[module + at if m else 0 for at, m in zip(offsets, modular, strict=True)])
    sites = Sites(ip, {caller: stub})
    many = port.make_call(sites, caller)
    for row in range(len(ips)):
        one = port.make_call(Sites(ip[row : row + 1], {caller: stub[row : row + 1]}), caller)
        assert same(one, many, row)


def same(one: Edit, many: Edit, row: int) -> bool:
    return (
        one.replacement[0].tobytes() == many.replacement[row].tobytes()
        and one.expected[0].tobytes() == many.expected[row].tobytes()
        and one.reachable[0] == many.reachable[row]
        and one.via[0][0] == many.via[0][row]
    )


def test_no_sites_give_an_empty_edit(port: PowerPort) -> None:
    edit = port.make_call(Sites(array()), port.facts.map.tracer)
    assert edit.replacement.shape == (0, port.facts.sites.size)
    assert [via.shape for via in edit.via] == [(0,)]


# The kernel's messages about unknown text

IP = 0xC000_0000_0000_0100
EXPLAINED = {
    "not a bl": (
        [BL, LD_R2],
        [NOP, LD_R2],
        "Not expected bl: opcode is 60000000",
    ),
    "a branch that does not return": (
        [BL, LD_R2],
        ["48000000", LD_R2],
        "Not expected bl: opcode is 48000000",
    ),
    "another bl": (
        [BL, NOP],
        ["48000101", NOP],
        "Expected 48000001 found 48000101",
    ),
    "no restore of r2": (
        [BL, LD_R2],
        [BL, NOP],
        "no restore of r2 (ld r2,40(r1)) after the bl: Expected e8410028 found 60000000",
    ),
    "not two nops": (
        [NOP, NOP],
        [BL, NOP],
        "Unexpected call sequence at c000000000000100: 48000001 60000000",
    ),
    "not a nop": ([NOP], [BL], "Expected NOP but have 48000001"),
    "a nop that is wrong": ([BL], ["60000001"], "Not expected bl: opcode is 60000001"),
    "out of reach": (
        [NOP, NOP],
        [NOP, NOP],
        "No ftrace trampoline: out of 24-bit reach (+-32 MB), and the record has no module with a "
        "stub of it",
    ),
    "never in reach": (
        ["00000000", "00000000"],
        [BL, NOP],
        "No ftrace trampoline: out of 24-bit reach (+-32 MB), and the record has no module with a "
        "stub of it",
    ),
    "unreadable": ([BL, NOP], [], ""),
}


@pytest.mark.parametrize(("expected", "found", "why"), EXPLAINED.values(), ids=EXPLAINED)
def test_a_refusal_is_explained(expected: list[str], found: list[str], why: str) -> None:
    texts = [bytes.fromhex("".join(each)) for each in (expected, found)]
    assert PORTS["ppc64"].explain(IP, *texts) == why


# Single instructions


def test_the_target_of_text_is_decoded(port: PowerPort) -> None:
    kernel, _, _ = world(port)
    assert port.call_target(kernel, bytes.fromhex("48000101 60000000")) == kernel + 0x100
    assert port.call_target(kernel, bytes.fromhex("48000100")) == kernel + 0x100
    assert (
        port.call_target(kernel, bytes.fromhex("4bfffffe"))
        == 2 ** (8 * port.facts.pointer_size) - 4
    )
    assert port.call_target(kernel, bytes.fromhex(NOP)) is None
    assert port.call_target(kernel, b"\x48\0\0") is None


def test_only_the_forms_of_a_site_are_emulated(port: PowerPort) -> None:
    after = [NOP, LD_R2] if port.facts.sites.size == 8 else [""]
    for each in after:
        effect = port.emulate({}, 0x1000, bytes.fromhex(BL + each))
        assert effect.registers == {"nip": 0x1000, "lr": 0x1004}
    legal = {BL + each for each in after} | {NOP * (port.facts.sites.size // 4)}
    for text in (BL, "48000000", BL + BL, NOP + LD_R2, LD_R2, BL + NOP, ""):
        if text not in legal:
            with pytest.raises(ValueError, match="no call site has the text"):
                port.emulate({}, 0x1000, bytes.fromhex(text))


def test_a_call_begins_with_a_frame_that_ends_the_chain(port: PowerPort) -> None:
    abi, width = port.facts.abi, port.facts.pointer_size
    effect = port.enter_call(0x1000, [-1, *range(1, 8)], 0x8008, 0x2000)
    sp = effect.registers["r1"]
    assert sp % abi.stack_align == 0
    assert 0x8008 - 2 * abi.stack_align < sp + abi.call_frame <= 0x8008
    assert effect.stores == ((sp, bytes(width)),)
    assert effect.registers["nip"] == 0x1000
    assert effect.registers["lr"] == 0x2000
    assert effect.registers["r3"] == 2 ** (8 * width) - 1
    assert [effect.registers[f"r{number}"] for number in range(4, 11)] == [*range(1, 8)]


@pytest.mark.parametrize("text", ["48000001", "4e800421", "4e800021", "429f0005"])
def test_an_address_after_a_call_is_a_return_address(port: PowerPort, text: str) -> None:
    assert port.is_return_address(bytes.fromhex(text))


@pytest.mark.parametrize("text", ["48000000", "4e800020", "4e800420", NOP, "0001"])
def test_an_address_after_anything_else_is_not_a_return_address(port: PowerPort, text: str) -> None:
    assert not port.is_return_address(bytes.fromhex(text))


@pytest.mark.skipif(which(OBJDUMP) is None, reason=f"{OBJDUMP} is not installed")
def test_objdump_decodes_the_sites_of_a_module(tmp_path: Path) -> None:
    port = PORTS["ppc64"]
    _, module, caller = world(port)
    sites = Sites(array(module), {caller: array(module + 0x1000)})
    path = tmp_path / "code"
    path.write_bytes(port.make_call(sites, caller).replacement[0].tobytes())
    command = [OBJDUMP, "-D", "-b", "binary", "-m", "powerpc:common64", "-EB", str(path)]
    run = [*command, f"--adjust-vma={module:#x}"]
    output = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    lines = [" ".join(line.split("\t")[2:]) for line in output.splitlines() if "\t" in line]
    assert [" ".join(line.split()) for line in lines] == [
        f"bl {module + 0x1000:#x}",
        "ld r2,40(r1)",
    ]
