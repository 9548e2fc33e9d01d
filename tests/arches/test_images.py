"""The built images: reproducible, and laid out as the host believes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile

from dynftrace.arches import load
from dynftrace.core import abi

ROOT = Path(__file__).resolve().parents[2]
GUEST = ROOT / "arches" / "guest"
IMAGES = ROOT / "arches" / "x86" / "images"
NAMES = sorted(path.name for path in IMAGES.iterdir())
COMPILER = "gcc"
COMPILER_MAJOR = "12"

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


def compiler() -> str:
    """The compiler the images are made with; skips where it is another or none."""
    path = shutil.which(COMPILER)
    if path is None or shutil.which("make") is None:
        pytest.skip(f"{COMPILER} and make are not installed")
    said = [
        subprocess.run([path, flag], capture_output=True, text=True, check=True).stdout.strip()
        for flag in ("-dumpmachine", "-dumpversion")
    ]
    if not said[0].startswith("x86_64-linux") or said[1].split(".")[0] != COMPILER_MAJOR:
        pytest.skip(f"needs {COMPILER} {COMPILER_MAJOR} for x86-64, not {' '.join(said)}")
    return path


def test_the_committed_images_are_what_the_sources_make(tmp_path: Path) -> None:
    compiler()
    # Elsewhere on purpose: nothing of where it was built may be in the bytes.
    sources = tmp_path / "a place" / "arches"
    shutil.copytree(GUEST, sources / "guest")
    (sources / "x86").mkdir()
    for name in ("switch.S", "kernel.lds"):
        shutil.copy(ROOT / "arches" / "x86" / name, sources / "x86" / name)
    built = tmp_path / "images"
    subprocess.run(
        ["make", "-C", str(sources / "guest"), f"IMAGES={built}", f"BUILD={tmp_path / 'build'}"],
        check=True,
        capture_output=True,
    )
    assert sorted(path.name for path in built.iterdir()) == NAMES
    for name in NAMES:
        if name != "BUILD.txt":  # it tells the compiler's package too
            assert (built / name).read_bytes() == (IMAGES / name).read_bytes(), name


def test_the_images_are_small() -> None:
    assert sum(path.stat().st_size for path in IMAGES.iterdir()) < 600_000


def structures() -> dict[str, DIE]:
    """The structure types of the file that describes them (include/abi.c), by name."""
    elf = ELFFile.load_from_path(str(IMAGES / "vmlinux.elf"))
    found: dict[str, DIE] = {}
    unit: CompileUnit
    for unit in elf.get_dwarf_info().iter_CUs():
        top = unit.get_top_DIE()
        if not top.attributes["DW_AT_name"].value.endswith(b"abi.c"):
            continue
        for die in top.iter_children():
            if die.tag == "DW_TAG_structure_type" and "DW_AT_name" in die.attributes:
                found[die.attributes["DW_AT_name"].value.decode()] = die
    return found


def byte_size(die: DIE) -> int:
    """The size of a type, through typedefs, qualifiers and arrays."""
    if "DW_AT_byte_size" in die.attributes:
        return int(die.attributes["DW_AT_byte_size"].value)
    element = byte_size(die.get_DIE_from_attribute("DW_AT_type"))
    if die.tag != "DW_TAG_array_type":
        return element
    for child in die.iter_children():
        element *= int(child.attributes["DW_AT_upper_bound"].value) + 1
    return element


def members(die: DIE) -> dict[str, tuple[int, int]]:
    """Offset and size of each member."""
    return {
        child.attributes["DW_AT_name"].value.decode(): (
            int(child.attributes["DW_AT_data_member_location"].value),
            byte_size(child.get_DIE_from_attribute("DW_AT_type")),
        )
        for child in die.iter_children()
        if child.tag == "DW_TAG_member"
    }


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("cpu_clock", abi.cpu_clock("little")),
        ("cpu_local", abi.cpu_local("little")),
        ("ring_buffer_cpu", abi.ring_buffer_cpu("little")),
        ("host_request", abi.host_request("little")),
        ("saved_cmdline", abi.saved_cmdline("little")),
        ("module", abi.this_module("little", 8)),
        ("ftrace_ops_entry", abi.ftrace_ops_entry("little")),
    ],
)
def test_host_and_guest_agree_on_layouts(name: str, layout: np.dtype[np.void]) -> None:
    die = structures()[name]
    assert byte_size(die) == layout.itemsize
    assert layout.fields is not None
    of_host = {field: (int(at[1]), at[0].itemsize) for field, at in layout.fields.items()}
    assert members(die) == of_host


def enumerated(text: str, prefix: str) -> dict[str, int]:
    """`#define PREFIX_NAME number` lines of machine.h."""
    pattern = rf"#define {prefix}_(\w+) (?:\(1u << (\d+)\)|(0x[0-9a-f]+|\d+))"
    return {
        name: 1 << int(shift) if shift else int(number, 0)
        for name, shift, number in re.findall(pattern, text)
    }


def test_host_and_guest_agree_on_numbers() -> None:
    text = (GUEST / "include" / "machine.h").read_text()
    assert enumerated(text, "HC") == {call.name: call.value for call in abi.Hypercall}
    assert enumerated(text, "VECTOR") == {vector.name: vector.value for vector in abi.Vector}
    assert enumerated(text, "REQUEST") == {kind.name: kind.value for kind in abi.RequestKind}
    flags = enumerated(text, "RB")
    assert {flag.name: flag.value for flag in abi.RingBufferFlag}.items() <= flags.items()
    assert (flags["PAGE_SIZE"], flags["PAGE_HEADER"]) == (abi.RB_PAGE_SIZE, abi.RB_PAGE_HEADER)
    for name, value in enumerated(text, "TRACE_FLAG").items():
        assert abi.TraceFlag[name] == value
    assert enumerated(text, "TICK")["NS"] == abi.TICK_NS
    assert enumerated(text, "SAVED")["CMDLINES"] == abi.SAVED_CMDLINES


def symbols(name: str) -> dict[str, int]:
    """Name to address of an image's symbols."""
    elf = ELFFile.load_from_path(str(IMAGES / name))
    section = elf.get_section_by_name(".symtab")
    return {symbol.name: symbol["st_value"] for symbol in section.iter_symbols()}


