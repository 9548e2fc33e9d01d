"""Ports from other packages, found by entry points of the group dynftrace.arches."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dynftrace import arches
from dynftrace.core import portcheck
from dynftrace.core.errors import UsageError
from dynftrace.tui import cli

MODULE = """
from dataclasses import replace
from dynftrace.arches.x86.x86_64.port import FACTS, X8664Port

def port():
    return X8664Port(facts=replace(FACTS, name="toy"))

def another():
    return X8664Port(facts=replace(FACTS, name="something"))

def broken():
    raise RuntimeError("not today\\nnor tomorrow")
"""


@pytest.fixture(autouse=True)
def looked_for_anew() -> Iterator[None]:
    arches._brought.cache_clear()
    yield
    arches._brought.cache_clear()


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Install a package with these entry points."""

    def install(entries: str) -> None:
        (tmp_path / "toyport.py").write_text(MODULE)
        info = tmp_path / "toyport-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toyport\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[dynftrace.arches]\n{entries}\n")
        monkeypatch.syspath_prepend(str(tmp_path))

    return install


def test_a_port_of_another_package_is_listed_last_and_loaded(
    bring: Callable[[str], None],
) -> None:
    bring("toy = toyport:port\nabc = toyport:port")
    assert arches.names() == (*arches.built_in(), "abc", "toy")
    assert arches.known("toy") and not arches.known("nothing")
    assert arches.load("toy").facts.name == "toy"


def test_other_packages_cannot_take_our_names(bring: Callable[[str], None]) -> None:
    bring("x86_64 = toyport:broken")
    assert arches.names() == arches.built_in()
    assert arches.load("x86_64").facts.name == "x86_64"


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("toy = toyport:broken", "RuntimeError: not today nor tomorrow"),
        ("toy = toyport:nothing", "AttributeError: "),
        ("toy = nowhere:port", "ModuleNotFoundError: No module named 'nowhere'"),
        ("toy = toyport:MODULE.port", "cannot be loaded"),
        ("toy = toyport:another", "calls itself 'something'"),
    ],
)
def test_a_port_that_cannot_be_loaded_is_one_error_message(
    bring: Callable[[str], None], capsys: pytest.CaptureFixture[str], entry: str, says: str
) -> None:
    bring(entry)
    with pytest.raises(UsageError, match="the port 'toy' of ") as caught:
        arches.load("toy")
    assert says in str(caught.value)
    assert "toy" in arches.names(), "listing names must not load any port"
    assert cli.run(["port", "check", "toy"]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1


def test_one_broken_port_fails_and_the_others_are_checked(
    bring: Callable[[str], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bring("abc = toyport:broken\ntoy = toyport:port")
    monkeypatch.setattr(portcheck, "CHECKS", portcheck.CHECKS[:2])
    assert cli.run(["port", "check", "--all"]) == 1
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and "the port 'abc' of " in captured.err
    blocks = captured.out.split("\n\n")
    assert [block.splitlines()[0] for block in blocks] == [*arches.built_in(), "toy"]
    assert all("2 passed, 0 failed" in block for block in blocks)


def test_a_port_of_another_package_can_be_chosen_and_checked(
    bring: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    bring("toy = toyport:port")
    assert cli.run(["sh", "--arch", "toy", "-c", "cat current_tracer"]) == 0
    assert capsys.readouterr().out == "nop\n"
    assert cli.run(["port", "list"]) == 0
    assert capsys.readouterr().out.splitlines() == [*arches.built_in(), "toy"]
    assert cli.run(["sh", "--arch", "toi", "-c", "cat current_tracer"]) == 2
    assert "'toi' is not one of 'x86_64', " in capsys.readouterr().err


def test_our_ports_are_loaded_without_reading_other_packages() -> None:
    program = (
        "import sys; from dynftrace import arches; arches.load('x86_64'); "
        "arches.known('mips'); arches.build('arm64', 'arm64-mcount'); "
        "print('importlib.metadata' in sys.modules)"
    )
    root = Path(cli.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{root.parent}:{root.parent / '.pkg'}"},
    )
    assert done.stdout == "False\n", done.stderr
