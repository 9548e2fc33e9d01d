"""Each port told by its image and verbs, and the two ways it is shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dynftrace import arches
from dynftrace.core.views.callsite import Code
from dynftrace.core.views.support import StubSupport, Support, support
from dynftrace.core.views.supporttext import support_lines, support_table

NEAR = Support(
    name="near",
    bits=64,
    byteorder="little",
    compiled=Code(bytes.fromhex("e8cbd4ffff"), "call __fentry__"),
    disabled=Code(bytes.fromhex("0f1f440000"), "nop"),
    enabled=Code(bytes.fromhex("e8bbd4ff0e"), "call ftrace_caller"),
    offsets=(0, 0),
    reach=(2**31 - 5, 2**31 + 4),
    stub=None,
    patch_methods=("stop_machine", "none"),
)
FAR = replace(
    NEAR,
    name="far",
    bits=32,
    byteorder="big",
    offsets=(8, 24),
    reach=(0x200_0000, 0x1FF_FFFC),
    stub=StubSupport(16, ("lis r12, 1", "bctr"), Code(bytes(4), "bl ftrace_caller.stub")),
)


@pytest.mark.parametrize("name", arches.names())
def test_each_port(name: str) -> None:
    port = arches.load(name)
    told = support(port)
    assert (told.name, told.bits) == (name, 8 * port.facts.pointer_size)
    forms = (told.compiled, told.disabled, told.enabled)
    assert {len(form.data) for form in forms} == {port.facts.sites.size}
    mcount = port.facts.sites.mcount_symbols[0]
    assert mcount in told.compiled.asm and "ftrace_caller" in told.enabled.asm
    assert set(told.disabled.asm.replace(";", " ").split()) >= {"nop"}
    assert (told.stub is None) == (port.stubs is None)
    if told.stub is not None:
        assert "ftrace_caller.stub" in told.stub.enabled.asm
        assert not any(text.startswith(".") for text in told.stub.code)
    assert told.reach is not None and told.reach[0] > port.facts.insn_align
    assert 0 <= told.offsets[0] <= told.offsets[1]


def test_the_reach_is_what_the_manual_says() -> None:
    bits = {"x86_64": 31, "ppc64": 25, "ppc32": 25}
    for name in set(arches.names()) & set(bits):
        reach = support(arches.load(name)).reach
        assert reach is not None
        assert all(abs(distance - 2 ** bits[name]) < 16 for distance in reach), name


def test_as_a_table() -> None:
    assert support_table([NEAR, FAR]) == (
        "| | `near` | `far` |\n"
        "|---|---|---|\n"
        "| machine | 64-bit, little-endian | 32-bit, big-endian |\n"
        "| call site as compiled | `call __fentry__` | `call __fentry__` |\n"
        "| where it is | first in the function | 8 to 24 bytes into the function |\n"
        "| disabled | `0f 1f 44 00 00` `nop` | `0f 1f 44 00 00` `nop` |\n"
        "| enabled | `call ftrace_caller` | `call ftrace_caller` |\n"
        "| a call reaches | +-2 GB | +-32 MB |\n"
        "| calls of modules | reach all without stubs "
        "| through stubs of 16 bytes: `lis`, `bctr` |\n"
        "| enabled in a module | as in the kernel | `bl ftrace_caller.stub` |\n"
        "| patching | `stop_machine`, `none` | `stop_machine`, `none` |\n"
    )


def test_as_text() -> None:
    lines = support_lines([NEAR, FAR])
    assert lines[:4] == [
        "near  64-bit, little-endian",
        "  as compiled  e8 cb d4 ff ff  call __fentry__",
        "  disabled     0f 1f 44 00 00  nop",
        "  enabled      e8 bb d4 ff 0e  call ftrace_caller",
    ]
    assert "  in a module  00 00 00 00     bl ftrace_caller.stub" in lines
    assert lines[-4:] == [
        "  modules      go through stubs of 16 bytes:",
        "                 lis r12, 1",
        "                 bctr",
        "  patching     stop_machine, none",
    ]
    assert support_lines(()) == []


@pytest.mark.parametrize(
    ("reach", "text"),
    [
        (None, "everywhere"),
        ((0, 1 << 28), "-0 bytes to +256 MB"),
        ((128 << 20, (128 << 20) - 4), "+-128 MB"),
        ((1 << 20, (1 << 20) - 2), "+-1 MB"),
    ],
)
def test_reach_in_words(reach: tuple[int, int] | None, text: str) -> None:
    assert f"  a call       reaches {text}" in support_lines([replace(NEAR, reach=reach)])
