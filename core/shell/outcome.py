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


def combine(outcomes: Iterable[Outcome]) -> Outcome:
    """The outcome of a list of commands: all text, and the status of the last."""
    output: list[str] = []
    error: list[str] = []
    status = 0
    for outcome in outcomes:
        output.append(outcome.output)
        error.append(outcome.error)
        status = outcome.status
    return Outcome("".join(output), "".join(error), status)
