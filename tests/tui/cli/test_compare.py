"""`dynftrace arches` and `dynftrace compare`."""

from __future__ import annotations

import json

import pytest

from dynftrace import arches

from .command_line import here


def test_arches_lists_every_architecture(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = here(capsys, "arches")
    assert (status, err) == (0, "")
    blocks = out.strip().split("\n\n")
    assert [block.split()[0] for block in blocks] == list(arches.names())
    status, out, err = here(capsys, "compare", "--markdown")
    assert (status, err) == (0, "")
    for name in arches.built_in():
        assert sum(line.startswith(f"| `{name}` |") for line in out.splitlines()) == 3
    status, out, err = here(capsys, "compare", "--json")
    assert (status, err) == (0, "")
    forms = {row["port"]: row["enabled"]["asm"] for row in json.loads(out)}
    assert list(forms) == list(arches.built_in())
    assert forms["x86_64"] == "call ftrace_caller" and "mov x9, x30" in forms["arm64"]
    assert here(capsys, "compare", "--markdown", "nothing")[::2] == (
        2,
        "dynftrace: no kernel has a call site in a function 'nothing'\n",
    )
