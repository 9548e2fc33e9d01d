"""Definitions of synthetic events."""

from __future__ import annotations

import pytest

from dynftrace.core.events.synth import SynthError, parse_synth


def test_types_have_the_sizes_of_the_guest_and_places_of_u64() -> None:
    text = "u64 a; s8 b int c ;unsigned long d; char e[10]; char f[]; bool g"
    for long in (4, 8):
        event = parse_synth("one", text, long, lambda _: False)
        assert [each.size for each in event.fields] == [8, 1, 4, long, 10, 8, 1]
        assert [each.offset for each in event.fields] == [8, 16, 24, 32, 40, 296, 304]
        assert [each.signed for each in event.synth_fields][:4] == [False, True, True, False]
    assert event.line == ("one\tu64 a; s8 b; int c; unsigned long d; char[10] e; char[] f; bool g")
    assert event.print_fmt.startswith('"a=%llu, b=%d, c=%d, d=%lu, e=%s, f=%s, g=%d", REC->a')
    assert event.print_fmt.endswith("REC->e, __get_str(f), REC->g")


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        *(("a-b", "u64 a", "a-b"), ("a", "u64 b-c", "b-c"), ("a", "u64", "u64"), ("a", "", "")),
        *(("a", "chr b", "chr"), ("a", "unsigned b", "unsigned"), ("a", "char b[", "b[")),
        *(("a", "char b[257]", "b[257]"), ("a", "char b[08]", "b[08]"), ("", "u64 a", "")),
        *(("a", "char b[9]c", "b[9]c"), ("a", "u64 b;[]", "[]"), ("taken", "u64 a", "taken")),
        ("a", " ".join(f"u64 f{n};" for n in range(65)), ""),
    ],
)
def test_wrong_definitions_are_refused_with_their_place(name: str, text: str, word: str) -> None:
    with pytest.raises(SynthError) as error:
        parse_synth(name, text, 8, lambda name: name == "taken")
    assert error.value.word == word