def sites() -> set[int]:
    """What lies between __start_mcount_loc and __stop_mcount_loc."""
    elf = ELFFile.load_from_path(str(IMAGES / "vmlinux.elf"))
    table = symbols("vmlinux.elf")
    start, stop = table["__start_mcount_loc"], table["__stop_mcount_loc"]
    (offset,) = elf.address_offsets(start)
    elf.stream.seek(offset)
    return set(np.frombuffer(elf.stream.read(stop - start), "<u8").tolist())


def test_the_kernel_has_the_functions_others_rely_on() -> None:
    table, found = symbols("vmlinux.elf"), sites()
    assert len(found) >= 150
    for name in EXPECTED_FUNCTIONS:
        assert table[name] in found, name
    names = {name for name, value in table.items() if value in found}
    for glob in ("sched", "lock", "mutex", "rcu", "time", "clock"):
        assert sum(glob in name for name in names) >= 3, glob


def test_what_must_not_be_traced_has_no_site() -> None:
    table, found = symbols("vmlinux.elf"), sites()
    for name in ("common_interrupt", "tracing_record_cmdline", "_start", "__switch_to_asm"):
        assert table[name] not in found
    tracer = ELFFile.load_from_path(str(IMAGES / "tracer.o"))
    assert tracer.get_section_by_name("__mcount_loc") is None
    undefined = {
        symbol.name
        for symbol in tracer.get_section_by_name(".symtab").iter_symbols()
        if symbol.name and symbol["st_shndx"] == "SHN_UNDEF"
    }
    assert not undefined


def test_the_plain_kernel_has_no_sites_and_the_same_functions() -> None:
    traced, plain = symbols("vmlinux.elf"), symbols("vmlinux-plain.elf")
    assert plain["__start_mcount_loc"] == plain["__stop_mcount_loc"]
    assert set(plain) == set(traced)


def test_the_port_says_where_the_images_are_linked() -> None:
    map_ = load("x86_64").facts.map
    makefile = (GUEST / "Makefile").read_text()
    assert f"CPU_LOCAL_x86 := {map_.local:#x}\n" in makefile
    assert f"DIRECT_MAP_x86 := {map_.direct_map:#x}\n" in makefile
