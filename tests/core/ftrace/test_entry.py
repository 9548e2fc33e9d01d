"""The entry code and the tracer in memory, and entry sources with missing parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynftrace import arches
from dynftrace.core.elf.image import Image
from dynftrace.core.elf.linker import TEXT, part_name
from dynftrace.core.errors import AssemblyError, MissingSymbolError
from dynftrace.core.ftrace.entry import REGION, Entry, load_entry
from dynftrace.core.kernel.kallsyms import Kallsyms
from dynftrace.core.machine.memory import Memory

from ...support import elf_writer
from ...support.keystone import needs_keystone

PORT = arches.load("x86_64")
SOURCE = PORT.entry_source()
XOR = 1 + SOURCE[: SOURCE.index("xor ")].count("\n")


def loaded(tmp_path: Path, source: str | None = None) -> tuple[Entry, Memory, Kallsyms]:
    """Entry code for a kernel with two functions."""
    path = elf_writer.write(tmp_path / "k", elf_writer.kernel(["mine", "yours"]))
    memory, kallsyms = Memory("little", 8), Kallsyms()
    kernel = Image.load(path, PORT.facts)
    return load_entry(PORT, kernel, memory, kallsyms, source), memory, kallsyms


def test_entry_code_and_tracer_are_in_memory_with_symbols(tmp_path: Path) -> None:
    entry, memory, kallsyms = loaded(tmp_path)
    assert entry.address == PORT.facts.map.tracer
    assert memory.read(entry.address, len(entry.code)) == entry.code
    for name in ("ftrace_caller", "ftrace_call", "ftrace_stub", "function_trace_call"):
        assert kallsyms.address(name) == entry[name]
        assert kallsyms.format(entry[name]).startswith(f"{name}+0x0/")
    tracer = Image.load(PORT.images() / "tracer.o", PORT.facts)
    text = tracer.section(".text")
    size = 16  # on this port the first bytes of the tracer's code have no relocation
    at = memory.region(part_name(REGION, TEXT)).address
    assert memory.read(at, size) == tracer.data(text)[:size].tobytes()


@needs_keystone
def test_a_changed_entry_source_is_what_runs(tmp_path: Path) -> None:
    entry, memory, _ = loaded(tmp_path, SOURCE.replace("ftrace_stub:\n", "ftrace_stub:\n nop\n"))
    assert memory.read(entry["ftrace_stub"], 2) == b"\x90\xc3"


@needs_keystone
def test_the_entry_source_may_call_the_kernel_and_the_tracer(tmp_path: Path) -> None:
    source = SOURCE + "\n call mine\n call function_count_call\n"
    entry, memory, _ = loaded(tmp_path, source)
    at = entry.address + len(entry.code) - 10
    assert PORT.call_target(at, memory.read(at, 5)) == elf_writer.TEXT + 16
    assert PORT.call_target(at + 5, memory.read(at + 5, 5)) == entry["function_count_call"]


@needs_keystone
@pytest.mark.parametrize(
    ("old", "new", "error", "sentence"),
    [
        (".globl ftrace_stub", "", MissingSymbolError, "entry.S: symbol ftrace_stub"),
        ("call    ftrace_stub", "call nobody", MissingSymbolError, "symbol nobody is needed"),
        ("xor     ecx, ecx", "xor ecx", AssemblyError, f"line {XOR}: "),
        (".balign 8", ".balign 8192", AssemblyError, "bytes; at most 4096 fit"),
    ],
)
def test_an_error_names_what_the_source_lacks(
    tmp_path: Path, old: str, new: str, error: type[Exception], sentence: str
) -> None:
    assert old in SOURCE
    with pytest.raises(error, match=sentence):
        loaded(tmp_path, SOURCE.replace(old, new))
