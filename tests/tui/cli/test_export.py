"""`dynftrace export` writes each format; what it cannot write is one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dynftrace.core.trace.export.formats import SUFFIXES
from dynftrace.tui.cli.export import FORMATS

from .command_line import here

GRAPH = "echo sys_getpid > set_graph_function; echo function_graph > current_tracer; run syscalls"


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("t.json", '{"displayTimeUnit":"ns","traceEvents":['),
        ("t.folded", "syscalls"),
        ("t.speedscope.json", '{"$schema":'),
        ("t.csv", "time_ns,cpu,pid,comm,event,"),
        ("t.jsonl", '{"time_ns":'),
        ("t.txt", "# tracer: function_graph\n"),
        ("t.report.txt", "cpus=2\n"),
    ],
)
def test_the_end_of_the_name_selects_the_format(
    name: str, begins: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    assert here(capsys, "export", "-c", GRAPH, "-o", str(path)) == (0, "", "")
    text = path.read_text()
    assert text.startswith(begins) and "sys_getpid" in text
    if name.endswith(".json"):
        json.loads(text)


def test_trace_dat_begins_with_its_magic(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.dat"
    assert here(capsys, "export", "-c", GRAPH, "-o", str(path)) == (0, "", "")
    assert path.read_bytes().startswith(b"\x17\x08\x44tracing6\0\0\x08")


def test_the_options_offer_every_format() -> None:
    assert tuple(SUFFIXES) == FORMATS


@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        (("-c", GRAPH, "-o", "t.xyz"), 2, "unknown format: t.xyz must end in .json,"),
        (
            ("-c", "run syscalls", "-o", "t.csv"),
            1,
            "nothing was traced: switch a tracer or an event on",
        ),
        (
            ("-c", "echo function > current_tracer; run syscalls", "-o", "t.folded"),
            1,
            "folded needs calls with times: trace with function_graph first",
        ),
    ],
)
def test_a_failed_export_is_one_sentence(
    arguments: tuple[str, ...],
    status: int,
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    got, _, err = here(capsys, "export", *arguments)
    assert got == status and error in err and "Traceback" not in err
    assert not list(tmp_path.iterdir())
