"""Opening a large kernel: 40,000 call sites, 130,000 symbols."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.elffile import ELFFile

from dynftrace import arches
from dynftrace.core.session.session import MachineSpec, Session

from ..support import elf_writer
from .measure import Row, paired

SITES = 40_000
OTHERS = 90_000


def rows() -> Iterator[Row]:
    """Compare opening a session with one walk over the symbols."""
    port = arches.load(arches.DEFAULT)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vmlinux"
        path.write_bytes(elf_writer.kernel(SITES, OTHERS))

        def open_session() -> int:
            return len(Session.open(port, MachineSpec(kernel=path)).boot.ftrace.records)

        def walk() -> int:
            with path.open("rb") as file:
                table = ELFFile(file).get_section_by_name(".symtab")
                return sum(1 for _ in table.iter_symbols())

        assert open_session() == SITES
        pair = paired(open_session, walk, rounds=3)
    yield Row(
        "open 40,000 sites, 130,000 symbols",
        f"{pair.a * 1e3:.0f} ms",
        pair.ratio,
        "iter_symbols over the same file",
        "<= 1 s, < 0.45",
        pair.a <= 1.0 and pair.ratio < 0.45,
    )
