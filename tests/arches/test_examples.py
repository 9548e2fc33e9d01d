"""The examples of arches/guest, built with the very commands its README gives."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dynftrace import arches
from dynftrace.core.session import MachineSpec, Session

GUEST = Path(__file__).resolve().parents[2] / "arches" / "guest"


def build(source: str, folder: Path) -> None:
    """Run the README's commands for `source` in `folder`; skips without a compiler."""
    if shutil.which("gcc") is None or shutil.which("ld") is None:
        pytest.skip("gcc and ld are not installed")
    machine = subprocess.run(["gcc", "-dumpmachine"], capture_output=True, text=True).stdout
    if not machine.startswith("x86_64"):
        pytest.skip(f"gcc is for {machine.strip()}")
    shutil.copy(next(GUEST.glob(f"examples/*/{source}")), folder)
    shutil.copytree(GUEST / "include", folder / "include")
    blocks = re.findall(r"```sh\n(.*?)```", (GUEST / "README.md").read_text(), re.DOTALL)
    (block,) = (block for block in blocks if source in block)
    subprocess.run(["sh", "-e", "-c", block], cwd=folder, check=True, capture_output=True)


def test_a_kernel_of_ones_own(tmp_path: Path) -> None:
    build("kernel.c", tmp_path)
    session = Session.open(arches.load("x86_64"), MachineSpec(kernel=tmp_path / "kernel.elf"))
    assert set(session.function_names()) == {"add", "fibonacci", "collatz_step", "collatz"}
    session.tracefs.write("set_ftrace_filter", "add")
    session.tracefs.write("current_tracer", "function")
    assert session.call("fibonacci", [10]) == 55
    assert session.call("collatz", [27]) == 111
    lines = [line for line in session.tracefs.read("trace").splitlines() if line[0] != "#"]
    assert len(lines) == 88  # fibonacci(10) adds as often as it calls itself twice
    assert all("add <-fibonacci" in line for line in lines)


def test_a_module_of_ones_own(tmp_path: Path) -> None:
    build("hello.c", tmp_path)
    session = Session.open(arches.load("x86_64"))
    session.insmod(str(tmp_path / "hello.ko"))
    session.tracefs.write("set_ftrace_filter", "hello_count")
    session.tracefs.write("current_tracer", "function")
    assert session.call("hello_greet", [2]) == 2
    assert session.call("hello_greet", [3]) == 5
    lines = [line for line in session.tracefs.read("trace").splitlines() if line[0] != "#"]
    assert len(lines) == 5
    assert all("hello_count <-hello_greet" in line for line in lines)
    assert "hello: 5 so far" in session.machine.dmesg.text()
    session.rmmod("hello")
    assert "hello_count" not in session.function_names()
