"""ELF files: what sound ones contain, and how damaged ones are reported."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest

from dynftrace import arches
from dynftrace.core.elf.image import Image
from dynftrace.core.elf.linker import layout, link
from dynftrace.core.errors import DynftraceError, ImageError, ModuleError, WrongMachineError
from dynftrace.core.ftrace.sites import call_sites, calls_of_mcount
from dynftrace.core.kernel.kallsyms import Kallsyms
from dynftrace.core.kernel.kernel import load_kernel
from dynftrace.core.machine.memory import Memory

from ...support import elf_damage, elf_writer

PORT = arches.load("x86_64")
NAMES = ["schedule", "kmalloc", "vfs_read"]
KERNEL = elf_writer.kernel(NAMES, symbols=3, entry="schedule")
MODULE = elf_writer.module(["probe", "enumerate"], {"probe": "kmalloc"}, {"name": "usb"})

SHOFF = 0x28
PHOFF = 0x20
E_SHNUM = 0x3C


def load(tmp_path: Path, content: bytes) -> Image:
    return Image.load(elf_writer.write(tmp_path / "image", content), PORT.facts)


def reader(image: Image):
    def read(address: int, size: int) -> bytes:
        found = image.read(address, size)
        assert found is not None
        return found.tobytes()

    return read


def test_an_executable_has_segments_sections_symbols_and_an_entry(tmp_path: Path) -> None:
    image = load(tmp_path, KERNEL)
    assert not image.relocatable
    assert image.segments[0].address == elf_writer.TEXT
    assert image.entry == image.symbols.address_of("schedule") == elf_writer.TEXT + 16
    assert image.section(".text").executable
    assert image.symbols.address_of("nobody") is None


def test_call_sites_come_from_the_linked_list(tmp_path: Path) -> None:
    image = load(tmp_path, KERNEL)
    expected = [image.symbols.address_of(name) for name in NAMES]
    assert call_sites(PORT, image, reader(image)).tolist() == expected


def test_a_relocatable_file_has_relocations_and_no_addresses(tmp_path: Path) -> None:
    image = load(tmp_path, MODULE)
    assert image.relocatable and not image.segments
    tables = {table.target.name: table for table in image.relocations()}
    assert tables[".text"].kind.tolist() == [elf_writer.R_PLT32] * 3
    names = [image.symbols.names[row] for row in tables[".text"].symbol.tolist()]
    assert names == ["__fentry__", "kmalloc", "__fentry__"]
    assert tables["__mcount_loc"].addend.tolist() == [0, 0]


def test_without_a_list_call_sites_come_from_the_calls_of_mcount(tmp_path: Path) -> None:
    content = MODULE.replace(b"__mcount_loc\0", b"__nothing_at\0")
    image = load(tmp_path, content)
    bases = {section.index: 0x1000 * section.index for section in image.sections}
    assert call_sites(PORT, image, lambda a, n: bytes(n), bases).tolist() == [0x1000, 0x1020]


def test_a_site_outside_code_is_refused(tmp_path: Path) -> None:
    site = struct.pack("<Q", elf_writer.TEXT + 16)
    image = load(tmp_path, KERNEL.replace(site, struct.pack("<Q", 0x1234), 2))
    with pytest.raises(ImageError, match="0x1234, which is not code"):
        call_sites(PORT, image, reader(image))


@pytest.mark.parametrize("size", [0, 3, 15, 40, 63, 64, 200, 5000, len(KERNEL) - 1])
def test_a_truncated_file_says_so(tmp_path: Path, size: int) -> None:
    with pytest.raises(ImageError, match=r"truncated|not an ELF file"):
        load(tmp_path, KERNEL[:size])


def patched(offset: int, fmt: str, value: int, content: bytes = KERNEL) -> bytes:
    raw = bytearray(content)
    struct.pack_into(fmt, raw, offset, value)
    return bytes(raw)


def header_of(section: int, content: bytes = KERNEL) -> int:
    """Return the offset of a section's header."""
    return struct.unpack_from("<Q", content, SHOFF)[0] + section * 64


SYMTAB, STRTAB = 4, 5


@pytest.mark.parametrize(
    ("damage", "error", "sentence"),
    [
        ((4, "B", 1), WrongMachineError, "is 32-bit little-endian, but x86_64 is 64-bit"),
        ((5, "B", 2), WrongMachineError, "64-bit big-endian"),
        ((4, "B", 9), ImageError, "invalid word size or byte order"),
        ((18, "<H", 21), WrongMachineError, "is for EM_PPC64, but x86_64 is EM_X86_64"),
        ((18, "<H", 0x7FF0), WrongMachineError, "is for machine 32752"),
        ((16, "<H", 4), ImageError, "neither executable nor relocatable"),
        ((SHOFF, "<Q", 1 << 40), ImageError, "truncated: 1 section headers"),
        ((PHOFF, "<Q", 1 << 63), ImageError, "truncated: 3 program headers"),
        ((0x3A, "<H", 63), ImageError, "a section header has 63 bytes instead of 64"),
        ((0x36, "<H", 10), ImageError, "a program header has 10 bytes instead of 56"),
        ((0x40, "<I", 3), ImageError, "a user-space program"),
        ((0x40 + 0x28, "<Q", 1 << 43), ImageError, "needs 0x80000000000 bytes"),
        ((0x40 + 0x20, "<Q", 1 << 43), ImageError, "truncated: the segment for"),
        ((0x40 + 0x28, "<Q", 1), ImageError, "more bytes in the file than in memory"),
        ((0x40 + 0x10, "<Q", 2**64 - 1), ImageError, "ends outside the address space"),
        ((0x40 + 0x10, "<Q", elf_writer.TEXT + 0x1000), ImageError, "two segments overlap"),
        ((header_of(1) + 32, "<Q", 1 << 50), ImageError, "section .text: .*truncated"),
        ((header_of(3) + 32, "<Q", 1 << 50), ImageError, "needs 0x4000000000000 bytes"),
        ((header_of(1) + 48, "<Q", 3), ImageError, "invalid alignment 0x3"),
        ((header_of(1) + 48, "<Q", 1 << 40), ImageError, "invalid alignment"),
        ((0x3E, "<H", 200), ImageError, "section names are in section 200"),
        ((0x3E, "<H", 1), ImageError, "not a string table"),
        ((header_of(1), "<I", 1 << 20), ImageError, "the name of section 1"),
    ],
)
def test_an_error_names_the_damaged_header(
    tmp_path: Path, damage: tuple[int, str, int], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        load(tmp_path, patched(*damage))


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        ((header_of(SYMTAB) + 56, "<Q", 16), "entries must have 24"),
        ((header_of(SYMTAB) + 40, "<I", 1), "not a string table"),
        ((header_of(SYMTAB) + 40, "<I", SYMTAB), "not a string table"),
        ((header_of(SYMTAB) + 40, "<I", 99), "section 99, which does not exist"),
        ((header_of(STRTAB) + 32, "<Q", 0), "no terminating NUL"),
        ((header_of(STRTAB) + 32, "<Q", 4), "no terminating NUL"),
    ],
)
def test_an_error_names_the_damaged_symbol(
    tmp_path: Path, damage: tuple[int, str, int], sentence: str
) -> None:
    image = load(tmp_path, patched(*damage))
    with pytest.raises(ImageError, match=sentence):
        _ = image.symbols


