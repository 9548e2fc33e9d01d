"""The table of clients: what it says, and when a run is worse."""

from __future__ import annotations

from pathlib import Path

from .__main__ import BEGIN, END, Tried, lacking, page, worse
from .cases import PERF, TRACE_CMD
from .selftests import UNTRIED, Result, _results

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"


def tried(*results: str) -> Tried:
    found = [Result(f"case {number}", word, "why") for number, word in enumerate(results)]
    return Tried("trace-cmd", "3.1", "x86_64", found)


def test_a_run_with_fewer_passes_is_worse() -> None:
    text = "\n".join(page([tried(*["PASS"] * 4, "FAIL")]))
    assert "| trace-cmd | 3.1 | x86_64 | 5 | 4 | 1 fail |" in text
    assert "| case 4 | fail | why |" in text
    assert worse(text, [tried(*["PASS"] * 3, "FAIL", "FAIL")]) == 0
    assert worse(text, [tried(*["PASS"] * 2, "FAIL", "FAIL", "FAIL")]) == 1
    assert worse(text, [tried(*["PASS"] * 2, "FAIL", UNTRIED, UNTRIED)]) == 0  # a slow system
    assert worse(text, [tried("FAIL", *[UNTRIED] * 4)]) == 1  # a case that holds all others up
    assert worse(text, [Tried("trace-cmd", "", "x86_64", skipped="not installed")]) == 0


def test_no_page_is_written_without_a_client_or_a_case() -> None:
    assert lacking([tried("PASS", "FAIL")]) == ""
    assert "cases without time: 1;" in lacking([tried("PASS", UNTRIED)])
    skipped = Tried("perf", "", "", skipped="skipped: perf is not installed")
    assert lacking([tried("PASS"), skipped]) == "perf: skipped: perf is not installed"


def test_a_failure_that_a_case_expects_is_a_pass() -> None:
    row = tried("PASS", "XFAIL", "UNSUPPORTED").row()
    assert row == "| trace-cmd | 3.1 | x86_64 | 3 | 2 | 1 unsupported |"


def test_the_page_has_a_table_of_all_cases() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert f"| x86_64 | {len(TRACE_CMD)} |" in text and f"| x86_64 | {len(PERF)} |" in text


def test_the_reason_is_the_end_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "2-two.tc-log.x").write_text(
        "+ cat trace\nno event is there\n+ exit_fail\n+ exit 1\n"
    )
    said = "[1] one\t[PASS]\n[2] two\t[\x1b[31mFAIL\x1b[0m]\n[3] (instance)  two\t[UNSUPPORTED]\n"
    first, second, third = _results(said, tmp_path, tmp_path)
    assert (first.name, first.result, first.why) == ("one", "PASS", "")
    assert (second.result, second.why) == ("FAIL", "no event is there")
    assert third.name == "two (in an instance)"
