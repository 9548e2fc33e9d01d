"""The support table, derived from each port's image and verbs, as Markdown and as text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dynftrace import arches
from dynftrace.core.portcheck.support import LongSupport, StubSupport, Support, support
from dynftrace.core.portcheck.support_text import COLUMNS, support_lines, support_table
from dynftrace.core.views.call_site import Code

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
    long=None,
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


def lines_of(*ports: Support) -> list[str]:
    """The ports' blocks of text."""
    return support_lines({port.name: port for port in ports})


def table_of(*ports: Support | None) -> str:
    """The ports' tables."""
    return support_table({port.name if port else "none": port for port in ports}, "schedule")


NOPS = {"i386": "lea esi, ds:[esi]"}
"""What disables a site, by port, if it is not called a nop."""

LONG = replace(
    NEAR,
    name="long",
    reach=(0, 1 << 28),
    long=LongSupport(Code(bytes(8), "lui; jalr"), Code(b"\x10", "b 8"), Code(b"\x3c", "lui")),
)


@pytest.mark.parametrize("name", arches.names())
def test_each_port_is_described(name: str) -> None:
    port = arches.load(name)
    told = support(port)
    assert (told.name, told.bits) == (name, 8 * port.facts.pointer_size)
    forms = (told.compiled, told.disabled, told.enabled)
    (length,) = {len(form.data) for form in forms}
    lead = 4 if name == "arm64" else 0  # the word that only the first change writes
    assert length == port.facts.sites.size + lead or told.long is not None
    mcount = port.facts.sites.mcount_symbols[0]
    assert mcount in told.compiled.asm or set(told.compiled.asm.split("; ")) == {"nop"}
    assert "ftrace_caller" in told.enabled.asm
    nop = told.disabled.asm.replace(NOPS.get(name, "nop"), "nop")
    assert set(nop.replace(";", " ").split()) >= {"nop"}
    if told.long is not None:
        assert len(told.long.compiled.data) <= port.facts.sites.size
        assert told.long.enabled.data == told.long.compiled.data[: len(told.long.enabled.data)]
        assert told.long.disabled.data != told.long.enabled.data
    assert (told.stub is None) == (port.stubs is None)
    if told.stub is not None:
        stub = port.stubs.facts.names.get("ftrace_caller", "ftrace_caller.stub")
        assert stub in told.stub.enabled.asm
        assert not any(text.startswith(".") for text in told.stub.code)
    sizes = {"x86_64": (152, 328)}.get(name, ())
    assert told.trampolines == sizes
    said = "trampolines  152 or 328 bytes, one for each user if there are several"
    assert (said in "\n".join(lines_of(told))) == bool(sizes)
    assert told.listed == (port.facts.discovery[0] == "table")
    assert told.reach is None or told.reach[1] > port.facts.insn_align
    assert 0 <= told.offsets[0] <= told.offsets[1]


def test_the_reach_is_as_in_the_manual() -> None:
    bits = {"x86_64": 31, "ppc64": 25, "ppc32": 25}
    for name in set(arches.names()) & set(bits):
        reach = support(arches.load(name)).reach
        assert reach is not None
        assert all(abs(distance - 2 ** bits[name]) < 16 for distance in reach), name
    assert support(arches.load("i386")).reach is None, "i386 must reach every address"


def test_ports_without_a_table_are_described_as_discovering_sites() -> None:
    found = replace(NEAR, offsets=(4, 21), listed=False)
    assert "4 to 21 bytes into the function, found as the kernel runs" in table_of(found)
    assert "found as the kernel runs" not in table_of(NEAR, FAR, LONG)


