"""Source lines of the teaching kernel, compared with addr2line and with damaged debug data."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynftrace import arches
from dynftrace.core.elf.image import Image
from dynftrace.core.elf.lines import SourceLines
from dynftrace.core.ftrace.sites import call_sites

from ...support import elf_writer

PORT = arches.load("x86_64")
KERNEL = Image.load(PORT.images() / "vmlinux.elf", PORT.facts)
MODULE = Image.load(PORT.images() / "usbhub.ko", PORT.facts)
DEBUG = {section.name: MODULE.data(section) for section in MODULE.debug_sections()}


def sites() -> list[int]:
    return call_sites(PORT, KERNEL, lambda at, size: KERNEL.read(at, size).tobytes()).tolist()


@pytest.mark.skipif(which("addr2line") is None, reason="addr2line is not installed")
def test_lines_agree_with_addr2line() -> None:
    ips = sites()[::7]
    output = subprocess.run(
        ["addr2line", "-e", str(KERNEL.path), *map(hex, ips)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for ip, line in zip(ips, output, strict=True):
        name, number = line.split(" ")[0].rsplit(":", 1)
        found = KERNEL.source_line(ip)
        assert found is not None
        assert (Path(found[0]).name, str(found[1])) == (Path(name).name, number)


def test_every_site_has_a_source_line() -> None:
    for ip in sites():
        found = KERNEL.source_line(ip)
        assert found is not None and found[0].endswith(".c") and found[1] > 0


def test_addresses_outside_code_and_files_without_debug_data_have_no_line(tmp_path: Path) -> None:
    assert KERNEL.source_line(0) is None
    assert KERNEL.source_line(2**64 - 1) is None
    small = elf_writer.write(tmp_path / "k", elf_writer.kernel(["mine"]))
    assert Image.load(small, PORT.facts).source_line(elf_writer.TEXT + 16) is None


@settings(max_examples=60, deadline=5000)
@given(data=st.data())
def test_damaged_debug_data_gives_a_line_or_none(data: st.DataObject) -> None:
    sections = {name: raw.copy() for name, raw in DEBUG.items()}
    for _ in range(data.draw(st.integers(1, 30))):
        raw = sections[data.draw(st.sampled_from(sorted(sections)))]
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from(sorted(sections)))
    sections[cut] = sections[cut][: data.draw(st.integers(0, len(sections[cut])))]
    lines = SourceLines(sections, PORT.facts)
    for address in (0, 0x10, 0x40):
        found = lines.at(address)
        assert found is None or (isinstance(found[0], str) and found[1] > 0)
        assert found is None or found[0].isprintable()