def test_an_error_names_a_symbol_whose_section_does_not_exist(tmp_path: Path) -> None:
    symtab = struct.unpack_from("<Q", KERNEL, header_of(SYMTAB) + 24)[0]
    image = load(tmp_path, patched(symtab + 24 + 6, "<H", 77))
    with pytest.raises(ImageError, match="symbol 1 is in section 77") as caught:
        _ = image.symbols
    assert caught.value.section == ".symtab"
    assert caught.value.offset == symtab + 24


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("absent", "No such file"),
        (".", "Is a directory|not a regular file"),
        ("a\0b", "invalid file name"),
    ],
)
def test_a_path_that_is_not_a_file_is_refused(tmp_path: Path, name: str, sentence: str) -> None:
    with pytest.raises(ImageError, match=sentence):
        Image.load(f"{tmp_path}/{name}", PORT.facts)


def test_a_device_is_refused_without_reading_it() -> None:
    with pytest.raises(ImageError, match="not a regular file"):
        Image.load("/dev/zero", PORT.facts)


def read_all(image: Image) -> None:
    """Read all that a boot or insmod reads; what is accepted must be within its bounds."""
    symbols = image.symbols
    kallsyms = Kallsyms()
    kallsyms.add(symbols)
    for symbol in kallsyms.functions():
        assert symbol.size >= 0 and symbol.address + symbol.size <= 2**64
    for table in (*image.relocations(), *image.debug_relocations()):
        assert not len(table.symbol) or int(table.symbol.max()) < max(len(symbols), 1)
    image.source_line(elf_writer.TEXT)
    if not image.relocatable:
        memory = Memory("little", 8)
        load_kernel(PORT, image, memory)
        ips = call_sites(PORT, image, memory.read)
        calls_of_mcount(PORT, image, memory.read)
        code = [section for section in image.sections if section.loaded and section.executable]
        assert all(any(each.address <= ip < each.end for each in code) for ip in ips.tolist())
        return
    place, base = layout(image), PORT.facts.map.modules
    linked = link(PORT, image, "usb", place, base, lambda name: base)

    def within(address: int, data: bytes) -> None:
        assert base <= address <= address + len(data) <= base + place.size

    linked.write(within)
    call_sites(PORT, image, lambda address, size: bytes(size), linked.bases)


@pytest.mark.parametrize("content", [KERNEL, MODULE], ids=["kernel", "module"])
def test_a_damaged_file_is_read_within_bounds_or_refused_by_name(
    tmp_path: Path, content: bytes
) -> None:
    outcomes = Counter()
    for seed in range(300):
        raw = elf_damage.damaged(Random(seed), content)
        path = elf_writer.write(tmp_path / "image", raw)
        try:
            read_all(Image.load(path, PORT.facts))
            outcomes["read"] += 1
        except DynftraceError as error:
            outcomes[type(error)] += 1
            named = str(path) if isinstance(error, ImageError) else "usb"
            assert named in str(error) and "\n" not in str(error), (seed, error)
            assert isinstance(error, (ImageError, ModuleError)), (seed, error)
    # Damage that is never noticed, or always at once, would reach none of the readers.
    assert outcomes["read"] > 50 and outcomes[ImageError] > 70, outcomes


def test_a_section_that_ends_outside_the_address_space_is_refused(tmp_path: Path) -> None:
    damage = patched(header_of(3) + 16, "<Q", 2**64 - 8)
    with pytest.raises(ImageError, match=r"image: section .bss: .* outside the address space"):
        load(tmp_path, damage)


def test_symbol_names_are_always_printable(tmp_path: Path) -> None:
    image = load(tmp_path, KERNEL.replace(b"kmalloc\0", b"\x1b[2J\xffc\n\0"))
    assert image.symbols.names[3] == "?[2J?c?"


def test_a_large_kernel_opens_in_a_fraction_of_the_target_time(tmp_path: Path) -> None:
    content = elf_writer.kernel(2_000, symbols=6_000)
    image = load(tmp_path, content)
    assert len(call_sites(PORT, image, reader(image))) == 2_000
    assert int(np.count_nonzero(image.symbols.functions)) == 2_001
