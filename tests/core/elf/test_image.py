"""ELF files: what sound ones contain, and how damaged ones are reported."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynftrace import arches
from dynftrace.core.elf.image import Image
from dynftrace.core.errors import DynftraceError, ImageError, WrongMachineError
from dynftrace.core.ftrace.sites import call_sites

from ...support import elf_writer

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


@pytest.mark.parametrize("content", [KERNEL, MODULE], ids=["kernel", "module"])
@settings(
    max_examples=150, deadline=2000, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_damage_raises_an_image_error_or_none(
    tmp_path: Path, content: bytes, data: st.DataObject
) -> None:
    raw = bytearray(content)
    # Damage the headers often: they matter most, but random offsets rarely hit them.
    places = st.one_of(
        st.integers(0, 0xFF),
        st.integers(len(raw) - 800, len(raw) - 1),
        st.integers(0, len(raw) - 1),
    )
    for place in data.draw(st.lists(places, max_size=8)):
        raw[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.just(len(raw)), st.integers(0, len(raw))))
    try:
        image = load(tmp_path, bytes(raw[:cut]))
        symbols = image.symbols
        _ = symbols.by_address, symbols.functions, symbols.address_of("schedule")
        for table in image.relocations():
            assert len(table.offset) == len(table.symbol)
        bases = {section.index: 0x10000 for section in image.sections}
        call_sites(PORT, image, lambda address, size: bytes(size), bases)
        image.source_line(elf_writer.TEXT)
    except DynftraceError as error:
        assert str(error)
        assert "\n" not in str(error)


def test_symbol_names_are_always_printable(tmp_path: Path) -> None:
    image = load(tmp_path, KERNEL.replace(b"kmalloc\0", b"\x1b[2J\xffc\n\0"))
    assert image.symbols.names[3] == "?[2J?c?"


def test_a_large_kernel_opens_in_a_fraction_of_the_target_time(tmp_path: Path) -> None:
    content = elf_writer.kernel(2_000, symbols=6_000)
    image = load(tmp_path, content)
    assert len(call_sites(PORT, image, reader(image))) == 2_000
    assert int(np.count_nonzero(image.symbols.functions)) == 2_001
