"""A drawn row as data: its text, its subject, and the text copied from it."""

from __future__ import annotations

from dynftrace.tui.present.line import Line, Subject, about, fit, folded, highlight, line, plain


def test_a_line_is_drawn_with_its_mark_and_copied_without() -> None:
    row = line(("T ", "good"), "schedule  ", mark=("▶", "accent"))
    assert list(row) == [("▶", "accent"), ("T ", "good"), ("schedule  ", "")]
    assert plain(row) == "▶T schedule  "
    assert row.copied == row.text == "T schedule"


def test_a_line_has_its_own_text_for_copying() -> None:
    row = line("T schedule   [core]", copy="schedule")
    assert row.copied == "schedule"
    assert line("x", copy="").copied == ""


def test_highlighting_keeps_the_subject_of_a_line() -> None:
    row = line(("do_Sched sched", "dim"), at=0x40, copy="sched", mark=("▶", "accent"))
    found = highlight(row, "sched")
    assert found.spans == (
        ("do_", "dim"),
        ("Sched", "found"),
        (" ", "dim"),
        ("sched", "found"),
    )
    assert (found.at, found.copy, found.mark) == (0x40, "sched", ("▶", "accent"))
    assert highlight(row, "") is row


def test_lines_get_one_subject() -> None:
    subject = Subject("schedule", 0x100)
    lines = about(subject, [line("a", at=4), Line()])
    assert [each.subject for each in lines] == [subject, subject]
    assert [each.at for each in lines] == [4, None]


def test_text_is_fitted() -> None:
    assert [fit("schedule", width) for width in (0, 1, 4, 8, 10)] == [
        "",
        "…",
        "sch…",
        "schedule",
        "schedule  ",
    ]


def test_text_is_fitted_by_cells() -> None:
    assert fit("文字列", 8) == "文字列  "
    assert fit("文字列", 5) == "文字…"
    assert fit("文字列", 4) == "文… "
    assert fit("文", 1) == "…" and fit("文", 0) == ""


def test_a_long_row_is_folded_before_a_column_or_at_a_blank() -> None:
    row = line("cpu0  ffff0040  schedule+0x0/0xc0  e8 bb d0  ", ("call ftrace_caller", "strong"))
    first, second = folded(row, 50)
    assert plain(first) == "cpu0  ffff0040  schedule+0x0/0xc0  e8 bb d0"
    assert list(second) == [("    ", ""), ("call ftrace_caller", "strong")]
    text = "  " + " ".join(f"word{number}" for number in range(40))
    rows = [plain(each) for each in folded(line(text), 33)]
    assert all(len(each) <= 33 for each in rows) and rows[1].startswith("      w")
    assert " ".join(rows).split() == text.split()


def test_rows_that_fit_and_drawings_stay_whole() -> None:
    fits, drawn = line("x" * 20), line("│opcode │rel32        │")
    assert [folded(each, 20) for each in (fits, drawn)] == [[fits], [drawn]]
    assert [plain(each) for each in folded(line("y" * 40), 20)] == [
        "y" * 20,
        "    " + "y" * 16,
        "    " + "y" * 4,
    ]
