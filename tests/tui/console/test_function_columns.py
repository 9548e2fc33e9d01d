"""The columns of the function list, and those omitted if it is narrow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynftrace.tui.console.widgets.function_columns import compact, row_line, title_line
from dynftrace.tui.present.line import plain
from dynftrace.tui.present.view import IN_TRACE, ORDERS, PROFILED, FunctionRow, State

WIDTHS = st.integers(24, 120)


@given(
    WIDTHS,
    st.text("abc_", min_size=1, max_size=50),
    st.sampled_from(["", "usbcore", "a_module_of_a_long_name"]),
    st.integers(0, 10**15),
    st.sampled_from(State),
)
def test_a_row_fills_its_width_and_counts_are_right_aligned(
    width: int, name: str, module: str, hits: int, state: State
) -> None:
    text = plain(row_line(FunctionRow(name, module, state, hits), width, True))
    assert len(text) == width
    most = plain(row_line(FunctionRow("f", "", state, 12345), width, True))
    end = most.index("12345") + 5
    if hits:
        count = text[:end].rpartition(" ")[2]
        assert count and count == compact(hits, 9 if width >= 50 else 5)
        assert text[end : end + 1] in ("", " ")


@given(WIDTHS, st.sampled_from([IN_TRACE, PROFILED]), st.sampled_from(ORDERS))
def test_titles_are_above_their_columns(width: int, counted: str, order: str) -> None:
    titles = plain(title_line(counted, order, width))
    row = plain(row_line(FunctionRow("schedule", "usbcore", State.TRACED, 12345), width, False))
    assert len(titles) == width
    assert titles.index("function") == row.index("schedule")
    hits = titles.index(counted) + len(counted) + (2 if order == "hits" else 0)
    assert hits == row.index("12345") + 5
    if "state" in titles:
        assert titles.index("state") == row.index("traced")
    if "module" in titles:
        assert titles.index("module") == row.index("usbcore")
    assert ("▲" in titles or "▼" in titles) == (order not in ("use", "address"))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (99_999, "99999"),
        (100_000, "100k"),
        (9_999_999, "9999k"),
        (10_000_000, "10M"),
        (10**13, "10T"),
    ],
)
def test_large_numbers_are_abbreviated(number: int, text: str) -> None:
    assert compact(number, 5) == text


def test_without_a_column_the_module_follows_the_name() -> None:
    row = FunctionRow("usb_ifnum_to_if", "usbcore", State.NOP, 3)
    assert plain(row_line(row, 36, False)) == " · usb_ifnum_to_if [usbcore]       3"
    assert "[" not in plain(row_line(row, 60, False))
    long = FunctionRow("usb_hcd_unlink_urb_from_ep", "usbcore", State.NOP, 3)
    assert plain(row_line(long, 36, False)) == " · usb_hcd_unlink_urb_from_ep      3"
    assert plain(row_line(long, 37, False)) == " · usb_hcd_unlink_urb_from_ep …     3"
