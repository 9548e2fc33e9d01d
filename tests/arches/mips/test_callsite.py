"""The verbs of all ports: near calls, far calls, stubs, refusals."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which

import numpy as np
import pytest
from capstone import CS_GRP_CALL, Cs
from hypothesis import given
from hypothesis import strategies as st

from dynftrace.arches.mips.mips32 import port as mips32
from dynftrace.arches.mips.mips64 import port as mips64
from dynftrace.arches.mips.mipsel import port as mipsel
from dynftrace.arches.mips.port import MipsPort
from dynftrace.core.arch import Edit, Sites

PORTS = {"mips": mips32.port(), "mipsel": mipsel.port(), "mips64": mips64.port()}
OBJDUMP = "mips64-linux-gnuabi64-objdump"
MOVE, JALR, NOP, OVER = "03e00825", "0060f809", "00000000", "10000004"
OVER_NEAR = "10000001"
ONES = "ffffffff"


@pytest.fixture(params=PORTS)
def port(request: pytest.FixtureRequest) -> MipsPort:
    return PORTS[request.param]


class World:
    """Addresses in a port, and the instructions of its sites."""

    def __init__(self, port: MipsPort) -> None:
        high = 2 ** (8 * port.facts.pointer_size) - 2**32
        self.kernel = high + 0x8020_0000
        self.mcount = self.kernel + 0x9000  # its low half is negative
        self.module = high + 0xC000_0000
        self.caller = high + 0x8120_0040
        wide = port.facts.pointer_size == 8
        self.slot = NOP if wide else "27bdfff8"
        self.add = "6463" if wide else "2463"
        self.nops = [NOP if wide else OVER_NEAR, NOP]
        self.order = port.facts.byteorder

    def text(self, *words: str) -> np.ndarray:
        """Return words as one row of bytes."""
        raw = b"".join(int(word, 16).to_bytes(4, self.order) for word in words)
        return np.frombuffer(raw, np.uint8)

    def words(self, raw: bytes) -> list[str]:
        """Return a row of bytes as words."""
        return [
            f"{int.from_bytes(raw[at : at + 4], self.order):08x}" for at in range(0, len(raw), 4)
        ]

    @property
    def far(self) -> tuple[str, ...]:
        """Return a far call of mcount; %hi is one more because %lo is negative."""
        return "3c038021", f"{self.add}9000", MOVE, JALR, self.slot

    def near(self, jal: str) -> tuple[str, ...]:
        """Return a near call and the start of the function after it."""
        return jal, self.slot, "aaaa0001", "aaaa0002", "aaaa0003"

    def sites(self, *rows: tuple[str, ...], stubs: dict[int, list[int]] | None = None) -> Sites:
        """Return sites in a module, 32 bytes apart, compiled as `rows`."""
        ips = array(*(self.module + 32 * row for row in range(len(rows))))
        found = {target: array(*at) for target, at in (stubs or {}).items()}
        return Sites(ips, found, np.array([self.text(*row) for row in rows]))


@pytest.fixture
def world(port: MipsPort) -> World:
    return World(port)


def array(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def vias(edit: Edit) -> list[list[int]]:
    return [via.tolist() for via in edit.via]


def test_sites_of_the_kernel_are_encoded(port: MipsPort, world: World) -> None:
    sites = Sites(array(world.kernel + 0x200, world.kernel + 0x10))
    first = port.init_nop(sites, world.mcount)
    assert world.words(first.row(first.expected, 0)) == ["0c082400", world.slot]
    assert world.words(first.row(first.replacement, 0)) == world.nops
    call = port.make_call(sites, world.caller)
    assert world.words(call.row(call.replacement, 1)) == ["0c480010", world.slot]
    assert (call.expected == first.replacement).all()
    for edit in (first, call, port.make_nop(sites, world.caller)):
        assert edit.reachable.all()
        assert vias(edit) == [[0, 0]]


def test_only_the_first_word_of_a_far_site_changes(port: MipsPort, world: World) -> None:
    sites = world.sites(world.far, world.far, stubs={world.caller: [world.mcount] * 2})
    first = port.init_nop(sites, world.mcount)
    assert world.words(first.row(first.expected, 0)) == [*world.far]
    assert world.words(first.row(first.replacement, 0)) == [OVER, *world.far[1:]]
    assert vias(first) == [[0, 0]]
    call = port.make_call(sites, world.caller)
    assert (call.expected == first.replacement).all()
    assert (call.replacement == first.expected).all()
    assert call.reachable.all()
    assert vias(call) == [[world.mcount] * 2]
    undo = port.make_nop(sites, world.caller)
    assert (undo.expected == call.replacement).all() and (undo.replacement == call.expected).all()
    assert vias(undo) == vias(call)


def test_a_far_call_may_load_an_address_of_64_bits() -> None:
    """Both signs of each part; only the first of nine words changes."""
    port, world = PORTS["mips64"], World(PORTS["mips64"])
    parts = {
        0xFFFF_FFFF_8020_9000: ("0000", "8021", "0000", "9000"),
        0x9800_0001_8000_7FFC: ("9800", "8000", "0002", "7ffc"),
        0xA800_7FFF_8001_8000: ("a801", "8002", "8000", "8000"),
    }
    for mcount, (highest, high, higher, low) in parts.items():
        words = (f"3c03{highest}", f"3c01{high}", f"6463{higher}", f"6421{low}")
        wide = (*words, "0003183c", "0061182d", MOVE, JALR, NOP)
        sites = world.sites(wide, stubs={world.caller: [mcount]})
        assert port.lengths(sites).tolist() == [36]
        call = port.make_call(sites, world.caller)
        assert call.reachable.all() and vias(call) == [[mcount]]
        assert world.words(call.row(call.replacement, 0)) == [*wide]
        assert world.words(call.row(call.expected, 0)) == ["10000008", *wide[1:]]
        assert port.call_target(world.module, call.replacement[0].tobytes()) == mcount
        damaged = (*wide[:4], NOP, *wide[5:])
        assert port.lengths(world.sites(damaged)).tolist() == [8]


def test_a_far_site_calls_only_its_compiled_target(port: MipsPort, world: World) -> None:
    stubs = {world.caller: [world.mcount, world.mcount + 8, 0]}
    edit = port.make_call(world.sites(world.far, world.far, world.far, stubs=stubs), world.caller)
    assert edit.reachable.tolist() == [True, False, False]
    assert world.words(edit.row(edit.replacement, 1)) == [ONES] * 5
    assert world.words(edit.row(edit.expected, 1)) == [OVER, *world.far[1:]]
    assert vias(edit) == [[world.mcount, 0, 0]]


def test_a_near_site_of_a_module_calls_its_linked_stubs(port: MipsPort, world: World) -> None:
    tramps = world.module + 0x1000
    rows = [world.near("0c000400")] * 2
    stubs = {world.mcount: [tramps, tramps], world.caller: [tramps + 16, 0]}
    sites = world.sites(*rows, stubs=stubs)
    first = port.init_nop(sites, world.mcount)
    assert world.words(first.row(first.expected, 0)) == ["0c000400", world.slot]
    assert first.reachable.all() and vias(first) == [[tramps] * 2]
    call = port.make_call(sites, world.caller)
    assert world.words(call.row(call.replacement, 0)) == ["0c000404", world.slot]
    assert call.reachable.tolist() == [True, False]
    assert vias(call) == [[tramps + 16, 0]]
    assert world.words(call.row(call.replacement, 1)) == [ONES, ONES]


def test_a_stub_out_of_reach_is_not_used(port: MipsPort, world: World) -> None:
    sites = world.sites(world.near("0c000400"), stubs={world.caller: [world.mcount]})
    edit = port.make_call(sites, world.caller)
    assert not edit.reachable.any() and vias(edit) == [[0]]


def test_near_and_far_sites_mix(port: MipsPort, world: World) -> None:
    tramp = world.module + 0x1000
    rows = (world.far, world.near("0c000400"), world.far)
    sites = world.sites(*rows, stubs={world.caller: [world.mcount, tramp, world.mcount]})
    assert port.lengths(sites).tolist() == [20, 8, 20]
    edit = port.make_call(sites, world.caller)
    assert edit.reachable.all()
    assert [world.words(row.tobytes())[0] for row in edit.replacement] == [
        "3c038021",
        "0c000400",
        "3c038021",
    ]
    assert [world.words(row.tobytes())[0] for row in edit.expected] == [OVER, world.nops[0], OVER]


@pytest.mark.parametrize("row", range(5))
def test_half_a_far_call_is_refused(port: MipsPort, world: World, row: int) -> None:
    damaged = [*world.far[:row], "3c020000", *world.far[row + 1 :]]
    sites = world.sites(tuple(damaged))
    assert port.lengths(sites).tolist() == [8]
    assert not port.init_nop(sites, world.mcount).reachable.any()


@pytest.mark.parametrize("move", ["03e00821", "03e0082d"])
def test_a_move_encoded_as_an_add_is_accepted(port: MipsPort, world: World, move: str) -> None:
    sites = world.sites((*world.far[:2], move, *world.far[3:]))
    assert port.init_nop(sites, world.mcount).reachable.all()


def test_the_naive_nop_covers_all_of_a_call(port: MipsPort, world: World) -> None:
    naive = port.with_nop("nop")
    near = world.near("0c000400")
    stubs = {world.caller: [world.mcount, world.module + 0x1000]}
    sites = world.sites(world.far, near, stubs=stubs)
    edit = naive.make_call(sites, world.caller)
    assert world.words(edit.row(edit.expected, 0)) == [NOP] * 5
    assert world.words(edit.row(edit.replacement, 0)) == list(world.far)
    assert world.words(edit.row(edit.expected, 1)) == [NOP, NOP]
    assert world.words(edit.row(edit.replacement, 1)) == list(near[:2])
    none = Sites(sites.ip[:0], {}, sites.compiled[:0])
    assert naive.make_call(none, world.caller).expected.shape == (0, 20)
    assert naive.with_nop("b") == port
    with pytest.raises(ValueError, match="unknown nop"):
        port.with_nop("jmp")


@pytest.mark.parametrize("name", ["mips", "mipsel"])
def test_linux_removes_the_addiu_for_good(name: str) -> None:
    port, world = PORTS[name].with_nop("linux"), World(PORTS[name])
    sites = Sites(array(world.kernel + 0x200))
    first = port.init_nop(sites, world.mcount)
    assert world.words(first.row(first.expected, 0)) == ["0c082400", world.slot]
    assert world.words(first.row(first.replacement, 0)) == [NOP, NOP]
    call = port.make_call(sites, world.caller)
    assert world.words(call.row(call.replacement, 0)) == ["0c480012", NOP]
    assert (call.expected == first.replacement).all()
    far = world.sites(world.far, stubs={world.caller: [world.mcount]})
    first = port.init_nop(far, world.mcount)
    assert world.words(first.row(first.expected, 0)) == [*world.far]
    assert world.words(first.row(first.replacement, 0)) == [OVER, NOP, *world.far[2:]]
    near = world.sites(world.near("0c000400"), stubs={world.caller: [world.module + 0x1000]})
    call = port.make_call(near, world.caller)
    assert world.words(call.row(call.replacement, 0)) == ["0c000400", world.slot]
    assert world.words(call.row(call.expected, 0)) == [OVER_NEAR, NOP]


def test_a_far_site_can_be_modified_to_its_current_target(port: MipsPort, world: World) -> None:
    other = world.caller + 0x80
    stubs = {world.caller: [world.mcount], other: [world.mcount]}
    edit = port.modify_call(world.sites(world.far, stubs=stubs), world.caller, other)
    assert edit.reachable.all() and (edit.expected == edit.replacement).all()
    assert vias(edit) == [[world.mcount], [world.mcount]]
    assert not port.modify_call(world.sites(world.far), world.caller, other).reachable.any()


def test_mcount_is_patched_to_lead_to_ftrace_caller(port: MipsPort, world: World) -> None:
    edit = port.dyn_arch_init(world.mcount, world.caller)
    assert edit is not None and edit.reachable.all()
    assert edit.address.tolist() == [world.mcount]
    wide = port.facts.pointer_size == 8
    returns = ["03e00008", "0020f825"] if wide else ["27bd0008", "03e00008"]
    assert world.words(edit.row(edit.expected, 0)) == returns
    assert world.words(edit.row(edit.replacement, 0)) == ["08480010", NOP]
    assert port.call_target(world.mcount, edit.replacement[0].tobytes()) == world.caller
    far = port.dyn_arch_init(world.mcount, world.module)
    assert far is not None and not far.reachable.any()


def test_the_slot_is_one_word(port: MipsPort, world: World) -> None:
    slot = world.caller + 0x80
    edit = port.update_ftrace_func(slot, slot + 0x40, slot - 0x40)
    assert edit.reachable.all()
    assert world.words(edit.row(edit.expected, 0)) == ["0c480040"]
    assert world.words(edit.row(edit.replacement, 0)) == ["0c480020"]


@given(data=st.data())
@pytest.mark.parametrize("name", PORTS)
@pytest.mark.parametrize("nop", ["b", "nop"])
def test_many_sites_are_encoded_as_if_one_by_one(name: str, nop: str, data: st.DataObject) -> None:
    port = PORTS[name].with_nop(nop)
    world = World(PORTS[name])
    forms = (world.far, world.near("0c000400"), (*world.far[:2], *world.far[:3]))
    rows = data.draw(st.lists(st.sampled_from(forms), min_size=1, max_size=8))
    places = st.sampled_from([0, world.mcount, world.module + 0x1000, world.caller + 8])
    stubs = data.draw(st.lists(places, min_size=len(rows), max_size=len(rows)))
    sites = world.sites(*rows, stubs={world.caller: stubs})
    many = port.make_call(sites, world.caller)
    for row in range(len(rows)):
        only = slice(row, row + 1)
        found = {world.caller: array(*stubs[only])}
        one = port.make_call(Sites(sites.ip[only], found, sites.compiled[only]), world.caller)
        assert one.replacement[0].tobytes() == many.replacement[row].tobytes()
        assert one.expected[0].tobytes() == many.expected[row].tobytes()
        assert one.reachable[0] == many.reachable[row]
        assert one.via[0][0] == many.via[0][row]


def test_no_sites_give_an_empty_edit(port: MipsPort, world: World) -> None:
    edit = port.make_call(Sites(array()), world.caller)
    assert edit.replacement.shape == (0, 8)
    assert [via.shape for via in edit.via] == [(0,)]


def test_a_verb_does_not_change_its_arguments(port: MipsPort, world: World) -> None:
    sites = world.sites(world.far, world.near("0c000400"))
    before = sites.compiled.copy()
    for nop in ("b", "nop"):
        port.with_nop(nop).init_nop(sites, world.mcount)
    assert (sites.compiled == before).all()


# Why a site is refused

FAR = ["3c038020", "24630100"]
EXPLAINED = {
    "not a jal": (
        ["0c080040", "27bdfff8"],
        [NOP, "27bdfff8"],
        "Expected 0c080040, a jal to 80200100, found 00000000",
    ),
    "another delay slot": (
        ["0c080040", "27bdfff8"],
        ["0c080040", NOP],
        "Expected 27bdfff8, in the delay slot, found 00000000",
    ),
    "not a nop": (
        [NOP, NOP],
        ["0c080040", NOP],
        "Expected 00000000, a nop, found 0c080040",
    ),
    "not over the call": (
        [OVER_NEAR, NOP],
        ["0c080040", NOP],
        "Expected 10000001, the b over the call, found 0c080040",
    ),
    "not over the far call": (
        [OVER, FAR[1]],
        FAR,
        "Expected 10000004, the b over the far call, found 3c038020",
    ),
    "no far call": (
        FAR,
        [OVER, FAR[1]],
        "Expected 3c038020, the lui of a far call, found 10000004",
    ),
    "another half": (
        FAR,
        [FAR[0], "24630104"],
        "Expected 24630100, after the first word, found 24630104",
    ),
    "mcount is another": (
        ["27bd0008", "03e00008"],
        ["03e00008", "27bd0008"],
        "Expected 27bd0008 found 03e00008",
    ),
    "the jump of mcount": (
        ["08480010", NOP],
        ["27bd0008", "03e00008"],
        "Expected 08480010, a j to 81200040, found 27bd0008",
    ),
    "out of reach": (
        [NOP, NOP],
        [NOP, NOP],
        "out of reach of a jal (its own 256 MB region), and no stub leads there",
    ),
    "never in reach": (
        [ONES, ONES],
        ["0c080040", NOP],
        "out of reach of a jal (its own 256 MB region), and no stub leads there",
    ),
    "a far call of another": (
        [OVER, FAR[1]],
        [OVER, FAR[1]],
        "the far call loads another address, but only its first word may change",
    ),
    "unreadable": (["0c080040", NOP], [], ""),
}


@pytest.mark.parametrize(("expected", "found", "why"), EXPLAINED.values(), ids=EXPLAINED)
@pytest.mark.parametrize("name", ["mips", "mipsel"])
def test_a_refusal_is_explained(name: str, expected: list[str], found: list[str], why: str) -> None:
    world = World(PORTS[name])
    texts = [world.text(*each).tobytes() for each in (expected, found)]
    assert PORTS[name].explain(0x8020_0000, *texts) == why


# Single texts


def test_the_target_of_text_is_decoded(port: MipsPort, world: World) -> None:
    def target(*words: str) -> int | None:
        return port.call_target(world.kernel, world.text(*words).tobytes())

    assert target("0c080040", world.slot) == world.kernel + 0x100
    assert target("08080040") == world.kernel + 0x100
    assert target(OVER, NOP) == world.kernel + 20
    assert target(OVER, *[NOP] * 4) is None  # it continues after the text
    assert target(OVER_NEAR, NOP) is None
    assert target("1000ffff", NOP) == world.kernel
    assert target("0411fffe") == world.kernel - 4
    assert target(*world.far) == world.mcount
    assert target(*world.far[:4]) == world.mcount
    jump = ["3c088020", f"{world.add[:1]}5080100", "01000008", NOP]  # through t0
    assert target(*jump) == world.kernel + 0x100
    assert target(*jump[:2], NOP, *jump[2:]) == world.kernel + 0x100
    for words in (world.far[:2], world.far[:3], (NOP, NOP), ("00000008",), ("3c038020", NOP)):
        assert target(*words) is None
    for row in range(4):
        assert target(*world.far[:row], "8c820000", *world.far[row + 1 :]) is None
    assert target(*world.far[:3], "0040f809") is None  # through another register
    assert port.call_target(world.kernel, b"\x0c\0\0") is None


def test_call_sites_agree_with_capstone(port: MipsPort, world: World) -> None:
    engine = port.facts.engine
    decoder = Cs(engine.cs_arch, engine.cs_mode)
    decoder.detail = True

    def insns(text: np.ndarray) -> list[str]:
        found = list(decoder.disasm(text.tobytes(), world.kernel))
        return ["call" if each.group(CS_GRP_CALL) else each.mnemonic for each in found]

    assert insns(world.text(*world.far)) == [
        *("lui", "daddiu" if world.add == "6463" else "addiu"),
        *("move", "call", "nop" if world.slot == NOP else "addiu"),
    ]
    near = port.make_call(Sites(array(world.kernel)), world.caller)
    found = next(decoder.disasm(near.replacement[0].tobytes(), world.kernel))
    assert found.mnemonic in engine.cs_calls
    assert found.operands[0].imm % 2 ** (8 * port.facts.pointer_size) == world.caller


def test_only_the_forms_of_a_near_site_are_emulated(port: MipsPort, world: World) -> None:
    ip, sp = world.kernel, world.caller
    effect = port.emulate({"sp": sp}, ip, world.text("0c080040", world.slot).tobytes())
    stack = {} if world.slot == NOP else {"sp": sp - 8}
    assert effect.registers == {"pc": ip + 0x100, "ra": ip + 8, **stack}
    assert port.emulate({}, ip, bytes(8)).registers == {"pc": ip + 8}
    assert port.emulate({}, ip, world.text(*world.nops).tobytes()).registers == {"pc": ip + 8}
    for words in (
        *(("0c080040",), ("0c080040", "27bdfff0"), ("08080040", world.slot), world.far),
        *((OVER, world.far[1]), (NOP,), ()),
    ):
        with pytest.raises(ValueError, match="no call site has the text"):
            port.emulate({"sp": sp}, ip, world.text(*words).tobytes())


def test_a_call_begins_with_its_arguments_in_registers(port: MipsPort, world: World) -> None:
    abi = port.facts.abi
    count = len(abi.arguments)
    assert count == (8 if port.facts.pointer_size == 8 else 4)
    effect = port.enter_call(0x1000, [-1, *range(1, count)], 0x800C, 0x2000)
    sp = effect.registers["sp"]
    assert sp % abi.stack_align == 0
    assert 0x800C - abi.stack_align < sp + abi.call_frame <= 0x800C
    assert effect.stores == ()
    assert effect.registers["pc"] == 0x1000
    assert effect.registers["ra"] == 0x2000
    assert effect.registers["a0"] == 2 ** (8 * port.facts.pointer_size) - 1
    assert [effect.registers[f"a{number}"] for number in range(1, count)] == [*range(1, count)]


@pytest.mark.parametrize(
    ("words", "returns"),
    [
        (("0c080040", "27bdfff8"), True),
        (("0060f809", NOP), True),
        (("0411ffff", NOP), True),
        ((NOP, "0c080040"), False),  # the delay slot is there
        (("08080040", NOP), False),
        (("03e00008", NOP), False),
        (("1000ffff", NOP), False),
        ((NOP, NOP), False),
        (("0c080040",), False),
    ],
)
def test_a_call_returns_after_its_delay_slot(
    port: MipsPort, world: World, words: tuple[str, ...], returns: bool
) -> None:
    text = world.text(*words).tobytes()
    assert port.is_return_address(text) == returns
    assert port.is_return_address(bytes(4) + text) == returns


def test_a_branch_has_a_delay_slot(port: MipsPort, world: World) -> None:
    for word in ("0c080040", "03e00008", OVER):
        assert port.has_delay_slot(world.text(word, NOP).tobytes())
    assert not port.has_delay_slot(world.text(NOP, OVER).tobytes())
    assert not port.has_delay_slot(b"")


@pytest.mark.skipif(which(OBJDUMP) is None, reason=f"{OBJDUMP} is not installed")
def test_objdump_decodes_the_sites(port: MipsPort, world: World, tmp_path: Path) -> None:
    stubs = {world.caller: [world.mcount, world.module + 0x1000]}
    sites = world.sites(world.far, world.near("0c000400"), stubs=stubs)
    calls = port.make_call(sites, world.caller)
    path = tmp_path / "code"
    path.write_bytes(calls.row(calls.expected, 0)[:8] + calls.row(calls.replacement, 1))
    command = [OBJDUMP, "-D", "-b", "binary", "-m", "mips:isa64r2", f"-E{world.order[0].upper()}"]
    run = [*command, f"--adjust-vma={world.module:#x}", str(path)]
    output = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    lines = [" ".join(line.split("\t")[2:]) for line in output.splitlines() if "\t" in line]
    assert [" ".join(line.split()) for line in lines] == [
        f"b {world.module + 20:#x}",
        f"{'d' if world.add == '6463' else ''}addiu v1,v1,-28672",
        f"jal {world.module + 0x1000:#x}",
        "nop" if world.slot == NOP else "addiu sp,sp,-8",
    ]
