"""Kernels and modules built with the documented flags, with each source of call sites."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from shutil import which

import numpy as np
import pytest

from dynftrace import arches
from dynftrace.core.errors import (
    ImageError,
    NoCallSitesError,
    TracefsError,
    UnknownRelocation,
    UsageError,
)
from dynftrace.core.ftrace.records import Flag
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

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


NO_LIST = SCRIPT.replace("__start_mcount_loc = .;", "").replace("__stop_mcount_loc = .;", "")

NOP5 = b"\x0f\x1f\x44\0\0"


def compiled(
    folder: Path,
    name: str,
    text: str,
    *flags: str,
    base: Sequence[str] = FLAGS,
    cc: str = "gcc",
) -> Path:
    (folder / f"{name}.c").write_text(text)
    output = folder / f"{name}.o"
    command = [cc, *base, *flags, "-c", "-o", output.name, f"{name}.c"]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return output


def linked(
    folder: Path,
    flags: tuple[str, ...],
    script: str = SCRIPT,
    *options: str,
    source: str = KERNEL,
    base: Sequence[str] = FLAGS,
    cc: str = "gcc",
) -> Path:
    (folder / "k.lds").write_text(script)
    output = folder / "k.elf"
    part = compiled(folder, "k", source, "-fno-pic", *flags, base=base, cc=cc)
    command = ["ld", "-T", str(folder / "k.lds"), *options, "-o", str(output), str(part)]
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
    guest = load(linked(tmp_path, (), NO_LIST, "--emit-relocs"))
    assert names(guest) == ["add", "start_kernel", "twice"]
    assert traced(guest) == 3
    mine, theirs = guest.ftrace.records.table["ip"], listed.ftrace.records.table["ip"]
    assert np.array_equal(mine, theirs)


def test_sites_compiled_as_nops_are_accepted(tmp_path: Path) -> None:
    guest = load(linked(tmp_path, ("-mrecord-mcount", "-mnop-mcount")))
    assert (guest.ftrace.records.compiled == np.frombuffer(NOP5, np.uint8)).all()
    assert traced(guest) == 3


def test_without_list_and_relocations_the_code_is_searched_for_calls(tmp_path: Path) -> None:
    path = linked(tmp_path, (), NO_LIST)
    guest = load(path)
    listing = subprocess.run(["objdump", "-d", str(path)], check=True, capture_output=True)
    calls = re.findall(rb"^(\w+):.*call.*<__fentry__>", listing.stdout, re.M)
    assert len(calls) == 3
    assert guest.ftrace.records.table["ip"].tolist() == sorted(int(each, 16) for each in calls)
    assert traced(guest) == 3


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", ["=5", "=8,3"])
def test_the_list_may_be_that_of_patchable_entries(
    tmp_path: Path, compiler: str, flags: str
) -> None:
    if which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    options = ("-fpatchable-function-entry" + flags, "-fcf-protection=branch")
    script = NO_LIST.replace("(__mcount_loc)", "(__nothing)")
    # Nothing calls __fentry__, so the kernel needs none.
    source = KERNEL.replace("__fentry__", "__other__")
    plain = [flag for flag in FLAGS if flag not in ("-pg", "-mfentry")]
    guest = load(linked(tmp_path, options, script, source=source, base=plain, cc=compiler))
    assert names(guest) == ["add", "start_kernel", "twice"]
    assert traced(guest) == 3


WEAK = """
int kept(int a) { return a; }
__attribute__((weak)) int arch_add(int a) { return a + 1; }
int last(int a) { return arch_add(kept(a)); }
__asm__(".globl __fentry__\\n__fentry__: ret");
"""


def test_the_site_of_an_overridden_weak_function_is_never_enabled(tmp_path: Path) -> None:
    flags = ("-fno-pic", "-fno-inline", "-O1", "-mrecord-mcount")
    weak = compiled(tmp_path, "k", WEAK, *flags)
    strong = compiled(tmp_path, "strong", "int arch_add(int a) { return a + 10; }", *flags)
    (tmp_path / "k.lds").write_text(SCRIPT.replace("start_kernel", "last"))
    kernel = tmp_path / "k.elf"
    command = ["ld", "-T", str(tmp_path / "k.lds"), "-o", str(kernel), str(weak), str(strong)]
    subprocess.run(command, check=True, capture_output=True)
    session = Session.open(arches.load("x86_64"), MachineSpec(kernel=kernel))
    tree, records = session.boot.tracefs, session.boot.ftrace.records
    (dead,) = np.flatnonzero(records.flagged(Flag.DISABLED)).tolist()
    offset = records.ip_of(dead) - session.boot.kallsyms.address("kept")
    assert sorted(tree.read("available_filter_functions").split()) == sorted(
        ["kept", "last", "arch_add", f"__ftrace_invalid_address___{offset}"]
    )
    with pytest.raises(TracefsError, match="Invalid argument"):
        tree.write("set_ftrace_filter", f"__ftrace_invalid_address___{offset}\n")
    tree.write("current_tracer", "function")
    assert session.call("last", [5]) == 15
    traced = [line.split()[-2] for line in tree.read("trace").splitlines() if line[0] != "#"]
    assert traced == ["last", "kept", "arch_add"]
    assert session.boot.machine.memory.read(records.ip_of(dead), 5) == NOP5
    assert sorted(line.split()[0] for line in tree.read("enabled_functions").splitlines()) == [
        *("arch_add", "kept", "last"),
    ]


SAME_NAMES = """
int ftrace_caller(int a) { return a + 1; }
int function_trace_call(int a) { return ftrace_caller(a); }
unsigned long trace_counter = 7, fgraph, return_to_handler, function_trace_stop;
__asm__(".globl __fentry__\\n__fentry__: ret");
"""


def test_names_of_the_tracer_may_be_the_kernels_too(tmp_path: Path) -> None:
    script = SCRIPT.replace("start_kernel", "function_trace_call")
    flags = ("-fno-inline", "-O1", "-mrecord-mcount")
    session = Session.open(
        arches.load("x86_64"),
        MachineSpec(kernel=linked(tmp_path, flags, script, source=SAME_NAMES)),
    )
    kernel = session.boot.image.symbols.address_of("ftrace_caller")
    entry = session.boot.ftrace.entry["ftrace_caller"]
    shell = Shell(session)
    for tracer in ("function", "function_graph"):
        session.boot.tracefs.write("current_tracer", tracer)
        assert session.call("function_trace_call", [4]) == 5
        traced = shell.execute("cat trace").output
        assert traced.count("ftrace_caller") == 1 and traced.count("function_trace_call") >= 1
    assert session.address_of("ftrace_caller") == kernel
    assert session.address_of("ftrace_caller+0x2") == kernel + 2
    for text in ("ftrace_caller [tracer]", "ftrace_caller[tracer]"):
        assert session.address_of(text) == entry
    assert session.address_of("ftrace_caller+0x4 [tracer]") == entry + 4
    outcome = shell.execute("poke 'ftrace_caller [tracer]' 0x90")
    assert outcome.output.startswith(f"{entry:x} ftrace_caller+0x0/")
    assert outcome.output.splitlines()[0].endswith(" [tracer]")
    with pytest.raises(UsageError, match=r"\[usb\] has no symbol 'ftrace_caller'"):
        session.address_of("ftrace_caller [usb]")
    # A name that only the tracer has is shown without an owner.
    stub = session.boot.ftrace.entry["ftrace_stub"]
    assert session.boot.kallsyms.name(stub) == "ftrace_stub"


@pytest.mark.parametrize(
    ("address", "size", "area"),
    [
        (0xFFFF_FFFF_9000_8000, 0, "the tracer"),
        (0xFFFF_FFFF_8F00_0000, 32 << 20, "the tracer"),
        (0xFFFF_8880_0000_0000, 0, "the machine's free RAM"),
    ],
)
def test_a_kernel_that_lies_in_an_area_of_the_machine_is_refused(
    tmp_path: Path, address: int, size: int, area: str
) -> None:
    script = SCRIPT.replace("0xffffffff81000000", f"{address:#x}")
    script = script.replace("*(.rodata*)", f"*(.rodata*) . += {size:#x};")
    path = linked(tmp_path, ("-mrecord-mcount", "-mcmodel=large"), script)
    with pytest.raises(ImageError, match=rf"k\.elf: its memory at 0x\w+-0x\w+ overlaps {area}"):
        load(path)


def test_a_kernel_without_any_call_says_what_it_lacks(tmp_path: Path) -> None:
    script = NO_LIST.replace("*(__mcount_loc)", "*(__nothing)")
    plain = [flag for flag in FLAGS if flag not in ("-pg", "-mfentry")]
    with pytest.raises(NoCallSitesError, match="its code never calls __fentry__"):
        load(linked(tmp_path, (), script, base=plain))


def test_a_stripped_kernel_is_refused_for_its_missing_symbols(tmp_path: Path) -> None:
    path = linked(tmp_path, ("-mrecord-mcount",))
    subprocess.run(["strip", str(path)], check=True)
    with pytest.raises(NoCallSitesError, match=r"k\.elf: it has no symbols"):
        load(path)


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
