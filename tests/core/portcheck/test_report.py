"""The report as plain text: 80 columns, with the bytes below each failed check."""

from __future__ import annotations

from dynftrace.core.portcheck import (
    CHECKS,
    Failed,
    NotProvided,
    Passed,
    objects,
    report_lines,
)

BYTES = bytes.fromhex("0f 1f 44 00 00")
FIRST, SECOND = CHECKS[0], CHECKS[-1]


def test_each_check_has_a_line_and_the_last_line_counts_them() -> None:
    results = [(FIRST, Passed()), (SECOND, NotProvided("there is none"))]
    assert list(report_lines("toy", results)) == [
        "toy",
        f"  {FIRST.heading}",
        f"    passed        {FIRST.name}: {FIRST.title}",
        f"  {SECOND.heading}",
        f"    not provided  {SECOND.name}: {SECOND.title}",
        "                  there is none",
        "  1 passed, 0 failed, 1 not provided",
    ]


def test_a_failure_shows_the_place_and_both_texts() -> None:
    failed = Failed("not the nop", 0xFFFFFFFF81001000, BYTES, b"\x90" * 5)
    assert list(report_lines("toy", [(FIRST, failed)]))[3:6] == [
        "                  at ffffffff81001000: not the nop",
        "                  expected 0f 1f 44 00 00",
        "                  found    90 90 90 90 90",
    ]


def test_no_line_is_wider_than_a_terminal() -> None:
    reason = "the emulator says " + "that is wrong and why " * 12
    for outcome in (Passed(), NotProvided(reason), Failed(reason, 1 << 63)):
        for check in CHECKS:
            lines = list(report_lines("toy", [(check, outcome)]))
            assert max(map(len, lines)) <= 80
            if outcome == Passed():
                assert len(lines) == 4, "a title must have one line"


def test_the_objects_have_the_same_content() -> None:
    failed = Failed("not the nop", 0x1000, BYTES, b"\x90")
    (row,) = objects("toy", [(FIRST, failed)])
    assert row["outcome"] == "failed" and row["check"] == FIRST.name
    assert (row["ip"], row["expected"], row["found"]) == ("1000", BYTES.hex(), "90")
