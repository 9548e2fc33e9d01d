"""The output of commands in tones: nothing is lost but the frames' signs."""

from __future__ import annotations

import pytest

from dynftrace.tui.present.line import plain
from dynftrace.tui.present.output import output_line, output_lines

BITS = "|11101000|10111011 11010011 11111111 00001110|"


@pytest.mark.parametrize(
    ("text", "toned"),
    [
        (BITS, ("│", "dim")),
        (BITS, ("11101000", "strong")),
        ("|opcode  |rel32      |", ("opcode  ", "accent")),
        ("ModR/M  44     mod 1, reg 0", ("ModR/M  ", "accent")),
        ("LI      001110  +4190011 words", ("001110", "strong")),
        ("ffffffff81002c40  e8 bb d3 ff 0e  call x", ("ffffffff81002c40 ", "dim")),
        ("target = ip + 5 + rel32 = ffffffff90000000", ("ffffffff90000000", "strong")),
        ("|-----+-----|", ("━━━━━", "good")),
        ("< ftrace_caller, -1 EB: out of reach", ("< ftrace_caller, -1 EB: out of reach", "bad")),
        ("      here, +16 MB ^", ("▲", "accent")),
        ("   ^ here, +16 MB", ("▲", "accent")),
        ("* changed since it was compiled", ("*", "accent")),
        ("! not what ftrace expects", ("!", "bad")),
        ("   rax 0000000000000002     rbx 0000000000000000", ("0000000000000002", "")),
        ("   rax 0000000000000002     rbx 0000000000000000", ("0000000000000000", "dim")),
    ],
)
def test_important_parts_stand_out(text: str, toned: tuple[str, str]) -> None:
    assert toned in output_line(text).spans


@pytest.mark.parametrize("text", ["", "a line of a file", "schedule", "x | y", "1 2 3"])
def test_other_text_stays(text: str) -> None:
    assert output_line(text).spans == ((text, ""),)


def test_lines_keep_their_width() -> None:
    for text in (BITS, "|-----+-----|", "  a ^ b", "   rax 0000000000000002", "LI  0011  words"):
        assert len(plain(output_line(text))) == len(text)


def test_a_field_has_one_tone_in_its_drawing_and_in_the_list() -> None:
    names, bits, _, opcode, li = output_lines(
        [
            "|opcode     |LI       |",
            "|0 1 0 0 1 0|0 0 0 0 0|",
            "",
            "opcode  010010  18, bl",
            "LI  00000  0",
        ]
    )
    tones = dict(names.spans)
    assert tones["opcode     "] != tones["LI       "]
    assert dict(bits.spans)["0 1 0 0 1 0"] == tones["opcode     "] == opcode.spans[1][1]
    assert li.spans[1] == ("00000", tones["LI       "])
