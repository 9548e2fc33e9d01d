"""Bit fields as text: to scale, with a ruler, and the range of targets on a line."""

from __future__ import annotations

from dynftrace.core.encoding import BitField, Encoding, cut
from dynftrace.core.shell.text.encoding import encoding_lines, out_of_reach_lines
from dynftrace.core.views.disasm import Insn
from dynftrace.core.views.encoding import EncodingView, Goal, OutOfReach

INSN = Insn(0x1000, bytes.fromhex("4b"), "bl", "0xff0", 0xFF0)


def test_each_bit_has_the_same_width() -> None:
    fields = cut(0b010010_11, ("opcode", 6, "18, b"), ("AA", 1, "absolute"), ("LK", 1, "links"))
    lines = encoding_lines(
        EncodingView(INSN, "bl there", Encoding("I-form", fields, from_left=True))
    )
    assert lines == [
        "1000  4b  bl there",
        "I-form",
        "",
        " 0           6 7",
        "|opcode     |A|L|",
        "|0 1 0 0 1 0|1|1|",
        "",
        "opcode  010010  18, b",
        "AA      1       absolute",
        "LK      1       links",
    ]


def test_bytes_are_numbered_in_memory_order_and_bits_from_the_right() -> None:
    fields = (BitField("opcode", "11101000"), BitField("rel8", "00000001"))
    lines = encoding_lines(EncodingView(INSN, "", Encoding("", fields, 8, True)))
    assert lines[3:6] == [" 0        1", "|opcode  |rel8    |", "|11101000|00000001|"]
    assert lines[-1] == "rel8    01"
    fields = (BitField("opcode", "11101000", "call"), BitField("rel16", "0" * 16, "+0 bytes"))
    lines = encoding_lines(EncodingView(INSN, "", Encoding("", fields, 8, True)))
    assert lines[-2:] == ["opcode  e8     call", "rel16   00 00  +0 bytes"]
    lines = encoding_lines(EncodingView(INSN, "", Encoding("", cut(1, ("a", 3), ("b", 5)))))
    assert lines[3] == " 7     4"


def test_targets_are_marked_on_the_line_or_beyond_its_ends() -> None:
    encoding = Encoding("", cut(0, ("LI", 8)), rule="target = ip + LI * 4", reach=(0x0C00, 0x13FF))
    goals = (Goal("here", 0x1000), Goal("far", 0x10_1000), Goal("low", 0), Goal("end", 0x13FF))
    lines = encoding_lines(EncodingView(INSN, "", encoding, goals))
    assert "target = ip + LI * 4 = ff0" in lines
    ruler, line, *marks = lines[-6:]
    assert ruler.split() == ["-1", "KB", "ip", "+1023", "bytes"]
    assert len(line) == len(ruler) == 61
    assert line[0] == line[-1] == "|" and line.index("+") == ruler.index("ip")
    assert marks[0] == "< low, -4 KB: out of reach"
    assert marks[1] == " " * line.index("+") + "^ here, +0 bytes"
    assert marks[2].endswith("end, +1023 bytes ^") and len(marks[2]) == 61
    assert marks[3].endswith("far, +1 MB: out of reach >") and len(marks[3]) == 61


def test_an_instruction_without_described_fields_says_so() -> None:
    assert encoding_lines(EncodingView(INSN, "x", None)) == [
        "1000  4b  x",
        "the bit fields of this instruction are not described",
    ]


def test_an_instruction_of_an_enabled_site_is_labelled() -> None:
    assert encoding_lines(EncodingView(INSN, "x", None, if_enabled=True))[0].endswith(
        "x  (when enabled)"
    )


def test_a_call_out_of_reach_states_its_range() -> None:
    assert out_of_reach_lines(None) == ()
    assert out_of_reach_lines(
        OutOfReach("ftrace_caller", 3 << 30, (-(1 << 25), (1 << 25) - 4))
    ) == (
        "ftrace_caller is out of reach, +3 GB from the site:",
        "its call reaches -32 MB to +32 MB",
    )
