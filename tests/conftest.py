"""Fixtures for all tests: a plain environment, and an open session."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from dynftrace.core.session.session import Session


GARBAGE = 300 << 20
"""Bytes by which a worker may grow until it collects garbage, between two tests.

Each test of the console leaves an app of many objects behind, and Python's own rules would look
through them again and again.
"""

STATM = Path("/proc/self/statm")

gc.disable()  # while tests are imported, there is little garbage

# An example takes as long as the other workers let it: its time says nothing about the code.
settings.register_profile("dynftrace", deadline=None)
settings.load_profile("dynftrace")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of the tests of broken ports (core/portcheck/test_mutants.py)."""
    parser.addoption(
        "--all-checks", action="store_true", help="run all checks on each broken port (slow)"
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Start one worker more than there are CPUs: tests of terminals and servers mostly wait."""
    return (os.cpu_count() or 1) + 1


LARGE = ("arches", "core", "tui")
"""The folders with the most tests."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Have each worker begin with another folder, so that each compiles other modules.

    From a fresh clone, each would otherwise compile all of them, at the same time as the others.
    """
    config = session.config
    worker = getattr(config, "workerinput", None)
    folder = Path(__file__).parent
    if worker is None or [config.invocation_params.dir / each for each in config.args] != [folder]:
        return
    first = LARGE[int(worker["workerid"].removeprefix("gw")) % len(LARGE)]
    entries = sorted(entry.name for entry in folder.iterdir() if _has_tests(entry))
    at = entries.index(first)
    config.args[:] = (str(folder / name) for name in (*entries[at:], *entries[:at]))


def _has_tests(entry: Path) -> bool:
    if entry.is_dir():
        return any(entry.rglob("test_*.py"))
    return entry.match("test_*.py")


WAITING = (
    *("test_porting_walk.py", "tui/test_walks.py", "tui/web/test_server.py", "tui/mount"),
    *("tui/cli/test_process.py", "tui/cli/test_sh.py", "fuzz"),
)
"""Tests that mostly wait for processes: the first work of one worker.

The others keep all CPUs busy meanwhile. If these tests came last, they would wait alone.
"""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of all workers into the same order, and begin with those that wait."""
    folder = Path(__file__).parent

    def place(item: pytest.Item) -> tuple[bool, str]:
        path = item.path.relative_to(folder)
        return not any(map(path.is_relative_to, WAITING)), path.parts[0]

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking at all tests and modules again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    """Leave what the tests have left: pytest collects five times before it ends."""
    gc.freeze()


_kept = 0
"""Bytes in memory after the last collection."""


def _collect_rarely() -> None:
    """Collect garbage if the process has grown by `GARBAGE`."""
    global _kept
    if not STATM.exists():  # the system cannot tell: leave it to Python's rules
        gc.enable()
        return
    gc.disable()
    if _resident() > _kept + GARBAGE:
        gc.collect()
        _kept = _resident()


def _resident() -> int:
    """Return the bytes that the process has in memory."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(autouse=True)
def plain_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Hide the caller's settings, and the colours and themes of the caller's terminal."""
    _collect_rarely()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "no-settings"))
    for name in list(os.environ):
        if name == "NO_COLOR" or name.startswith("TEXTUAL_"):
            monkeypatch.delenv(name)


@pytest.fixture
def session() -> Session:
    """Return a session of the default port after its boot, shared by all tests."""
    # Imported here, so that tests of small parts load only what they test.
    from dynftrace import arches

    from .support.user import subject

    return subject(arches.DEFAULT).session()


@pytest.fixture
def sh(session: Session) -> Callable[[str], str]:
    """Return a function that executes commands in `session` and returns their output."""
    from .support.user import executor

    return executor(session)
