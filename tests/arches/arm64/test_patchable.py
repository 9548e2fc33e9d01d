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
from dynftrace.core.shell.shell import Shell
from dynftrace.core.views.listings import listings

from ...support.compiling import opened, trace


@pytest.mark.parametrize(
    ("flags", "offset"),
    [
        (("-fpatchable-function-entry=4,2",), 4),
        (("-fpatchable-function-entry=5,1",), 4),
        (("-fpatchable-function-entry=4,2", "-mbranch-protection=bti"), 8),
        (("-fpatchable-function-entry=2", "-mbranch-protection=bti"), 8),
    ],
)
def test_the_site_is_in_the_function_whose_nops_the_list_names(
    tmp_path: Path, flags: tuple[str, ...], offset: int
) -> None:
    session = opened("arm64", tmp_path, *flags)
    boot = session.boot
    assert sorted(boot.ftrace.records.names) == ["add", "collatz", "collatz_step", "fibonacci"]
    # A static function that is never called indirectly has no landing pad.
    # rec.ip is the second nop after that, which becomes the branch.
    ip = boot.ftrace.records.ip_of(boot.ftrace.records.names.index("fibonacci"))
    assert ip == boot.kallsyms.address("fibonacci") + offset
    boot.tracefs.write("current_tracer", "function")
    bases, memory = own_bases(boot.image), boot.machine.memory
    (shown,) = listings(boot.port, boot.image, bases, memory, boot.ftrace.records)
    assert sorted(entry.row for entry in shown.entries) == [0, 1, 2, 3]
    assert session.call("fibonacci", [4]) == 3
    called = [event.split()[0] for event in trace(session)]
    # fibonacci(4) calls itself 8 times and adds 4 times.
    assert (called.count("fibonacci"), called.count("add"), len(called)) == (9, 4, 13)


def test_nops_only_before_the_function_are_not_a_site(tmp_path: Path) -> None:
    with pytest.raises(FtraceBug, match=r"add\+0x4/.*not what the compiler left"):
        opened("arm64", tmp_path, "-fpatchable-function-entry=2,2")


def test_a_module_may_have_a_list_for_each_section_of_code(tmp_path: Path) -> None:
    """As clang makes them with -ffunction-sections."""
    clang = shutil.which("clang")
    if clang is None:
        pytest.skip("clang is not installed")
    session = Session.open(arches.load("arm64"), MachineSpec())
    info = '__attribute__((section(".modinfo"), used)) static const char'
    (tmp_path / "parts.c").write_text(
        f'{info} magic[] = "vermagic=6.1.0-dynftrace SMP preempt mod_unload aarch64";\n'
        + f'{info} name[] = "name=parts";\n'
        + "".join(f"int part_{each}(int x) {{ return x + {each}; }}\n" for each in range(3))
    )
    flags = ("-O1", "-ffreestanding", "-ffunction-sections", "-fpatchable-function-entry=2")
    command = (clang, "--target=aarch64-linux-gnu", *flags, "-c", "parts.c")
    subprocess.run([*command, "-o", "parts.ko"], cwd=tmp_path, check=True)
    shell = Shell(session)
    done = shell.execute(
        f"insmod {tmp_path / 'parts.ko'}; echo ':mod:parts' > set_ftrace_filter; "
        "echo function > current_tracer; call part_2 40; cat enabled_functions; cat trace"
    )
    assert done.status == 0, done.error
    assert "part_2 = 0x2a (42)" in done.output and ": part_2 <-" in done.output
    assert [f"part_{each} [parts]" in done.output for each in range(3)] == [True] * 3
    names = session.boot.ftrace.records.names
    listed = session.listings([names.index("part_0"), names.index("part_2")])
    assert sum(len(each.entries) for each in listed) == 2
