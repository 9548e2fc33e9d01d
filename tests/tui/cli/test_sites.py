"""`dynftrace sites` in its three formats, and after commands."""

from __future__ import annotations

import csv
import io
import json

import pytest

from .command_line import here


def test_sites_in_three_forms(capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = here(capsys, "sites")
    _, as_json, _ = here(capsys, "sites", "--json")
    _, as_csv, _ = here(capsys, "sites", "--csv")
    rows = json.loads(as_json)
    assert rows == [row | {"module": row["module"] or None} for row in _csv_rows(as_csv)]
    assert len(text.splitlines()) == len(rows) + 1
    (site,) = [row for row in rows if row["name"] == "schedule"]
    assert site["now"] == "0f1f440000" and site["compiled"].startswith("e8")
    assert site["state"] == "nop"
    assert int(site["address"], 16) >= 0xFFFFFFFF81000000


def _csv_rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_sites_after_commands(capsys: pytest.CaptureFixture[str]) -> None:
    machine = ("sites", "--kernel", "x86_64-2008")
    assert here(capsys, *machine) == (0, "ADDRESS  NAME  MODULE  COMPILED  NOW  STATE\n", "")
    status, out, err = here(capsys, *machine, "-c", "cat nothing; run syscalls\nsleep 1")
    assert status == 0 and len(out.splitlines()) == 171
    assert err == "cat: nothing: No such file or directory\n"
    assert here(capsys, *machine, "-c", "a |")[0] == 2
