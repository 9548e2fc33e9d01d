"""The built images: reproducible, and with the layout that the host expects."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import Relocation
from numpy.typing import NDArray

from dynftrace.arches import load, names

from ..support.images import GUEST, PORTS, ROOT, Images

COMPILER_MAJOR = "12"


@pytest.fixture(params=PORTS, ids=[images.arch for images in PORTS])
def images(request: pytest.FixtureRequest) -> Images:
    assert isinstance(request.param, Images)
    return request.param


EXPECTED_FUNCTIONS = [
    "schedule",
    "scheduler_tick",
    "kernel_clone",
    "do_execve",
    "proc_reg_write",
    "kmem_cache_free",
    "wake_up_process",
    "mutex_lock",
    "mutex_unlock",
    "_raw_spin_lock",
    "vfs_read",
    "vfs_write",
    "sys_open",
    "sys_close",
    "sys_getpid",
    "do_IRQ",
    "__do_softirq",
    "raise_softirq",
    "rcu_core",
    "start_kernel",
    "start_secondary",
]


def compiler(images: Images) -> str:
    """Return the prefix of the images' compiler; skip without that compiler."""
    path = shutil.which(images.tools + "gcc")
    if path is None or shutil.which("make") is None:
        pytest.skip(f"{images.tools}gcc and make are not installed")
    said = [
        subprocess.run([path, flag], capture_output=True, text=True, check=True).stdout.strip()
        for flag in ("-dumpmachine", "-dumpversion")
    ]
    if not said[0].startswith(images.machine) or said[1].split(".")[0] != COMPILER_MAJOR:
        pytest.skip(f"needs gcc {COMPILER_MAJOR} for {images.machine}, not {' '.join(said)}")
    return path


@pytest.mark.rebuild
def test_the_committed_images_are_built_from_the_sources(images: Images, tmp_path: Path) -> None:
    compiler(images)
    # In another folder on purpose: the build path must not be in the bytes.
    sources = tmp_path / "a place" / "arches"
    shutil.copytree(GUEST, sources / "guest")
    needed = [path for name in ("*.S", "kernel.lds") for path in (ROOT / "arches").rglob(name)]
    core = ROOT / "core"
    needed += [core / "__init__.py", core / "errors.py", *(core / "port").glob("*.py")]
    for path in needed:
        there = sources.parent / path.relative_to(ROOT)
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, there)
    built = tmp_path / "images"
    variables = {"PORTS": images.port, "IMAGES": built, "BUILD": tmp_path / "build"}
    subprocess.run(
        ["make", "-C", sources / "guest"]
        + [f"{name}={value}" for name, value in variables.items()],
        check=True,
        capture_output=True,
    )
    assert sorted(path.name for path in built.iterdir()) == images.names()
    for name in images.names():
        if name != "BUILD.txt":  # it also contains the compiler's package
            assert (built / name).read_bytes() == (images.path / name).read_bytes(), name


def test_the_images_are_small(images: Images) -> None:
    assert sum(path.stat().st_size for path in images.path.iterdir()) < 1_250_000


def symbols(elf: ELFFile) -> dict[str, int]:
    """Return an image's symbols: name to address."""
    section = elf.get_section_by_name(".symtab")
    return {symbol.name: symbol["st_value"] for symbol in section.iter_symbols()}