def test_support_is_shown_as_a_table() -> None:
    assert table_of(NEAR, FAR, LONG, None) == (
        "| | compiled | disabled | enabled |\n"
        "| --- | --- | --- | --- |\n"
        "| `near` | `call __fentry__` | `nop` | `call ftrace_caller` |\n"
        "| `far` | `call __fentry__` | `nop` | `call ftrace_caller` |\n"
        "| `long` | `call __fentry__` | `nop` | `call ftrace_caller` |\n"
        "| `none` | no call site in `schedule` | | |\n"
        "\n"
        "| | enabled in a module | a call reaches | path from a module | its instructions |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| `near` | as in the kernel | +-2 GB | site -> `ftrace_caller` | as in the kernel |\n"
        "| `far` | `bl ftrace_caller.stub` | +-32 MB "
        "| site -> stub of 16 bytes -> `ftrace_caller` | `lis`, `bctr` |\n"
        "| `long` | `lui`, disabled `b 8` | its 256 MB region "
        "| site of 8 bytes -> `ftrace_caller` | `lui`, `jalr` |\n"
        "| `none` | no call site in `schedule` | | | |\n"
        "\n"
        "| | machine | call sites | trampolines | patching |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| `near` | 64-bit, little-endian | first in the function | none "
        "| `stop_machine`, `none` |\n"
        "| `far` | 32-bit, big-endian | 8 to 24 bytes into the function | none "
        "| `stop_machine`, `none` |\n"
        "| `long` | 64-bit, little-endian | first in the function | none "
        "| `stop_machine`, `none` |\n"
        "| `none` | no call site in `schedule` | | | |\n"
    )


def test_support_is_shown_as_text() -> None:
    lines = lines_of(NEAR, FAR)
    assert lines[:4] == [
        "near  64-bit, little-endian",
        "  compiled     e8 cb d4 ff ff  call __fentry__",
        "  disabled     0f 1f 44 00 00  nop",
        "  enabled      e8 bb d4 ff 0e  call ftrace_caller",
    ]
    assert "  in a module  00 00 00 00     bl ftrace_caller.stub" in lines
    at = lines.index("  path         site -> ftrace_caller -> ftrace_call -> tracer", 12)
    assert lines[at + 1 :] == [
        "               in a module: site -> stub of 16 bytes -> ftrace_caller -> …",
        "  modules      go through stubs of 16 bytes:",
        "                 lis r12, 1",
        "                 bctr",
        "  patching     stop_machine, none",
    ]
    assert support_lines({}) == []
    assert support_lines({"none": None, "near": NEAR}, "schedule")[:3] == [
        "none  has no call site in schedule",
        "",
        "near  64-bit, little-endian, schedule at 0",
    ]


def test_each_column_is_in_the_text_and_in_the_table() -> None:
    """Between them, the ports fill each column of both forms."""
    found = [NEAR, FAR, LONG, replace(NEAR, trampolines=(152,))]
    table = table_of(*found)
    for column in COLUMNS:
        assert column.heading == "machine" or any(column.lines(port) for port in found)
        assert f" {column.heading} |" in table


def test_text_distinguishes_near_and_far_modules() -> None:
    assert FAR.stub is not None
    lines = lines_of(replace(FAR, stub=replace(FAR.stub, far=True)))
    assert "  far away     00 00 00 00     bl ftrace_caller.stub" in lines
    assert "  modules      that are far away go through stubs of 16 bytes:" in lines


def test_text_shows_long_calls_one_instruction_a_line() -> None:
    lines = lines_of(LONG)
    at = lines.index("  modules      have calls of 8 bytes, which reach everything:")
    assert lines[at + 1 : at + 3] == ["                 lui", "                 jalr"]


@pytest.mark.parametrize(
    ("reach", "text"),
    [
        (None, "everywhere"),
        ((0, 1 << 28), "its 256 MB region"),
        ((128 << 20, (128 << 20) - 4), "+-128 MB"),
        ((1 << 20, (1 << 20) - 2), "+-1 MB"),
    ],
)
def test_reach_is_given_in_words(reach: tuple[int, int] | None, text: str) -> None:
    assert f"  a call       reaches {text}" in lines_of(replace(NEAR, reach=reach))
