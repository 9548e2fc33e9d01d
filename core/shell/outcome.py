"""What a command leaves: its two streams of text and its exit status."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """Standard output, standard error and exit status of one or more commands."""

    output: str = ""
    error: str = ""
    status: int = 0
    wrong: tuple[str, int] | None = None
    """Words that the last command could not read, joined by blanks, and where they are wrong."""


def combine(outcomes: Iterable[Outcome]) -> Outcome:
    """The outcome of a list of commands: all text, and the status of the last."""
    output: list[str] = []
    error: list[str] = []
    status, wrong = 0, None
    for outcome in outcomes:
        output.append(outcome.output)
        error.append(outcome.error)
        status, wrong = outcome.status, outcome.wrong
    return Outcome("".join(output), "".join(error), status, wrong)
