"""Kernels that a test compiles with a cross compiler."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from dynftrace import arches
from dynftrace.core.session.session import MachineSpec, Session

GUEST = Path(__file__).resolve().parents[2] / "arches" / "guest"
EXAMPLE = (GUEST / "examples" / "kernel" / "kernel.c").read_text()
"""The example kernel."""

COMMON = (
    *("-O1", "-fno-inline", "-ffreestanding", "-fno-pic", "-fno-stack-protector"),
    *("-fno-asynchronous-unwind-tables", "-w"),
)


@dataclass(frozen=True)
class Tools:
    """How kernels of one port are built."""

    prefix: str
    """Of GCC and the linker."""
    text: int
    """Address of the first section of code."""
    flags: tuple[str, ...]


MIPS = ("-mno-abicalls", "-G0", "-msoft-float")
TOOLS = {
    "x86_64": Tools(
        "x86_64-linux-gnu-",
        0xFFFF_FFFF_8100_0000,
        ("-mcmodel=kernel", "-mno-red-zone", "-fcf-protection=none", "-mno-sse", "-pg", "-mfentry"),
    ),
    "arm64": Tools(
        "aarch64-linux-gnu-",
        0xFFFF_8000_0801_0000,
        ("-mgeneral-regs-only", "-mno-outline-atomics"),
    ),
    "ppc32": Tools("powerpc-linux-gnu-", 0xC001_0000, ("-mcpu=750", "-msoft-float", "-pg")),
    "mips": Tools("mips-linux-gnu-", 0x8020_0000, (*MIPS, "-mips32r2", "-pg")),
    "mips64": Tools(
        "mips64-linux-gnuabi64-",
        0xFFFF_FFFF_8020_0000,
        (*MIPS, "-mabi=64", "-mips64r2", "-msym32", "-pg"),
    ),
}


def opened(
    arch: str,
    folder: Path,
    *flags: str,
    source: str = EXAMPLE,
    clang: bool = False,
    text: int | None = None,
) -> Session:
    """Return a machine of `arch` with a kernel compiled from `source`.

    `text` is the address of its code, the usual one if None.
    Skips the test if a tool is not installed.
    """
    tools = TOOLS[arch]
    compiler = "clang" if clang else f"{tools.prefix}gcc"
    linker = f"{tools.prefix}ld"
    for tool in (compiler, linker):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    target = (f"--target={tools.prefix.removesuffix('-')}",) if clang else ()
    file, part, kernel = folder / "kernel.c", folder / "kernel.o", folder / "kernel.elf"
    file.write_text(source)
    compile_ = [compiler, *target, *COMMON, *tools.flags, *flags, "-c", str(file), "-o", str(part)]
    link = [linker, "-static", "-q", "-e", "0", f"-Ttext={text or tools.text:#x}", str(part)]
    for command in (compile_, [*link, "-o", str(kernel)]):
        subprocess.run(command, check=True, capture_output=True)
    return Session.open(arches.load(arch), MachineSpec(kernel=kernel))


def trace(session: Session) -> list[str]:
    """Return the events in the trace, as the text after the time stamp, and rows of stacks."""
    lines = session.boot.tracefs.read("trace").splitlines()
    return [line.split(": ", 1)[-1] for line in lines if not line.startswith("#")]


def graph(session: Session) -> list[str]:
    """Return the calls in the trace of `function_graph`, indented by their depth."""
    lines = session.boot.tracefs.read("trace").splitlines()
    return [line.split("|", 1)[1].rstrip()[2:] for line in lines if not line.startswith("#")]
