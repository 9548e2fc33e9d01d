"""Kernels at odd places and of odd sizes: the machine's own areas make room."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from dynftrace import arches
from dynftrace.core.elf.image import Image
from dynftrace.core.errors import ImageError
from dynftrace.core.kernel.fit import areas, fitted
from dynftrace.core.kernel.placed import spans
from dynftrace.core.shell.shell import Shell

from ...support import compiling
from ...support.keystone import INSTALLED, REASON

MB = 1 << 20
PATCHABLE = "-fpatchable-function-entry=2"
CASES = {
    "x86_64 at the tracer": ("x86_64", 0xFFFF_FFFF_9000_0000, 0, ()),
    "x86_64 at the modules": ("x86_64", 0xFFFF_FFFF_A000_0000, 4 * MB, ()),
    "x86_64 at the end": ("x86_64", 0xFFFF_FFFF_FF00_0000, 4 * MB, ()),
    "arm64 over tracer and modules": ("arm64", 0xFFFF_8000_0400_0000, 96 * MB, (PATCHABLE,)),
    "mips over the tracer": ("mips", 0x8020_0000, 32 * MB, ()),
    "mips at the tracer": ("mips", 0x8120_0000, 0, ()),
    "mips64 over the tracer": ("mips64", 0xFFFF_FFFF_8020_0000, 32 * MB, ()),
    "ppc32 with data out of reach": ("ppc32", 0xC201_0000, 40 * MB, ()),
}


def source(size: int) -> str:
    """Return the example kernel with `size` bytes of zeros."""
    return compiling.EXAMPLE + (f"\nchar zeros[{size}];\n" if size else "")


@pytest.mark.parametrize("case", CASES)
def test_it_is_traced_where_it_is_linked(case: str, tmp_path: Path) -> None:
    arch, text, size, flags = CASES[case]
    if arch.startswith("mips") and not INSTALLED:  # entry.S has the tracer's place
        pytest.skip(REASON)
    session = compiling.opened(arch, tmp_path, *flags, source=source(size), text=text)
    shell = Shell(session)
    found = [(span.start, span.end) for span in spans(session.image)] + [
        area for area in areas(session.port).values() if any(area)
    ]
    found.sort()
    assert all(low[1] <= high[0] for low, high in pairwise(found))
    function = session.boot.kallsyms.names_of(session.boot.ftrace.records.table["ip"])[-1]
    for tracer in ("function", "function_graph"):
        shell.execute(f"echo {tracer} > current_tracer")
        assert shell.execute(f"call {function} 3").status == 0
        assert function in session.boot.tracefs.read("trace"), tracer
    assert shell.execute("echo nop > current_tracer").status == 0


def test_a_kernel_without_room_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"kernel\.elf: .*no room for the tracer.*within reach"):
        compiling.opened("mips", tmp_path, source=source(255 * MB), text=0x8001_0000)


def test_the_teaching_kernels_keep_their_maps() -> None:
    for name in arches.names():
        port = arches.load(name)
        assert fitted(port, Image.load(port.images() / "vmlinux.elf", port.facts)) is port