def sites(elf: ELFFile) -> NDArray[np.uint64]:
    """Return the entries from __start_mcount_loc to __stop_mcount_loc of the loaded kernel.

    Without these symbols, return the calls of mcount.
    """
    table = symbols(elf)
    if "__start_mcount_loc" not in table:
        return calls(elf, table["mcount"])
    start, stop = table["__start_mcount_loc"], table["__stop_mcount_loc"]
    (offset,) = elf.address_offsets(start)
    elf.stream.seek(offset)
    size = elf.elfclass // 8
    word = np.dtype(f"{'<' if elf.little_endian else '>'}u{size}")
    found = np.frombuffer(elf.stream.read(stop - start), word).astype(np.uint64)
    moved = elf.get_section_by_name(".rela.dyn")
    for relocation in () if moved is None else moved.iter_relocations():
        if start <= relocation["r_offset"] < stop:
            found[(relocation["r_offset"] - start) // size] = relocation["r_addend"] % 2**64
    return found


def calls(elf: ELFFile, target: int) -> NDArray[np.uint64]:
    """Return the addresses of x86 calls of `target`: e8 and the distance from the end."""
    section = elf.get_section_by_name(".text")
    code = np.frombuffer(section.data(), np.uint8)
    at = np.flatnonzero(code[:-4] == 0xE8)
    far = code[at[:, None] + np.arange(1, 5)].view("<i4").ravel()
    base = section["sh_addr"]
    return at[at + 5 + far == target - base].astype(np.uint64) + np.uint64(base)


def functions(elf: ELFFile) -> list[tuple[str, int, int]]:
    """Return name, address and size of each function in .text."""
    (text,) = (row for row, section in enumerate(elf.iter_sections()) if section.name == ".text")
    return [
        (symbol.name, symbol["st_value"], symbol["st_size"])
        for symbol in elf.get_section_by_name(".symtab").iter_symbols()
        if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] == text
    ]


def sites_of_functions(elf: ELFFile) -> list[tuple[str, list[int]]]:
    """Return the sites in each function by C name, without the dot of code symbols."""
    found = sorted(sites(elf).tolist())
    return [
        (name.removeprefix("."), [site for site in found if address <= site < address + size])
        for name, address, size in functions(elf)
    ]


def test_the_kernel_has_the_functions_that_examples_use(images: Images) -> None:
    elf = images.elf()
    traced = [(name, inside) for name, inside in sites_of_functions(elf) if inside]
    assert all(len(inside) == 1 for _, inside in traced)
    assert sorted(site for _, (site,) in traced) == sorted(sites(elf).tolist())
    names = {name for name, _ in traced}
    assert len(names) >= 150
    assert set(EXPECTED_FUNCTIONS) <= names
    for glob in ("sched", "lock", "mutex", "rcu", "time", "clock"):
        assert sum(glob in name for name in names) >= 3, glob


def test_functions_that_must_not_be_traced_have_no_site(images: Images) -> None:
    functions = dict(sites_of_functions(images.elf()))
    for name in ("common_interrupt", "tracing_record_cmdline", "_start", "__switch_to_asm"):
        assert not functions[name]
    tracer = images.elf("tracer.o")
    assert not any(
        "mcount" in each.name or "patchable" in each.name for each in tracer.iter_sections()
    )
    undefined = {
        symbol.name
        for symbol in tracer.get_section_by_name(".symtab").iter_symbols()
        if symbol.name and symbol["st_shndx"] == "SHN_UNDEF"
    }
    assert not undefined


def test_the_plain_kernel_has_no_sites_and_the_same_functions(images: Images) -> None:
    traced, plain = symbols(images.elf()), symbols(images.elf("vmlinux-plain.elf"))
    assert not len(sites(images.elf("vmlinux-plain.elf")))
    assert set(plain) == set(traced)


FOUND_AS_THEY_RUN = {arch for arch in names() if load(arch).facts.discovery[0] == "ftraced"}

CALLS = (4, 5)
"""R_MIPS_26 and R_MIPS_HI16: each call has one of them."""


def relocations(elf: ELFFile, section: str) -> list[Relocation]:
    """Return the relocations of a section."""
    table = elf.get_section_by_name(f".rela{section}") or elf.get_section_by_name(f".rel{section}")
    return list(table.iter_relocations())


def symbol_of(elf: ELFFile, relocation: Relocation) -> str:
    """Return the name of the relocation's symbol."""
    symbol = elf.get_section_by_name(".symtab").get_symbol(relocation["r_info_sym"])
    assert isinstance(symbol.name, str)
    return symbol.name


