"""Progress in tours is saved between runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynftrace.core.errors import DynftraceError
from dynftrace.tui.tours import tour as tours
from dynftrace.tui.tours.progress import Progress


def test_progress_is_kept_and_never_goes_back(tmp_path: Path) -> None:
    path, tour = tmp_path / "state" / "tours.json", tours.load("call-site")
    assert Progress(path).of(tour) == 0
    Progress(path).reached(tour, 3)
    Progress(path).reached(tour, 2)
    assert Progress(path).of(tour) == 3
    for damaged in ("", "[1]", '{"call-site": "x"}', '{"call-site": -1}', "\x00", "[" * 10_000):
        path.write_text(damaged)
        assert Progress(path).of(tour) == 0
    path.write_text('{"call-site": 99, "gone": 1}')
    assert Progress(path).of(tour) == len(tour.steps)


def test_progress_that_cannot_be_saved_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("not a folder")
    progress = Progress(tmp_path / "state" / "tours.json")
    with pytest.raises(DynftraceError, match=r"tours\.json: "):
        progress.reached(tours.load("call-site"), 1)
