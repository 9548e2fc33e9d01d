"""`dynftrace port`."""

from __future__ import annotations

import json

import pytest

from .command_line import here


def test_port_check_says_what_each_port_does_and_fails_if_one_does_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dynftrace.core import portcheck

    few = tuple(check for check in portcheck.CHECKS if check.name in ("facts", "make_nop"))
    monkeypatch.setattr(portcheck, "CHECKS", few)
    status, out, err = here(capsys, "port", "check", "x86_64", "i386")
    assert (status, err) == (0, "")
    first, second = out.split("\n\n")
    assert first.splitlines()[0] == "x86_64" and second.splitlines()[0] == "i386"
    assert "    passed        make_nop: a call becomes a nop again" in first
    assert second.endswith("  2 passed, 0 failed, 0 not provided\n")
    status, out, _ = here(capsys, "port", "check", "--json", "ppc32")
    assert status == 0
    assert [(row["port"], row["outcome"]) for row in json.loads(out)] == [("ppc32", "passed")] * 2

    def fails(subject: object) -> None:
        raise portcheck.check.Failure("not the nop", 0x1000, b"\x01", b"\x02")

    broken = portcheck.Check("make_nop", few[1].heading, "a call becomes a nop again", fails)
    monkeypatch.setattr(portcheck, "CHECKS", (few[0], broken))
    status, out, err = here(capsys, "port", "check", "x86_64")
    assert (status, err) == (1, "")
    assert "at 1000: not the nop\n                  expected 01\n" in out


def test_port_check_can_run_some_checks_only(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = here(capsys, "port", "check", "--json", "--only", "MAKE_nop", "ppc32")
    assert status == 0 and [row["check"] for row in json.loads(out)] == ["make_nop"]
    status, out, err = here(capsys, "port", "check", "--only", "vax", "ppc32")
    assert (status, out) == (2, "") and "no check has 'vax' in its name or heading" in err


def test_port_check_wants_names_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ((), ("--all", "mips")):
        status, out, err = here(capsys, "port", "check", *arguments)
        assert (status, out) == (2, "") and "--all" in err
    status, out, err = here(capsys, "port", "check", "vax")
    assert (status, out) == (2, "") and "unknown architecture 'vax'" in err
