"""The outcomes of the checks of a port, as text of 80 columns and as objects."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator

from .check import HEADINGS, Check
from .outcome import Failed, NotProvided, Outcome

WIDTH = 80
INDENT = 18

Results = Iterable[tuple[Check, Outcome]]

_WORDS = {"Passed": "passed", "Failed": "failed", "NotProvided": "not provided"}


def word(outcome: Outcome) -> str:
    """Return `passed`, `failed` or `not provided`."""
    return _WORDS[type(outcome).__name__]


def report_lines(name: str, results: Results) -> Iterator[str]:
    """Yield the guide's list with the outcome of each check, each line once it is known.

    `results` are in the order of `HEADINGS`.
    """
    yield name
    counts: Counter[str] = Counter()
    heading = ""
    for check, outcome in results:
        if check.heading != heading:
            heading = check.heading
            yield f"  {heading}"
        counts[word(outcome)] += 1
        yield from _check_lines(check, outcome)
    yield "  " + ", ".join(f"{counts[each]} {each}" for each in _WORDS.values())


def _check_lines(check: Check, outcome: Outcome) -> Iterator[str]:
    """Yield the lines of a check: its outcome in the first, the reason in those below."""
    first = f"    {word(outcome):<{INDENT - 4}}"
    yield from _wrapped(f"{check.name}: {check.title}", first)
    reason = outcome.reason if isinstance(outcome, Failed | NotProvided) else ""
    if isinstance(outcome, Failed):
        place = "" if outcome.ip is None else f"at {outcome.ip:x}: "
        reason = place + reason
    margin = " " * INDENT
    for line in reason.splitlines():
        yield from _wrapped(line, margin)
    if isinstance(outcome, Failed):
        for name, data in (("expected", outcome.expected), ("found", outcome.found)):
            if data:
                yield f"{margin}{name:<9}{data.hex(' ')}"


def _wrapped(text: str, first: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=" " * INDENT, break_on_hyphens=False
    )


def objects(name: str, results: Results) -> list[dict[str, str]]:
    """Return an object for each check, with strings only, for JSON."""
    found = []
    for check, outcome in results:
        row = {"port": name, "heading": check.heading, "check": check.name}
        row |= {"title": check.title, "outcome": word(outcome)}
        if isinstance(outcome, Failed | NotProvided):
            row["reason"] = outcome.reason
        if isinstance(outcome, Failed):
            row["ip"] = "" if outcome.ip is None else f"{outcome.ip:x}"
            row |= {"expected": outcome.expected.hex(), "found": outcome.found.hex()}
        found.append(row)
    return found


def ordered(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return `checks` sorted by heading, in the order of `HEADINGS`."""
    return tuple(sorted(checks, key=lambda check: HEADINGS.index(check.heading)))
