"""Columns of names that are not ASCII."""

from __future__ import annotations

from rich.cells import cell_len

from dynftrace.core.views.cells import cells, cut, padded


def test_the_width_is_that_of_a_terminal() -> None:
    for text in ("schedule", "größe", "文字列", "e\N{COMBINING ACUTE ACCENT}t\u00e9", "ｆull", ""):
        assert cells(text) == cell_len(text)
        assert cells(padded(text, 12)) == 12
        assert padded(text, 0) == text


def test_text_is_cut_between_characters() -> None:
    assert [cut("文字列", width) for width in range(-1, 8)] == [
        *("", "", "", "文", "文", "文字", "文字", "文字列", "文字列"),
    ]
    assert [cut("abc", width) for width in (-1, 0, 2, 5)] == ["", "", "ab", "abc"]
