"""A short form of two jobs, and leaks that must be noticed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .jobs import JOBS
from .run import GROWTH, soak

JOBS_IN_SHORT = [("reboots", 15), ("modules", 10), ("toggles", 50), ("serve", 1)]


@pytest.mark.parametrize(("name", "number"), JOBS_IN_SHORT)
def test_nothing_grows(name: str, number: int) -> None:
    assert soak(name, JOBS[name][0], number, None).leaks == []


def test_leaks_of_memory_and_files_are_noticed(tmp_path: Path) -> None:
    held: list[object] = []

    def leaky(number: int | None, seconds: float | None) -> Iterator[int]:
        for done in range(10):
            held.append(os.urandom(GROWTH // 4))
            held.append((tmp_path / str(done)).open("w"))
            yield done

    found = soak("leaky", leaky, None, None)
    for each in held[1::2]:
        each.close()  # type: ignore[attr-defined]
    assert found.leaks == ["memory", "files"]