def test_modules_list_all_of_their_sites(images: Images) -> None:
    for name in images.names():
        if not name.endswith(".ko"):
            continue
        elf = images.elf(name)
        listed = load(images.arch).facts.sites.sections
        assert (not listed) == (images.arch in FOUND_AS_THEY_RUN)
        places = relocations(elf, listed[0]) if listed else []
        if listed:
            table = elf.get_section_by_name(listed[0])
            assert table["sh_addralign"] * 8 == elf.elfclass or images.folder.startswith("x86/")
            assert len(places) * elf.elfclass // 8 == table["sh_size"]
            assert len(places) >= 2
        if listed == ("__patchable_function_entries",) or "stray" in name:
            continue
        mcount = "_mcount_trampoline" if name in NEAR_STUBS else "_mcount"
        calls = [
            relocation
            for relocation in relocations(elf, ".text")
            if symbol_of(elf, relocation).lstrip(".") in ("__fentry__", "mcount", mcount)
            and (elf["e_machine"] != "EM_MIPS" or relocation["r_info_type"] in CALLS)
            and (name != JAL or relocation["r_info_type"] == JUMP)  # its stub loads _mcount
        ]
        assert len(calls) >= 2
        assert not listed or len(calls) == len(places)


def test_images_are_linked_at_the_ports_addresses(images: Images) -> None:
    map_ = load(images.arch).facts.map
    makefile = (GUEST / "Makefile").read_text()
    assert f"CPU_LOCAL_{images.port} := {map_.local:#x}\n" in makefile
    assert f"DIRECT_MAP_{images.port} := {map_.direct_map:#x}\n" in makefile


POWERPC = [images for images in PORTS if images.folder.startswith("powerpc")]


def text(elf: ELFFile) -> NDArray[np.uint32]:
    """Return the instruction words of an image's .text, shape (n,)."""
    return np.frombuffer(elf.get_section_by_name(".text").data(), ">u4").astype(np.uint32)


@pytest.mark.parametrize("images", POWERPC, ids=lambda images: images.arch)
def test_powerpc_code_uses_only_integer_instructions(images: Images) -> None:
    """No floating point, vectors or strings: interrupts do not save them, or the CPU lacks them."""
    for name in images.names():
        if name == "BUILD.txt":
            continue
        words = text(images.elf(name))
        primary = words >> 26
        extended = np.where(primary == 31, words >> 1 & 0x3FF, 0)
        assert not np.isin(primary, [4, *range(48, 56), 59, 60, 61, 63]).any(), name
        assert not np.isin(extended, [533, 597, 661, 725]).any(), name  # lswx lswi stswx stswi


