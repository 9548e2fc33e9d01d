"""Relocatable kernels: the relocations in their files, and their words once loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynftrace import arches
from dynftrace.core.elf.image import Image
from dynftrace.core.errors import ImageError
from dynftrace.core.ftrace.sites import call_sites
from dynftrace.core.kernel.kernel import load_kernel
from dynftrace.core.machine.memory import Memory

from ...support import elf_writer
from ...support.elf_writer import ALLOC, EXEC, EXEC_FILE, PROGBITS, RELA, WRITE, Section, Symbols

RELATIVE = 8
"""R_X86_64_RELATIVE, the only type that these files use."""

PORT = arches.load("x86_64")
FACTS = replace(PORT.facts, relative=RELATIVE)
TEXT, DATA, TABLE = 0xFFFF_FFFF_8100_0000, 0xFFFF_FFFF_8100_1000, 0xFFFF_FFFF_8100_2000
STORED = bytes(range(1, 33))


def movable(rows: list[tuple[int, int, int, int]], dynamic: int = 3) -> bytes:
    """Return an ET_DYN file with text, 32 bytes of data and the relocations `rows`."""
    symbols = Symbols()
    symbols.add("words", DATA, 2, elf_writer.OBJECT)
    content = elf_writer.elf(
        EXEC_FILE,
        [
            Section(".text", PROGBITS, ALLOC | EXEC, b"\xc3" * 64, TEXT),
            Section(".data", PROGBITS, ALLOC | WRITE, STORED, DATA),
            Section(
                *(".rela.dyn", RELA, ALLOC, elf_writer.relocations(rows), TABLE),
                align=8,
                entsize=24,
                link=4,
            ),
        ],
        symbols,
    )
    return content[:16] + bytes([dynamic]) + content[17:]


def load(folder: Path, content: bytes) -> Image:
    return Image.load(elf_writer.write(folder / "vmlinux", content), FACTS)


def test_a_read_word_is_relocated_and_a_stored_word_is_not(tmp_path: Path) -> None:
    image = load(tmp_path, movable([(DATA + 8, RELATIVE, 0, TEXT - 2**64), (DATA, 0, 0, 7)]))
    expected = STORED[:8] + TEXT.to_bytes(8, "little") + STORED[16:]
    data = image.section(".data")
    assert data is not None and image.movable
    assert image.data(data).tobytes() == expected
    assert image.segment_data(image.segments[1]).tobytes() == expected
    assert image.read(DATA, 32).tobytes() == expected
    assert image.stored(DATA, 32).tobytes() == STORED
    assert image.read(TEXT, 4).tobytes() == image.stored(TEXT, 4).tobytes() == b"\xc3" * 4
    assert image.stored(DATA + 1, 32) is None
    (table,) = image.dynamic
    assert (table.offset.tolist(), table.kind.tolist()) == ([DATA + 8, DATA], [RELATIVE, 0])
    assert image.relocations() == []
    memory = Memory("little", 8)
    load_kernel(PORT, image, memory)
    assert memory.read(DATA, 32) == expected


def test_a_relocated_word_may_be_unaligned_or_the_last_word(tmp_path: Path) -> None:
    image = load(tmp_path, movable([(DATA + 24, RELATIVE, 0, -1), (DATA + 3, RELATIVE, 0, 5)]))
    words = STORED[:3] + (5).to_bytes(8, "little") + STORED[11:24] + b"\xff" * 8
    assert image.read(DATA, 32).tobytes() == words


def test_an_executable_for_a_fixed_address_has_no_relocations(tmp_path: Path) -> None:
    image = load(tmp_path, movable([(DATA, RELATIVE, 0, 5)], dynamic=2))
    assert not image.movable and image.dynamic == ()
    assert image.read(DATA, 32).tobytes() == STORED


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ((DATA, 6, 0, 0), "relocation 1 has type 6, which a kernel of"),
        ((DATA, RELATIVE + 1, 1, 0), "relocation 1 has type 9, which a kernel of"),
        ((DATA + 25, RELATIVE, 0, 0), "is for the word at 0xffffffff81001019, which is not in"),
        ((DATA - 1, RELATIVE, 0, 0), "is for the word at 0xffffffff81000fff, which is not in"),
        ((0, RELATIVE, 0, 0), "is for the word at 0x0, which is not in"),
        ((2**64 - 1, RELATIVE, 0, 0), "is for the word at 0xffffffffffffffff, which is not in"),
        ((DATA, RELATIVE, 99, 0), "relocation 1 is against symbol 99, but the file has"),
    ],
)
def test_unsupported_relocations_are_refused(
    row: tuple[int, int, int, int], said: str, tmp_path: Path
) -> None:
    image = load(tmp_path, movable([(DATA, RELATIVE, 0, 1), row]))
    assert image.stored(DATA, 32).tobytes() == STORED
    with pytest.raises(ImageError, match=rf"\.rela\.dyn: .*{said}"):
        image.read(DATA, 8)


def test_ports_with_fixed_kernels_refuse_a_relocatable_one(tmp_path: Path) -> None:
    path = elf_writer.write(tmp_path / "vmlinux", movable([(DATA, RELATIVE, 0, 1)]))
    image = Image.load(path, PORT.facts)
    with pytest.raises(ImageError, match="which a kernel of x86_64 cannot apply to itself"):
        load_kernel(PORT, image, Memory("little", 8))
    elf_writer.write(path, movable([]))
    assert Image.load(path, PORT.facts).read(DATA, 32).tobytes() == STORED


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_raises_an_image_error_or_none(data: st.DataObject, tmp_path: Path) -> None:
    content = bytearray(movable([(DATA + 8 * row, RELATIVE, 0, row) for row in range(4)]))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(16, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        image = load(tmp_path, bytes(content))
        image.read(DATA, 32)
        for section in image.sections:
            image.data(section)
    except ImageError:
        pass


MOVABLE = [name for name in arches.names() if arches.load(name).facts.relative is not None]


@pytest.mark.parametrize("name", MOVABLE)
def test_the_teaching_kernel_is_loaded_relocated(name: str) -> None:
    port = arches.load(name)
    path = port.images() / "vmlinux.elf"
    image = Image.load(path, port.facts)
    with path.open("rb") as file:
        elf = ELFFile(file)
        rows = list(elf.get_section_by_name(".rela.dyn").iter_relocations())
    assert len(rows) > 500
    for row in rows:
        (word,) = image.words(image.read(row["r_offset"], 8).tobytes()).tolist()
        assert word == row["r_addend"] % 2**64
        assert not image.stored(row["r_offset"], 8).any()
    start, stop = (image.symbols.address_of(f"__{end}_mcount_loc") for end in ("start", "stop"))
    listed = image.words(image.read(start, stop - start).tobytes())
    memory = Memory(port.facts.byteorder, port.facts.pointer_size)
    load_kernel(port, image, memory)
    sites = call_sites(port, image, memory.read)
    assert sites.tolist() == port.call_adjust(np.unique(listed)).tolist()
    assert len(listed) > 150
