"""The status line fits, and its fields keep their positions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dynftrace.tui.console.widgets.status_bar import seconds, status_line
from dynftrace.tui.present.line import plain
from dynftrace.tui.present.view import Status

LOW = Status("x86_64", 2, "nop", True, patch="stop_machine")
HIGH = Status("x86_64", 2, "function", True, 540_123, now=59_004_812_310, patch="stop_machine")
FULL = replace(HIGH, overwritten=57_140_320)
FOUND = replace(HIGH, arch="x86_64-2008", found=(345, 128))
BUILD = replace(HIGH, arch="arm64-mcount")


@pytest.mark.parametrize("width", [60, 80, 100, 118, 120, 132, 139, 140, 200])
def test_the_status_line_fills_the_width(width: int) -> None:
    lost = replace(FOUND, overwritten=12_345_678, tracing_on=False)
    for status in (LOW, HIGH, FULL, BUILD, FOUND, lost, replace(lost, ftrace_off=True)):
        for mode in ("PAUSED", "RUNNING", "OPENING"):
            text = plain(status_line(status, mode, width))
            assert len(text) == width
            assert text.endswith(mode + " ")


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_fields_do_not_move_while_numbers_grow(width: int) -> None:
    low, high = (plain(status_line(status, "RUNNING", width)) for status in (LOW, HIGH))
    before, after = ([at for at, c in enumerate(text) if c == "│"] for text in (low, high))
    assert before[:3] == after[:3]


def test_everything_is_given_in_words() -> None:
    text = plain(status_line(HIGH, "RUNNING", 200))
    for word in ("x86_64 · 2 cpus", "tracer function", "tracing on", "540,123 events"):
        assert word in text
    assert "59.004 812 310 s" in text and "stop_machine" in text
    for width in (80, 100, 120, 200):
        assert "57M overwritten" in plain(status_line(FULL, "RUNNING", width))
    off = Status("x86_64", 1, ftrace_off=True, halted=(1,))
    for width in (80, 120):
        text = plain(status_line(off, "PAUSED", width))
        assert "ftrace OFF" in text and "CPU 1 oopsed" in text


def test_the_number_of_found_sites_is_shown() -> None:
    for width in (60, 80, 120, 145):
        assert "ftraced  345 +128" in plain(status_line(FOUND, "RUNNING", width))
        quiet = replace(FOUND, found=(345, 0))
        text = plain(status_line(quiet, "RUNNING", width))
        assert "ftraced  345" in text and "+" not in text
        assert "ftraced" not in plain(status_line(HIGH, "RUNNING", width))


def test_seconds_are_formatted() -> None:
    assert seconds(4_812_310) == "0.004 812 310"
    assert seconds(12_000_000_001) == "12.000 000 001"