def test_ppc64_code_has_its_dot_and_its_descriptor() -> None:
    elf = next(images for images in PORTS if images.arch == "ppc64").elf()
    opd = elf.get_section_by_name(".opd")
    descriptors = np.frombuffer(opd.data(), ">u8").reshape(-1, 3).tolist()
    code = {(name, address) for name, address, _ in functions(elf)}
    (start,) = (address for name, address in code if name == "_start")
    assert start == elf["e_entry"]
    of_descriptors = {
        ("." + symbol.name, descriptors[(symbol["st_value"] - opd["sh_addr"]) // 24][0])
        for symbol in elf.get_section_by_name(".symtab").iter_symbols()
        if symbol["st_size"] == 24 and 0 <= symbol["st_value"] - opd["sh_addr"] < opd["sh_size"]
    }
    without = code - of_descriptors
    assert {name for name, _ in without} == {"_start", ".ret_from_fork"}
    assert of_descriptors < code and len(of_descriptors) == len(descriptors)
    toc = elf.get_section_by_name(".toc")["sh_addr"] + 0x8000
    assert {tuple(words[1:]) for words in descriptors} == {(toc, 0)}


MIPS = [images for images in PORTS if images.folder.startswith("mips")]

NEAR, NEAR_STUBS = "usbcore-near.ko", ("usbcore-trampoline.ko", "usbcore-one.ko")
JAL = "usbcore-jal.ko"

HALVES, UPPER = {5, 6}, {28, 29}
JUMP, ADDRESS = 4, {2, 18}
"""R_MIPS_HI16 and LO16, HIGHER and HIGHEST, R_MIPS_26, and R_MIPS_32 or R_MIPS_64."""


@pytest.mark.parametrize("images", MIPS, ids=lambda images: images.arch)
def test_mips_code_uses_neither_coprocessors_nor_gp(images: Images) -> None:
    """Interrupts do not save the FPU, and nothing sets gp, the pointer to small data."""
    order = "<u4" if images.arch == "mipsel" else ">u4"
    for name in images.names():
        if name == "BUILD.txt":
            continue
        elf = images.elf(name)
        words = np.frombuffer(elf.get_section_by_name(".text").data(), order).astype(np.uint32)
        opcode, base = words >> 26, words >> 21 & 31
        # cop0, cop1, cop2, cop1x; loads and stores of the FPU and of coprocessor 2
        assert not np.isin(opcode, [16, 17, 18, 19, 49, 50, 53, 54, 57, 58, 61, 62]).any(), name
        assert not ((opcode >= 8) & (base == 28)).any(), name
        if elf["e_type"] == "ET_REL":
            kinds = {relocation["r_info_type"] for relocation in relocations(elf, ".text")}
            expected = HALVES | {JUMP} | (UPPER if "wide" in name else set())
            assert kinds <= expected | (ADDRESS if name == "entry.o" else set()), name


@pytest.mark.parametrize("images", MIPS, ids=lambda images: images.arch)
def test_mips_modules_use_the_calls_of_their_build(images: Images) -> None:
    for name in ("usbcore.ko", "usbhub.ko", "crashy.ko", NEAR, JAL, *NEAR_STUBS):
        elf = images.elf(name)
        near = {
            symbol_of(elf, relocation)
            for relocation in relocations(elf, ".text")
            if relocation["r_info_type"] == JUMP
        }
        if name == NEAR:
            assert {"_mcount", "printk"} < near
        elif name == JAL:
            assert near == {"_mcount"}
        else:
            assert near == ({"_mcount_trampoline"} if name in NEAR_STUBS else set())


@pytest.mark.parametrize("images", MIPS, ids=lambda images: images.arch)
def test_mips_sites_have_the_forms_the_port_knows(images: Images) -> None:
    """All sites of the kernel are near: `jal` and its slot; mcount begins as expected."""
    elf, port = images.elf(), load(images.arch)
    section = elf.get_section_by_name(".text")
    start = section["sh_addr"]
    words = np.frombuffer(section.data(), "<u4" if elf.little_endian else ">u4")

    def at(address: int, count: int) -> list[int]:
        row = (address - start) // 4
        return [int(word) for word in words[row : row + count]]

    mcount = symbols(elf)["_mcount"]
    jal = 3 << 26 | mcount >> 2 & 0x3FF_FFFF
    slot = 0 if elf.elfclass == 64 else 0x27BD_FFF8  # addiu sp,sp,-8
    assert {tuple(at(int(ip), 2)) for ip in sites(elf)} == {(jal, slot)}
    edit = port.dyn_arch_init(mcount, port.facts.map.tracer)
    assert edit is not None
    order = "little" if elf.little_endian else "big"
    assert edit.expected.tobytes() == b"".join(
        word.to_bytes(4, order) for word in at(mcount, edit.expected.shape[1] // 4)
    )


@pytest.mark.parametrize("images", MIPS, ids=lambda images: images.arch)
def test_mips_atomic_sequences_stay_in_one_page(images: Images) -> None:
    """Sequences that word.h treats as one step do not cross a page; locks use no ll or sc."""
    elf = images.elf()
    order = "<u4" if elf.little_endian else ">u4"
    words = np.frombuffer(elf.get_section_by_name(".text").data(), order)
    # sltu rd,$0,rd and movz rd,rs,rd, after a load and an xor, before a store
    sltu = (words & 0xFFE0_07FF == 0x0000_002B)[:-2]
    movz = (words & 0xFC00_07FF == 0x0000_000A)[1:-1]
    steps = np.flatnonzero(sltu & movz) - 2
    steps = steps[words[steps] >> 26 == (words[steps + 4] >> 26) - 8]
    assert len(steps) > 10
    assert np.all(steps * 4 % 32 == 0)


ARM64 = [images for images in PORTS if images.folder.startswith("arm64")]

NOP, SAVE_LR_FOR_MCOUNT = 0xD503_201F, 0xAA1E_03E0  # nop; mov x0, x30


@pytest.mark.parametrize("images", ARM64, ids=lambda images: images.arch)
def test_arm64_code_uses_only_integer_instructions(images: Images) -> None:
    """No floating point or vectors, which interrupts do not save, and no later atomics."""
    for name in images.names():
        if name == "BUILD.txt":
            continue
        words = np.frombuffer(images.elf(name).get_section_by_name(".text").data(), "<u4")
        # DDI 0487, C4.1: op0 x111 is floating point and vectors; bit 26 of loads is too.
        assert not (words >> 25 & 7 == 7).any(), name
        assert not ((words >> 27 & 1 == 1) & (words >> 25 & 1 == 0) & (words >> 26 & 1 == 1)).any()


@pytest.mark.parametrize("images", ARM64, ids=lambda images: images.arch)
@pytest.mark.parametrize("name", ["vmlinux.elf", "vmlinux-plain.elf"])
def test_arm64_kernels_are_relocatable(images: Images, name: str) -> None:
    """Each address in them is a relocation of one type, and zero in the file."""
    elf = images.elf(name)
    assert elf["e_type"] == "ET_DYN"
    table = elf.get_section_by_name(".rela.dyn")
    found = list(table.iter_relocations())
    assert {relocation["r_info_type"] for relocation in found} == {1027}  # R_AARCH64_RELATIVE
    at = symbols(elf)
    (offset,) = elf.address_offsets(at["__start_mcount_loc"])
    elf.stream.seek(offset)
    assert not any(elf.stream.read(at["__stop_mcount_loc"] - at["__start_mcount_loc"]))
    places = {relocation["r_offset"] for relocation in found}
    sites = range(at["__start_mcount_loc"], at["__stop_mcount_loc"], 8)
    assert set(sites) <= places and len(sites) == (0 if "plain" in name else len(set(sites)))


@pytest.mark.parametrize("images", ARM64, ids=lambda images: images.arch)
def test_arm64_sites_have_the_forms_the_port_knows(images: Images) -> None:
    """Two nops at the start of the function, or a call of mcount after `mov x0, x30`."""
    elf = images.elf()
    section = elf.get_section_by_name(".text")
    words, start = np.frombuffer(section.data(), "<u4"), section["sh_addr"]
    rows = (sites(elf) - np.uint64(start)).astype(np.intp) // 4
    if images.arch == "arm64":
        assert set(sites(elf).tolist()) <= {address for _, address, _ in functions(elf)}
        assert (words[rows] == NOP).all() and (words[rows + 1] == NOP).all()
        return
    distance = (np.int64(symbols(elf)["_mcount"] - start) - rows * 4) >> 2
    assert (words[rows] == (0x9400_0000 | distance & 0x3FF_FFFF)).all()
    for row in rows.tolist():  # the scheduler may put most of a prologue in between
        assert SAVE_LR_FOR_MCOUNT in words[row - 16 : row]
