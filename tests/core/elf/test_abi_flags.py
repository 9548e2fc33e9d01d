"""Files for the right machine but the wrong ABI."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynftrace import arches
from dynftrace.core.elf.image import Image
from dynftrace.core.errors import ImageError, WrongMachineError
from dynftrace.core.session.session import MachineSpec, Session

E_FLAGS = 48  # offset in a 64-bit ELF header


def test_the_wrong_abi_is_refused_with_the_name_of_the_file(tmp_path: Path) -> None:
    port = arches.load("ppc64")
    raw = bytearray((port.images() / "usbcore.ko").read_bytes())
    assert raw[E_FLAGS : E_FLAGS + 4] in (bytes(4), bytes.fromhex("00000001"))
    raw[E_FLAGS + 3] = 2
    path = tmp_path / "v2.ko"
    path.write_bytes(raw)
    with pytest.raises(WrongMachineError, match=r"v2\.ko: is for another ABI .*ppc64 is ELFv1"):
        Image.load(path, port.facts)


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize("arch", arches.names())
def test_a_segment_away_from_its_sections_is_refused(arch: str, far: bool, tmp_path: Path) -> None:
    port = arches.load(arch)
    modules = port.facts.map.modules
    if far and port.facts.modules_far is not None:
        modules = port.facts.modules_far[0]
    image = Image.load(port.images() / "vmlinux.elf", port.facts)
    raw = bytearray((port.images() / "vmlinux.elf").read_bytes())
    size, order = port.facts.pointer_size, port.facts.byteorder
    old = image.segments[0].address.to_bytes(size, order)  # type: ignore[arg-type]
    headers = bytes(raw[: 64 + 3 * 64])
    at = headers.index(old, 52 if size == 4 else 64)
    raw[at : at + size] = modules.to_bytes(size, order)  # type: ignore[arg-type]
    path = tmp_path / "kernel.elf"
    path.write_bytes(raw)
    with pytest.raises(ImageError, match=r"kernel\.elf: .*(no loadable segment|no room for)"):
        Session.open(port, MachineSpec(kernel=path))
