"""The files `format`: what their lines say of the fields of an event."""

from __future__ import annotations

import pytest

from dynftrace.core.events.fields import COMMON, Field, Layout
from dynftrace.core.events.formats import parse_format, parse_formats
from dynftrace.core.tracefs.event import format_text

from ...support.tracedat import event_format

LAYOUT = Layout("little", 8)

FIELDS = [
    *(("char comm[16]", 8, 16, 0), ("__data_loc char[] name", 24, 4, 1), ("long x", 32, 8, 1)),
    *(("const char * fmt", 40, 8, 0), ("__rel_loc u32[] list", 48, 4, 0), ("u32 buf[]", 52, 0, 0)),
    *(("unsigned long long t", 56, 8, 0), ("struct pair pairs[3]", 64, 24, 0)),
]


def test_a_format_is_read_and_written() -> None:
    text = event_format("some", 77, FIELDS, '"%s", REC->comm')
    event = parse_format("test", text, LAYOUT)
    assert event is not None and (event.group, event.name, event.number) == ("test", "some", 77)
    assert event.print_fmt == '"%s", REC->comm' and event.common == COMMON
    assert [(f"{each.kind} {each.name}", each.offset, each.size) for each in event.fields] == [
        each[:3] for each in FIELDS
    ]
    assert [each.signed for each in event.fields] == [bool(each[3]) for each in FIELDS]
    assert [each.element(8) for each in event.fields] == [1, 1, 8, 8, 4, 4, 8, 8]
    assert [each.dynamic for each in event.fields] == ["", "data", "", "", "rel", "", "", ""]
    assert parse_format("test", format_text(event), LAYOUT) == event


@pytest.mark.parametrize(
    "line",
    [
        *("", "\tfield:;\toffset:1;\tsize:2;", "field:int a;\tsize:2;"),
        *("field:[2];\toffset:1;\tsize:2;", "field:int a;\toffset:1;\tsize:1234567890;"),
        f"field:{'a ' * 100_000}!;\toffset:1;\tsize:2;",
    ],
)
def test_other_lines_are_not_fields(line: str) -> None:
    assert Field.parse(line) is None


def test_a_file_that_is_not_a_format_is_left_out() -> None:
    good = event_format("good", 5, FIELDS, '""')
    texts = ["", "name: x", "name: x\nID: 70000\n", "name: x\nID: " + "9" * 5000, good]
    assert list(parse_formats([("test", text) for text in texts], LAYOUT)) == [5]
