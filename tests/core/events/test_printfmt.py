"""Print formats: what the kernel's printf and its helpers make of the fields."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from shutil import which

import pytest

from dynftrace.core.events.fields import Field, Layout
from dynftrace.core.events.printfmt import PrintFmt, PrintFmtError

LAYOUT = Layout("big", 4)
FIELDS = (
    Field("int", "a", 8, 4, True),
    Field("unsigned long", "b", 12, 4),
    Field("char", "comm[8]", 16, 8),
    Field("__data_loc char[]", "name", 24, 4),
    Field("unsigned long", "args[2]", 28, 8),
)
RECORD = struct.pack(">8xiI8sIII6s", -3, 0x8001, b"sh\0junk", 6 << 16 | 36, 7, 9, b"hello\0")


def shown(text: str) -> str:
    return PrintFmt(text, FIELDS, LAYOUT, lambda at, offset: f"f{at:x}{offset:d}").text(RECORD)


def test_fields_and_helpers() -> None:
    assert shown('"%s %s", REC->comm, __get_str(name)') == "sh hello"
    assert shown('"%lx,%lu", REC->args[0], REC->args[1]') == "7,9"
    assert shown('"%ps %pS %p", (void *)REC->b, REC->b, REC->b') == "f80010 f80011 00008001"
    flags = '__print_flags(REC->b, "|", { 0x1, "A" }, { 0x2, "B" })'
    assert shown(f'"%s" "!", {flags}') == "A|0x8000!"
    assert shown('"%s", __print_symbolic(REC->a, { -3, "low" }, { 1, "x" })') == "low"
    assert shown('"%s", REC->a < 0 && !(REC->b & 2) ? "yes" : "no"') == "yes"
    assert shown('"%ld", (long)REC->b - 0x8003') == "-2"
    assert shown('"%d%%", (unsigned char)REC->b') == "1%"


def test_a_key_hides_addresses() -> None:
    def hidden(text: str, key: bytes = b"key") -> str:
        return PrintFmt(text, FIELDS, LAYOUT, lambda at, offset: f"f{at:x}", key).text(RECORD)

    first = hidden('"%p %pK", REC->b, REC->b').split()
    assert first[0] == first[1] != "00008001" and len(first[0]) == 8
    assert hidden('"%p", REC->b', b"other") != first[0] == hidden('"%12p", REC->b').strip()
    # As on Linux, neither what asks for the address, nor NULL, nor an error pointer such as -3.
    assert (
        hidden('"%px %ps %p %p", REC->b, REC->b, 0, REC->a') == "00008001 f8001 00000000 fffffffd"
    )


def test_conversions_are_those_of_c(tmp_path: Path) -> None:
    compiler = which("cc") or which("gcc")
    if compiler is None:
        pytest.skip("a C compiler is not installed")
    formats = ["%d", "%5d", "%-5d|", "%05d", "%+d", "%x", "%X", "%08x", "%o", "%u", "%.3d", "%#o"]
    numbers = [0, 7, -3, 123456]
    source = "#include <stdio.h>\nint main(void) {\n" + "".join(
        f'printf("{each}\\n", {number});\n' for each in formats for number in numbers
    )
    (tmp_path / "t.c").write_text(source + "return 0; }\n")
    subprocess.run([compiler, "-w", "-o", tmp_path / "t", tmp_path / "t.c"], check=True)
    told = subprocess.run([tmp_path / "t"], capture_output=True, text=True, check=True).stdout
    own = [shown(f'"{each}", {number}') for each in formats for number in numbers]
    assert own == told.splitlines()
    assert shown('"%#x %#X %px %4px", 0, 0x1f, 0x1f, 0x1f') == "0x0 0X1F 0000001f   1f"  # printk


@pytest.mark.parametrize(
    "text",
    [
        *("", "REC->a", '"%d"', '"%d", REC->nosuch', '"%d", REC->a +', '"%q", 1', '"%d", f(1)'),
        *('"%d", (struct x)1', '"%s", __print_flags(1, "|", { 1 })', '"%d", 1 2', '"%d", *REC->a'),
        '"%d", ' + "(" * 3000,
    ],
)
def test_an_invalid_print_format_is_refused(text: str) -> None:
    with pytest.raises(PrintFmtError):
        shown(text)


@pytest.mark.parametrize(
    "argument",
    [
        *("!" * 9000 + "1", "1 ? 2 : " * 5000 + "3", "REC->args" + "[0]" * 6000),
        *("+".join(["REC->b"] * 4000), "*".join(["REC->b"] * 3000), "1 << " * 4000 + "1"),
        '__print_flags(~0, "' + "-" * 100_000 + '", { 1, "A" }, { 2, "B" })',
    ],
)
def test_the_largest_formats_are_printed_or_refused(argument: str) -> None:
    try:
        assert len(shown(f'"%999999d %s", {argument}, {argument}')) <= 4096
    except PrintFmtError as error:
        assert len(str(error)) < 100


def test_arithmetic_is_that_of_64_bits() -> None:
    assert shown('"%llx", ' + " * ".join(["0x123456789"] * 9)) == f"{0x123456789**9 % 2**64:x}"
    assert shown('"%d", 7 - 3 - 2 * -4 / 3 % 2') == "4"
    assert shown('"%s", __print_flags(0, "|", { 0, "none" })') == ""  # as trace_print_flags_seq()
    assert shown('"%s", __print_flags(5, "|", { 0, "any" }, { 1, "A" })') == "any|A|0x4"
