"""The examples in arches/guest, built with the commands from its README."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dynftrace import arches
from dynftrace.core.session.session import MachineSpec, Session

GUEST = Path(__file__).resolve().parents[2] / "arches" / "guest"


TOOLS = {
    "x86_64": ("", "x86_64"),
    "i386": ("i686-linux-gnu-", "i686-"),
    "ppc64": ("powerpc64-linux-gnu-", "powerpc64-"),
    "ppc32": ("powerpc-linux-gnu-", "powerpc-"),
    "mips": ("mips-linux-gnu-", "mips-"),
    "mipsel": ("mipsel-linux-gnu-", "mipsel-"),
    "mips64": ("mips64-linux-gnuabi64-", "mips64-"),
    "arm64": ("aarch64-linux-gnu-", "aarch64-"),
    "arm64-mcount": ("aarch64-linux-gnu-", "aarch64-"),
}
"""The prefix of each port's tools, and the machine they are for."""

SAME = {"mipsel-linux-gnu-": "mips-linux-gnu-"}
"""Tools that use another port's commands with this prefix."""

BUILDS = {
    "arm64-mcount": ("-fpatchable-function-entry=2 (-DCC_USING_PATCHABLE_FUNCTION_ENTRY )?", "-pg ")
}
"""Builds that use another port's commands with these flags."""


@pytest.fixture(params=TOOLS)
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def build(arch: str, source: str, folder: Path) -> None:
    """Run the README's commands for `source` in `folder`; skip without a compiler."""
    prefix, expected = TOOLS[arch]
    if shutil.which(prefix + "gcc") is None or shutil.which(prefix + "ld") is None:
        pytest.skip(f"{prefix}gcc and {prefix}ld are not installed")
    command = [prefix + "gcc", "-dumpmachine"]
    machine = subprocess.run(command, capture_output=True, text=True).stdout
    if not machine.startswith(expected):
        pytest.skip(f"{prefix}gcc is for {machine.strip()}")
    shutil.copy(next(GUEST.glob(f"examples/*/{source}")), folder)
    shutil.copytree(GUEST / "include", folder / "include")
    blocks = re.findall(r"```sh\n(.*?)```", (GUEST / "README.md").read_text(), re.DOTALL)
    written = SAME.get(prefix, prefix)
    (block,) = (block for block in blocks if source in block and block.startswith(written + "gcc "))
    block = re.sub(rf"^{written}", prefix, block, flags=re.MULTILINE) if prefix else block
    block = re.sub(*BUILDS.get(arch, ("^", "")), block)
    subprocess.run(["sh", "-e", "-c", block], cwd=folder, check=True, capture_output=True)


def functions(session: Session) -> set[str]:
    """Return the traceable functions by C name, without the dot of code symbols."""
    return {name.removeprefix(".") for name in session.function_names()}


def calls(session: Session) -> list[str]:
    """Return the events in the trace: function and caller by C name."""
    lines = [line for line in session.boot.tracefs.read("trace").splitlines() if line[0] != "#"]
    return [
        re.sub(r"\.?(\w+)( \[\w+\])? <-\.?(\w+).*", r"\1 <- \3", line.split(": ")[1])
        for line in lines
    ]


def test_the_example_kernel_is_built_and_traced(arch: str, tmp_path: Path) -> None:
    build(arch, "kernel.c", tmp_path)
    session = Session.open(arches.load(arch), MachineSpec(kernel=tmp_path / "kernel.elf"))
    assert functions(session) == {"add", "fibonacci", "collatz_step", "collatz"}
    described = ["ftrace", "header_event", "header_page"]
    assert session.boot.tracefs.listdir("events") == ["enable", *described]
    assert session.boot.tracefs.read("events/enable") == "?\n"
    session.boot.tracefs.write("set_ftrace_filter", "add")
    session.boot.tracefs.write("current_tracer", "function")
    assert session.call("fibonacci", [10]) == 55
    assert session.call("collatz", [27]) == 111
    # fibonacci(10) adds once for each pair of recursive calls
    assert calls(session) == ["add <- fibonacci"] * 88


def test_the_example_module_is_built_and_traced(arch: str, tmp_path: Path) -> None:
    build(arch, "hello.c", tmp_path)
    session = Session.open(arches.load(arch))
    session.insmod(str(tmp_path / "hello.ko"))
    session.boot.tracefs.write("set_ftrace_filter", "hello_count")
    session.boot.tracefs.write("current_tracer", "function")
    assert session.call("hello_greet", [2]) == 2
    assert session.call("hello_greet", [3]) == 5
    assert calls(session) == ["hello_count <- hello_greet"] * 5
    assert "hello: 5 so far" in session.boot.machine.dmesg.text()
    session.rmmod("hello")
    assert "hello_count" not in functions(session)
