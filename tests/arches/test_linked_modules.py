"""Modules of Debian's kernels are linked as GNU ld links them at the same addresses."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from dynftrace import arches
from dynftrace.core.elf.linker import Linked
from dynftrace.core.elf.structs import SHN_UNDEF, SHT_NOBITS
from dynftrace.core.modules.module import Module
from dynftrace.core.session.session import MachineSpec, Session

from ..support.debian import unpacked

PORTS = {
    "amd64": ("x86_64", "", "--no-relax"),
    "i386": ("i386", "i686-linux-gnu-"),
    "arm64": ("arm64", "aarch64-linux-gnu-"),
    "mipsel": ("mipsel", "mipsel-linux-gnu-"),
}
"""Port, prefix of its tools, and options of ld, by Debian's name of the architecture."""

MODULES = ("crc7", "libcrc32c", "isofs", "cdrom", "nls_utf8", "x_tables", "ext4")

MERGED = 0x30
"""SHF_MERGE and SHF_STRINGS: ld would merge equal strings, which the kernel does not."""


def unmerged(content: bytes) -> bytes:
    """Return an ELF file whose sections may not be merged."""
    raw = bytearray(content)
    order = "little" if raw[5] == 1 else "big"
    where, size, step, count, flags, width = (
        (0x28, 8, 0x3A, 0x3C, 8, 8) if raw[4] == 2 else (0x20, 4, 0x2E, 0x30, 8, 4)
    )
    start = int.from_bytes(raw[where : where + size], order)
    entry, number = (int.from_bytes(raw[at : at + 2], order) for at in (step, count))
    for at in range(start + flags, start + flags + number * entry, entry):
        word = int.from_bytes(raw[at : at + width], order) & ~MERGED
        raw[at : at + width] = word.to_bytes(width, order)
    return bytes(raw)


def script(module: Module) -> str:
    """Return a linker script with the addresses of the module's sections and callees."""
    image, linked = module.image, module.linked
    table = linked.symbols
    lines = []
    for row in np.flatnonzero(table.shndx == SHN_UNDEF).tolist():
        if table.names[row] and table.address[row]:
            lines.append(f'"{table.names[row]}" = {int(table.address[row]):#x};')
    # Per-CPU data has another address in symbols than in memory.
    own = dict(linked.bases)
    rows = np.flatnonzero(np.isin(table.shndx, [*own]))
    starts = table.address[rows] - image.symbols.address[rows]
    own |= zip(table.shndx[rows].tolist(), starts.tolist(), strict=True)
    lines.append("SECTIONS {")
    for index, address in sorted(own.items(), key=lambda each: each[1]):
        name = image.sections[index].name
        lines.append(f'"{name}" {address:#x} : {{ KEEP(*("{name}")) }}')
    lines.append("/DISCARD/ : { *(*) } }")
    return "\n".join(lines)


def link(folder: Path, module: Module, tools: str, options: tuple[str, ...]) -> dict[str, bytes]:
    """Return the module's sections by name, as GNU ld links them."""
    (folder / "a.o").write_bytes(unmerged(bytes(module.image._content)))
    (folder / "a.lds").write_text(script(module))
    command = [f"{tools}ld", "-T", "a.lds", "--no-check-sections", *options, "-o", "a.elf", "a.o"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    with (folder / "a.elf").open("rb") as file:
        return {each.name: each.data() for each in ELFFile(file).iter_sections()}


def ours(linked: Linked, module: Module) -> dict[str, bytes]:
    """Return the module's sections by name, as they are in memory before ftrace changes them."""
    sections = module.image.sections
    return {
        sections[index].name: raw.tobytes()
        for index, raw in linked.content.items()
        if len(raw) and sections[index].type != SHT_NOBITS
        # ld writes these anew.
        if not sections[index].name.startswith((".note", ".eh_frame", ".reginfo", ".MIPS"))
    }


@pytest.mark.parametrize("arch", PORTS)
def test_a_module_is_linked_as_by_ld(arch: str, tmp_path: Path) -> None:
    port, tools, *options = PORTS[arch]
    if shutil.which(f"{tools}ld") is None:
        pytest.skip(f"{tools}ld is not installed")
    (kernel,) = unpacked(arch).glob("boot/vmlinu[xz]-*")
    session = Session.open(arches.load(port), MachineSpec(kernel=kernel, cpus=1))
    compared = 0
    for name in MODULES:
        session.modprobe(name)
    for module in session.boot.modules.loaded:
        expected = link(tmp_path, module, tools, tuple(options))
        for section, raw in ours(module.linked, module).items():
            assert raw == expected[section], (module.name, section)
            compared += 1
    assert compared > 60
