"""The verbs of both ports: the first change of a site, direct calls, stubs, refusals."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynftrace.arches.arm64.arm64 import port as regs
from dynftrace.arches.arm64.mcount import port as mcount
from dynftrace.arches.arm64.port import Arm64Port
from dynftrace.core.arch import Sites

OBJDUMP = "aarch64-linux-gnu-objdump"
NOP, SAVE = "d503201f", "aa1e03e9"
REACH = 128 << 20

PORTS: dict[str, Arm64Port] = {"arm64": regs.port(), "arm64-mcount": mcount.port()}


@pytest.fixture(params=PORTS)
def port(request: pytest.FixtureRequest) -> Arm64Port:
    return PORTS[request.param]


def array(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def words(text: np.ndarray) -> list[str]:
    """Return instructions as in the manual, highest bits first."""
    raw = text.tobytes()
    return [raw[at : at + 4][::-1].hex() for at in range(0, len(raw), 4)]


def world(port: Arm64Port) -> tuple[int, int, int]:
    """Return the start of the kernel, the start of far modules, and ftrace_caller."""
    assert port.facts.modules_far is not None
    return port.facts.map.modules_end, port.facts.modules_far[0], port.facts.map.tracer + 0x40


def before(port: Arm64Port) -> list[str]:
    """Return the instructions before rec.ip that the first change writes."""
    return [] if port.facts.name == "arm64-mcount" else [SAVE]


def bl(distance: int) -> str:
    """Return a `bl` to `distance` bytes from rec.ip."""
    return f"{0x94000000 | distance >> 2 & 0x3FFFFFF:08x}"


def test_sites_of_the_kernel_are_encoded(port: Arm64Port) -> None:
    kernel, _, caller = world(port)
    sites = Sites(array(kernel + 0x200, kernel + 0x10))
    first = port.init_nop(sites, kernel + 0x100)
    if before(port):
        assert [words(row) for row in first.expected] == [[NOP, NOP]] * 2
        assert first.via == ()
    else:
        assert words(first.expected[0]) == ["97ffffc0"]
        assert words(first.expected[1]) == ["9400003c"]
    assert words(first.replacement[0]) == [*before(port), NOP]
    call = port.make_call(sites, caller)
    assert words(call.replacement[0]) == [bl(caller - kernel - 0x200)]
    assert (call.expected == first.replacement[:, first.lead :]).all()
    assert first.lead == 4 * len(before(port))
    for edit in (first, call, port.make_nop(sites, caller)):
        assert edit.reachable.all()
        assert all(via.tolist() == [0, 0] for via in edit.via)
        assert edit.expected.shape == (2, 4 + edit.lead)
        assert edit.ips.tolist() == sites.ip.tolist()
        assert (edit.address + np.uint64(edit.lead)).tolist() == sites.ip.tolist()


def test_rec_ip_is_the_branch(port: Arm64Port) -> None:
    """Linux: ftrace_call_adjust() in arch/arm64."""
    lead = 4 * len(before(port))
    assert port.call_adjust(array(0x1000, 0x2000)).tolist() == [0x1000 + lead, 0x2000 + lead]


def test_init_nop_checks_the_compiled_text_not_the_distance_of_mcount() -> None:
    port = PORTS["arm64"]
    far = Sites(array(port.facts.map.local))
    assert port.init_nop(far, 0).reachable.all()


def test_far_sites_go_through_their_stubs(port: Arm64Port) -> None:
    _, module, caller = world(port)
    sites = Sites(
        array(module + 0x100, module + 0x100, module + 0x100),
        {caller: array(module + 0x1000, 0, module + 2 * REACH)},
    )
    edit = port.make_call(sites, caller)
    assert words(edit.replacement[0]) == [bl(0xF00)]
    assert edit.reachable.tolist() == [True, False, False]  # no stub; a stub too far
    assert not edit.replacement[1:].any()
    assert [via.tolist() for via in edit.via] == [[module + 0x1000, 0, 0]]
    undo = port.make_nop(sites, caller)
    assert (undo.expected == edit.replacement).all()
    assert [via.tolist() for via in undo.via] == [via.tolist() for via in edit.via]


def test_a_target_within_reach_needs_no_stub(port: Arm64Port) -> None:
    kernel, _, caller = world(port)
    edit = port.make_call(Sites(array(kernel), {caller: array(kernel + 0x1000)}), caller)
    assert port.call_target(kernel, edit.replacement[0].tobytes()) == caller
    assert edit.via[0].tolist() == [0]


def test_changing_the_target_involves_both_stubs(port: Arm64Port) -> None:
    _, module, caller = world(port)
    old, new = caller, caller + 0x80
    sites = Sites(array(module), {old: array(module + 64), new: array(module + 128)})
    edit = port.modify_call(sites, old, new)
    assert edit.reachable.all()
    assert [via.tolist() for via in edit.via] == [[module + 64], [module + 128]]
    assert (edit.expected == port.make_call(sites, old).replacement).all()
    assert (edit.replacement == port.make_call(sites, new).replacement).all()
    assert not port.modify_call(sites, old, new + 4).reachable.any()


def test_after_init_only_one_word_changes(port: Arm64Port) -> None:
    """So no CPU has to wait: DDI 0487, "Concurrent modification"."""
    kernel, _, caller = world(port)
    sites = Sites(array(kernel + 0x40))
    for edit in (
        port.make_call(sites, caller),
        port.make_nop(sites, caller),
        port.modify_call(sites, caller, caller + 0x40),
    ):
        (was,), (shall,) = words(edit.expected[0]), words(edit.replacement[0])
        assert was != shall
        assert edit.address.tolist() == sites.ip.tolist()


def test_the_slot_is_one_word(port: Arm64Port) -> None:
    slot = port.facts.map.tracer + 0x80
    edit = port.update_ftrace_func(slot, slot + 0x40, slot - 0x40)
    assert edit.reachable.all()
    assert words(edit.expected[0]) == ["94000010"]
    assert words(edit.replacement[0]) == ["97fffff0"]


@given(data=st.data())
@pytest.mark.parametrize("name", PORTS)
def test_many_sites_are_encoded_as_if_one_by_one(name: str, data: st.DataObject) -> None:
    port = PORTS[name]
    kernel, module, caller = world(port)
    near = st.integers(0, 0x4000).map(lambda n: 4 * n)
    ips = data.draw(st.lists(near.map(lambda at: kernel + at) | near.map(lambda at: module + at)))
    stubs = [data.draw(st.sampled_from([0, ip + 0x1000, ip + 2 * REACH])) for ip in ips]
    many = port.make_call(Sites(array(*ips), {caller: array(*stubs)}), caller)
    for row, (ip, stub) in enumerate(zip(ips, stubs, strict=True)):
        one = port.make_call(Sites(array(ip), {caller: array(stub)}), caller)
        assert one.replacement.tobytes() == many.replacement[row].tobytes()
        assert one.reachable[0] == many.reachable[row]
        assert one.via[0][0] == many.via[0][row]


def test_the_call_target_is_the_target_of_the_sites_branch(port: Arm64Port) -> None:
    kernel, _, caller = world(port)
    nops = port.make_call(Sites(array(kernel)), caller).expected[0].tobytes()
    assert port.call_target(kernel, nops) is None
    assert port.call_target(kernel, b"") is None
    assert port.call_target(0x1000, bytes.fromhex("02000094")) == 0x1008
    assert port.call_target(0x1000, bytes.fromhex("02000014")) == 0x1008
    assert port.call_target(0, bytes.fromhex("ffffff97")) == 2**64 - 4
    # After another instruction the branch is not the site's.
    assert port.call_target(0x1000, bytes.fromhex("e0031eaa 02000094")) is None


def test_a_site_is_emulated(port: Arm64Port) -> None:
    kernel, _, caller = world(port)
    edit = port.make_call(Sites(array(kernel)), caller)
    registers = {"pc": kernel, "x30": 0x1234}
    nop = port.emulate(registers, kernel, edit.expected[0].tobytes())
    assert nop.registers == {"pc": kernel + 4}
    call = port.emulate(registers, kernel, edit.replacement[0].tobytes())
    assert call.registers == {"pc": caller, "x30": kernel + 4}
    for wrong in ("", "00000094" * 3, "1f2003d5" * 2, "e0031eaa"):
        with pytest.raises(ValueError, match="no call site has the text"):
            port.emulate(registers, kernel, bytes.fromhex(wrong))


def test_a_refusal_is_explained(port: Arm64Port) -> None:
    kernel, module, caller = world(port)
    edit = port.make_call(Sites(array(kernel)), caller)
    nops, call = edit.expected[0].tobytes(), edit.replacement[0].tobytes()
    lost = port.make_call(Sites(array(module)), caller).replacement[0].tobytes()
    assert "no module PLT" in port.explain(module, nops, nops)
    assert "no module PLT" in port.explain(module, lost, nops)
    (found,) = words(edit.replacement[0])
    assert port.explain(kernel, nops, call) == (
        f"not the branch or nop at {kernel:x}: expected {NOP}, found {found}"
    )
    assert port.explain(kernel, nops, b"") == ""


def test_compiled_text_that_is_not_two_nops_has_its_own_explanation() -> None:
    port = PORTS["arm64"]
    kernel, _, _ = world(port)
    compiled = port.init_nop(Sites(array(kernel)), 0).expected[0].tobytes()
    assert port.explain(kernel, compiled, bytes(4) + compiled[4:]) == (
        f"not what the compiler left at {kernel:x}: expected {NOP}, found 00000000"
    )


@pytest.mark.skipif(which(OBJDUMP) is None, reason=f"no {OBJDUMP}")
def test_objdump_decodes_the_sites_as_intended(port: Arm64Port, tmp_path: Path) -> None:
    kernel, _, caller = world(port)
    edit = port.make_call(Sites(array(kernel + 4)), caller)
    (tmp_path / "site").write_bytes(edit.expected[0].tobytes() + edit.replacement[0].tobytes())
    said = subprocess.run(
        [OBJDUMP, "-D", "-b", "binary", "-m", "aarch64", f"--adjust-vma={kernel:#x}", "site"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    code = [line.split("\t")[2:] for line in said.splitlines() if line.count("\t") >= 2]
    assert code == [["nop"], ["bl", f"0x{caller:x}"]]
