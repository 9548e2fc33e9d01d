"""Flat kernels: the teaching kernel without its ELF headers, and real ones of a distribution."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from dynftrace import arches
from dynftrace.core.elf.image import Image
from dynftrace.core.errors import ImageError
from dynftrace.core.ftrace.sites import call_sites
from dynftrace.core.ftrace.static_sites import read_sites

from ...support.debian import packages
from ...support.kallsyms_writer import Layout
from ...support.wrapping import PACKED, flat


@pytest.mark.parametrize(
    "layout",
    [Layout(pointer=4), Layout(4, seven=True), Layout(4, seven=True, fixed=True)],
    ids=("relative_base", "place-relative", "addresses"),
)
def test_a_flat_kernel_has_the_sites_of_its_elf_file(layout: Layout, tmp_path: Path) -> None:
    content, image = flat("mipsel", layout)
    port = arches.load("mipsel")
    path = tmp_path / "vmlinuz"
    path.write_bytes(PACKED["xz"](content))
    found = Image.load(path, port.facts)
    assert found.symbols_from == "kallsyms"
    assert found.segments[0].address == min(segment.address for segment in image.segments)
    assert found.symbols.address_of("schedule") == image.symbols.address_of("schedule")

    def read(address: int, size: int) -> bytes:
        raw = image.read(address, size)
        assert raw is not None
        return raw.tobytes()

    table = read_sites(arches.reader(str(path), "mipsel"), found)
    assert [site.ip for site in table.sites] == call_sites(port, image, read).tolist()
    assert "pattern" in table.source
    (site,) = table.of("schedule")
    assert site.form.startswith("jal _mcount") or site.form.startswith("jal 0x")


def test_a_system_map_of_the_same_build_has_more_symbols(tmp_path: Path) -> None:
    content, image = flat("mipsel")
    path, beside = tmp_path / "vmlinuz-6.1", tmp_path / "System.map-6.1"
    path.write_bytes(content)
    table, facts = image.symbols, arches.load("mipsel").facts
    rows = table.by_address.tolist()
    lines = [f"{int(table.address[row]):08x} T {table.names[row]}" for row in rows]
    last = Image.load(path, facts).symbols
    lines.append(f"{last.address_of('_etext'):08x} T _etext")
    beside.write_text("\n".join(lines) + "\n")
    found = Image.load(path, facts)
    assert found.symbols_from == "System.map-6.1" and len(found.symbols) == len(lines)
    assert found.symbols.address_of("schedule") == table.address_of("schedule")
    # Of two symbols at one address, Linux shows the first one of kallsyms.
    start = table.address_of("schedule")
    beside.write_text("\n".join([f"{start:08x} T Schedule", *lines]) + "\n")
    found = Image.load(path, facts)
    assert len(found.symbols) == len(lines) + 1
    shown = found.symbols.by_address[found.symbols.address[found.symbols.by_address] == start]
    assert [found.symbols.names[row] for row in shown.tolist()] == ["schedule"]
    # One that moved every function is of another build.
    moved = [f"{int(line[:8], 16) + 4:08x}{line[8:]}" for line in lines]
    beside.write_text("\n".join(moved) + "\n")
    other = "kallsyms, since System.map-6.1 is of another build"
    assert Image.load(path, facts).symbols_from == other
    beside.write_text("ffffffffffffffff B The real System.map is elsewhere\n")
    assert Image.load(path, facts).symbols_from == "kallsyms"


def test_a_flat_kernel_without_all_its_data_is_refused(tmp_path: Path) -> None:
    content, _ = flat("mipsel", after={"_edata": 1 << 20})
    path = tmp_path / "vmlinuz"
    path.write_bytes(content + bytes(1 << 20))
    Image.load(path, arches.load("mipsel").facts)
    path.write_bytes(content)
    with pytest.raises(ImageError, match=r"truncated: its data ends at address 0x8.*, but the"):
        Image.load(path, arches.load("mipsel").facts)


def test_the_sections_for_efi_say_how_long_the_file_is(tmp_path: Path) -> None:
    content = flat("mipsel")[0] + bytes(1 << 12)
    header = bytearray(b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", 0x40))
    header += b"PE\0\0" + struct.pack("<HH12xHH", 0xAA64, 2, 16, 0) + bytes(16)
    for at, size in ((0, 0x1000), (0x1000, len(content) - 0x1000)):
        header += struct.pack("<16xII16x", size, at)
    whole = bytes(header) + content[len(header) :]
    path = tmp_path / "vmlinuz"
    path.write_bytes(whole)
    Image.load(path, arches.load("mipsel").facts)
    path.write_bytes(whole[:-1])
    with pytest.raises(ImageError, match="truncated: its data ends at address"):
        Image.load(path, arches.load("mipsel").facts)


def test_flat_memory_without_symbols_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vmlinuz"
    path.write_bytes(flat("mipsel")[0][: 1 << 15])
    with pytest.raises(ImageError, match="not an ELF file"):
        Image.load(path, arches.load("mipsel").facts)


def calls(raw: np.ndarray, start: int, mcount: int, arch: str) -> int:
    """Return how many instructions of `raw`, loaded at `start`, call `mcount`."""
    if arch == "mipsel":
        words = raw[: len(raw) // 4 * 4].view("<u4")
        return int(np.count_nonzero(words == (3 << 26 | mcount >> 2 & 0x3FF_FFFF)))
    at = np.flatnonzero(raw[:-4] == 0xE8)
    field = sum(raw[at + 1 + byte].astype(np.int64) << 8 * byte for byte in range(4))
    return int(np.count_nonzero((start % 2**32 + at + 5 + field - mcount % 2**32) % 2**32 == 0))


@pytest.mark.parametrize("package", packages(), ids=lambda path: path.name)
def test_the_kernel_of_a_distribution_has_a_list_of_all_its_calls(package: Path) -> None:
    reader = arches.reader(str(package))
    image = Image.load(package, reader.facts)
    table = read_sites(reader, image)
    names = [site.name for site in table.sites if not site.dead]
    assert len(names) > 20_000 and {"schedule", "vfs_read", "kfree"} <= set(names)
    ips = [site.ip for site in table.sites]
    assert ips == sorted(set(ips))
    mcount = next(
        filter(None, map(image.symbols.address_of, reader.facts.sites.mcount_symbols)), None
    )
    if reader.facts.name in ("x86_64", "i386", "mipsel"):
        assert mcount is not None
        found = sum(
            calls(image.data(section), section.address, mcount, reader.facts.name)
            for section in image.sections
            if section.loaded and section.executable
        )
        # A call in a section that recordmcount does not read is not in the list.
        assert 0 <= found - len(ips) < (8 if reader.facts.name == "mipsel" else 1)
    else:
        assert len({site.form.split()[0] for site in table.sites}) == 1
