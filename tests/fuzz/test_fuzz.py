"""A few cases of each kind, and the reports of cases that fail."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path
from random import Random

import pytest

from dynftrace.core.errors import UsageError

from . import run
from .kind import Case, written
from .kinds import KINDS

FEW = {"kernel": 2, "module": 4, "script": 2, "chains": 2, "assembly": 2, "keys": 1, "frames": 1}
"""Cases of the kinds that take long."""


@pytest.mark.parametrize("name", KINDS)
def test_damage_ends_in_an_error_or_in_a_result(tmp_path: Path, name: str) -> None:
    result = run.fuzz(KINDS[name], range(1, 1 + FEW.get(name, 12)), tmp_path)
    assert not result.failures, "\n".join(map(str, result.failures))
    assert result.cases == FEW.get(name, 12)


class Deadly:
    """Cases that end as a damaged input must not."""

    name, suffix = "deadly", ".txt"

    def case(self, random: Random) -> Case:
        return Case(b"%d" % random.randrange(100))

    def take(self, case: Case) -> str:
        match int(case.content) % 6:
            case 0:
                os.kill(os.getpid(), signal.SIGSEGV)
            case 1:
                time.sleep(60)
            case 2:
                raise TypeError("a mistake of ours")
            case 3:
                raise UsageError("two\nlines")
            case 4:
                raise UsageError("one sentence")
        return "taken"


def test_every_death_is_reported_with_its_seed_and_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "LIMIT_S", 0.3)
    seeds = range(1, 25)
    expected = {seed: int(Deadly().case(Random(f"deadly {seed}")).content) % 6 for seed in seeds}
    assert set(expected.values()) == set(range(6))
    result = run.fuzz(Deadly(), seeds, tmp_path)
    reasons = {failure.seed: failure.reason for failure in result.failures}
    assert {seed for seed, kind in expected.items() if kind < 4} == set(reasons)
    words = ("SIGSEGV", "Timeout", "TypeError", "not one sentence")
    for seed, reason in reasons.items():
        assert words[expected[seed]] in reason
    for failure in result.failures:
        assert failure.path is not None and failure.path.read_bytes().isdigit()
    assert set(result.outcomes) == {"taken", "refused: UsageError"}


class Slow:
    """A case that writes a file and never ends."""

    name, suffix = "slow", ".txt"

    def case(self, random: Random) -> Case:
        return Case(b"")

    def take(self, case: Case) -> str:
        written("input", b"%d" % os.getpid())
        time.sleep(60)
        return "taken"


def test_an_interrupted_run_leaves_no_process_and_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    children = []

    def interrupt(*_: object) -> None:
        children.extend(path.read_text() for path in tmp_path.glob("*/input"))
        raise KeyboardInterrupt

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            run.fuzz(Slow(), [1], tmp_path / "keep")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(children) == 1 and not Path("/proc", children[0]).exists()
    assert not list(tmp_path.iterdir())
