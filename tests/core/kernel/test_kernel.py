"""Users' own kernels: a few functions, with and without a boot entry."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from dynftrace import arches
from dynftrace.core.errors import DynftraceError, GuestError, ImageError
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None or shutil.which("ld") is None, reason="needs gcc and ld"
)

SOURCE = r"""
__attribute__((noinline)) int add(int a, int b) { return a + b; }
__attribute__((noinline)) int twice(int a) { return add(a, a) + 0 * a; }
int work(int n) { int s = 0; for (int i = 1; i <= n; i++) s += twice(i); return s; }
int wild(void) { return *(volatile int *)8; }
int through(int (*function)(void)) { return function() + 1; }
__asm__(".globl __fentry__\n__fentry__: ret\n");
"""

SCRIPT = """
SECTIONS {
    . = 0xffffffff81000000;
    .text : { *(.text*) }
    . = ALIGN(4096);
    .rodata : { *(.rodata*) }
    .init.data : { __start_mcount_loc = .; KEEP(*(__mcount_loc)) __stop_mcount_loc = .; }
    .data : { *(.data*) }
    .bss : { *(.bss*) *(COMMON) }
}
"""

FLAGS = (
    "-O2 -ffreestanding -fno-pic -mcmodel=kernel -mno-red-zone -fcf-protection=none "
    "-fno-asynchronous-unwind-tables -fno-optimize-sibling-calls -fno-ipa-ra "
    "-pg -mfentry -mrecord-mcount"
)


def build(folder: Path, source: str) -> Path:
    """Compile and link a kernel as documented."""
    (folder / "kernel.c").write_text(source)
    (folder / "kernel.lds").write_text(SCRIPT)
    compile_ = ["gcc", *FLAGS.split(), "-c", "kernel.c", "-o", "kernel.o"]
    link = ["ld", "-T", "kernel.lds", "--no-warn-rwx-segments", "kernel.o", "-o", "kernel.elf"]
    subprocess.run(compile_, cwd=folder, check=True)
    subprocess.run(link, cwd=folder, check=True)
    return folder / "kernel.elf"


def opened(path: Path) -> Session:
    return Session.open(arches.load(arches.DEFAULT), MachineSpec(kernel=path, cpus=1))


def test_a_kernel_without_a_boot_entry_can_be_called_and_traced(tmp_path: Path) -> None:
    shell = Shell(opened(build(tmp_path, SOURCE)))
    outcome = shell.execute(
        "echo add > set_ftrace_filter; echo function > current_tracer; call work 3; cat trace"
    )
    assert (outcome.error, outcome.status) == ("", 0)
    assert outcome.output.startswith("work = 0xc (12)\n")
    events = [line for line in outcome.output.splitlines() if " <-" in line]
    assert [line.split(": ")[1] for line in events] == ["add <-twice"] * 3
    assert shell.execute("echo mark > trace_marker; cat trace_pipe").output.endswith("mark\n")
    assert (
        shell.execute("run boot").error
        == "run: unknown workload 'boot': this kernel has no workloads\n"
    )


def test_a_fault_in_a_call_is_reported_and_the_session_continues(tmp_path: Path) -> None:
    shell = Shell(opened(build(tmp_path, SOURCE)))
    outcome = shell.execute("call wild")
    assert outcome.status == 1 and "NULL pointer dereference" in outcome.error
    assert "wild+0x" in shell.execute("dmesg").output
    outcome = shell.execute("call through 0")
    assert "led to 0x0: a pointer to a function is NULL" in outcome.error
    assert shell.execute("call work 1").output == "work = 0x2 (2)\n"


def test_code_in_a_segment_of_data_runs(tmp_path: Path) -> None:
    """Some kernels have their init code there, and make it executable as they boot."""
    path = build(tmp_path, SOURCE)
    raw = bytearray(path.read_bytes())
    # p_flags of the first ELF64 program header, of .text: offset 4 in the header at e_phoff 64.
    assert raw[64 + 4] == 5
    raw[64 + 4] = 6
    path.write_bytes(bytes(raw))
    assert Shell(opened(path)).execute("call work 3").output == "work = 0xc (12)\n"


def test_a_boot_that_never_ends_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dynftrace.core.session.session.BOOT_LIMIT_NS", 20_000_000)
    source = SOURCE + '__asm__(".globl _start\\n_start: jmp _start\\n");'
    path = build(tmp_path, source)
    with pytest.raises(GuestError, match=r"the boot did not finish within 0\.020 s"):
        opened(path)


def test_a_kernel_without_mcount_is_refused(tmp_path: Path) -> None:
    source = SOURCE.replace("__fentry__: ret", "__fentry__: ret\\n.set gone, 0")
    path = build(tmp_path, source)
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"\0__fentry__\0", b"\0__gentry__\0"))
    with pytest.raises(DynftraceError, match="symbol __fentry__ is needed"):
        opened(path)


def test_a_segment_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = build(tmp_path, SOURCE)
    raw = bytearray(path.read_bytes())
    # p_memsz of the first ELF64 program header: offset 40 in the header at e_phoff 64.
    raw[64 + 40 : 64 + 48] = (1 << 45).to_bytes(8, "little")
    path.write_bytes(bytes(raw))
    with pytest.raises(ImageError) as caught:
        opened(path)
    assert str(path) in str(caught.value)
