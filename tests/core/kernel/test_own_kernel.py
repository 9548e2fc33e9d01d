"""Kernels and modules built with the documented flags, with each source of call sites."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which

import numpy as np
import pytest

from dynftrace.core.errors import NoCallSitesError, UnknownRelocation

from ...support.booted import Booted, load

pytestmark = pytest.mark.skipif(
    which("gcc") is None or which("ld") is None, reason="gcc and ld are not installed"
)

FLAGS = (
    *("-O2", "-g1", "-gdwarf-5", "-ffreestanding", "-mcmodel=kernel", "-mno-red-zone"),
    *("-fcf-protection=none", "-fno-asynchronous-unwind-tables", "-mno-sse", "-pg", "-mfentry"),
)

KERNEL = r"""
#define noinline __attribute__((noinline))
noinline int add(int a, int b) { return a + b; }
noinline int twice(int a) { int two = add(a, a); __asm__ volatile(""); return two; }
int start_kernel(int a) { int n = twice(a); __asm__ volatile(""); return n + 1; }
__asm__(".globl __fentry__\n__fentry__: ret");
"""

MODULE = r"""
extern int twice(int);
static int table[4] = { 1, 2, 3, 4 };
static int *pointer = &table[2];
int probe(int n) { int t = twice(n); __asm__ volatile(""); return t + *pointer + table[n & 3]; }
"""

SCRIPT = r"""
ENTRY(start_kernel)
SECTIONS {
    . = 0xffffffff81000000;
    .text : { *(.text*) }
    . = ALIGN(4096);
    .data : { *(.data*) *(.rodata*) *(.bss*) }
    .init.data : {
        __start_mcount_loc = .;
        KEEP(*(__mcount_loc))
        __stop_mcount_loc = .;
    }
    /DISCARD/ : { *(.comment) *(.note*) }
}
"""


def compiled(folder: Path, name: str, source: str, *flags: str) -> Path:
    (folder / f"{name}.c").write_text(source)
    output = folder / f"{name}.o"
    command = ["gcc", *FLAGS, *flags, "-c", "-o", output.name, f"{name}.c"]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return output


def linked(folder: Path, flags: tuple[str, ...], script: str = SCRIPT, *options: str) -> Path:
    (folder / "k.lds").write_text(script)
    output = folder / "k.elf"
    source = compiled(folder, "k", KERNEL, "-fno-pic", *flags)
    command = ["ld", "-T", str(folder / "k.lds"), *options, "-o", str(output), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    return output


def names(guest: Booted) -> list[str]:
    return sorted(guest.ftrace.records.names)


def traced(guest: Booted) -> int:
    """Return the number of calls counted while start_kernel(5) runs."""
    ops = guest.counter()
    guest.ftrace.register(ops)
    before = guest.counted()
    assert guest.machine.requests.call(guest.address("start_kernel"), (5,)) == 11
    guest.ftrace.unregister(ops)
    return guest.counted() - before


def test_sites_come_from_the_compilers_list(tmp_path: Path) -> None:
    guest = load(linked(tmp_path, ("-mrecord-mcount",)))
    assert names(guest) == ["add", "start_kernel", "twice"]
    assert traced(guest) == 3
    assert guest.kernel.source_line(guest.address("twice")) == ("k.c", 4)


def test_without_a_list_sites_come_from_kept_relocations(tmp_path: Path) -> None:
    listed = load(linked(tmp_path, ("-mrecord-mcount",)))
    script = SCRIPT.replace("__start_mcount_loc = .;", "").replace("__stop_mcount_loc = .;", "")
    guest = load(linked(tmp_path, (), script, "--emit-relocs"))
    assert names(guest) == ["add", "start_kernel", "twice"]
    assert traced(guest) == 3
    mine, theirs = guest.ftrace.records.table["ip"], listed.ftrace.records.table["ip"]
    assert np.array_equal(mine, theirs)


def test_sites_compiled_as_nops_are_accepted(tmp_path: Path) -> None:
    guest = load(linked(tmp_path, ("-mrecord-mcount", "-mnop-mcount")))
    assert (guest.ftrace.records.compiled == np.frombuffer(b"\x0f\x1f\x44\0\0", np.uint8)).all()
    assert traced(guest) == 3


def test_a_kernel_without_list_or_relocations_is_refused(tmp_path: Path) -> None:
    script = SCRIPT.replace("__start_mcount_loc = .;", "").replace("__stop_mcount_loc = .;", "")
    with pytest.raises(NoCallSitesError, match="no call sites"):
        load(linked(tmp_path, (), script))


@pytest.mark.parametrize("flags", [("-mrecord-mcount",), ()], ids=["list", "relocations"])
def test_a_module_with_data_is_relocated_and_traced(tmp_path: Path, flags: tuple[str, ...]) -> None:
    guest = load(linked(tmp_path, ("-mrecord-mcount",)))
    loaded = guest.modules.insmod(compiled(tmp_path, "own", MODULE, "-fno-pic", *flags))
    assert [name for name in guest.ftrace.records.names if name == "probe"] == ["probe"]
    assert guest.machine.requests.call(guest.address("probe"), (1,)) == 2 + 3 + 2
    ops = guest.counter()
    guest.ftrace.register(ops)
    assert guest.machine.requests.call(guest.address("probe"), (1,)) == 7
    assert guest.counted() == 3
    assert loaded.source_line(guest.address("probe")) == ("own.c", 5)


def test_a_module_of_position_independent_code_is_refused(tmp_path: Path) -> None:
    guest = load(linked(tmp_path, ("-mrecord-mcount",)))
    pic = compiled(tmp_path, "pic", MODULE, "-fPIC", "-mcmodel=small")
    with pytest.raises(UnknownRelocation, match="GOTPCREL"):
        guest.modules.insmod(pic)
