"""Kernels with nops before their functions, as -fpatchable-function-entry=N,M leaves them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from dynftrace import arches
from dynftrace.core.errors import FtraceBug
from dynftrace.core.ftrace.sites import own_bases
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.views.listings import listing

GUEST = Path(__file__).resolve().parents[3] / "arches" / "guest"
TOOLS = "aarch64-linux-gnu-"
FLAGS = (
    *("-O1", "-fno-inline", "-ffreestanding", "-fno-pic", "-fno-asynchronous-unwind-tables"),
    *("-mgeneral-regs-only", "-mno-outline-atomics"),
)

pytestmark = pytest.mark.skipif(
    shutil.which(TOOLS + "gcc") is None, reason=f"{TOOLS}gcc is not installed"
)


def opened(folder: Path, *flags: str) -> Session:
    """Return a machine with the example kernel, compiled with `flags`."""
    part, kernel = folder / "kernel.o", folder / "kernel.elf"
    source = GUEST / "examples" / "kernel" / "kernel.c"
    link = ("-static", "-e", "0", "-Ttext=0xffff800008010000", "-o", str(kernel), str(part))
    for tool, options in (
        ("gcc", (*FLAGS, *flags, "-c", str(source), "-o", str(part))),
        ("ld", link),
    ):
        subprocess.run([TOOLS + tool, *options], check=True, capture_output=True)
    return Session.open(arches.load("arm64"), MachineSpec(kernel=kernel))


@pytest.mark.parametrize(
    ("flags", "offset"),
    [
        (("-fpatchable-function-entry=4,2",), 0),
        (("-fpatchable-function-entry=3,1",), 0),
        (("-fpatchable-function-entry=4,2", "-mbranch-protection=bti"), 4),
        (("-fpatchable-function-entry=2", "-mbranch-protection=bti"), 4),
    ],
)
def test_the_site_is_in_the_function_whose_nops_the_list_names(
    tmp_path: Path, flags: tuple[str, ...], offset: int
) -> None:
    session = opened(tmp_path, *flags)
    boot = session.boot
    assert sorted(boot.ftrace.records.names) == ["add", "collatz", "collatz_step", "fibonacci"]
    # Only functions that are called indirectly have a landing pad.
    ip = boot.ftrace.records.ip_of(boot.ftrace.records.names.index("fibonacci"))
    assert ip == boot.kallsyms.address("fibonacci") + offset
    boot.tracefs.write("current_tracer", "function")
    bases, memory = own_bases(boot.image), boot.machine.memory
    shown = listing(boot.port, boot.image, bases, memory, boot.ftrace.records)
    assert shown is not None and sorted(entry.row for entry in shown.entries) == [0, 1, 2, 3]
    assert session.call("fibonacci", [4]) == 3
    lines = [line for line in boot.tracefs.read("trace").splitlines() if line[0] != "#"]
    called = [line.split()[-2] for line in lines]
    # fibonacci(4) calls itself 8 times and adds 4 times.
    assert (called.count("fibonacci"), called.count("add"), len(called)) == (9, 4, 13)


def test_nops_only_before_the_function_are_no_site(tmp_path: Path) -> None:
    with pytest.raises(FtraceBug, match=r"add\+0x0/.*not what the compiler left"):
        opened(tmp_path, "-fpatchable-function-entry=2,2")
