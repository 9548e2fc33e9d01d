"""Sequences that a terminal cannot have meant do not end the console."""

from __future__ import annotations

import pytest
from textual import events
from textual._xterm_parser import XTermParser

from dynftrace.tui.console import app  # noqa: F401  the console guards the parser


@pytest.mark.parametrize(
    "sequence",
    ["\x1b[99999999999999u", f"\x1b[{'9' * 5000}u", f"\x1b[<0;{'9' * 400};1M"],
)
def test_a_sequence_with_an_impossible_number_is_ignored(sequence: str) -> None:
    found = [
        each.key for each in XTermParser().feed(sequence + "j") if isinstance(each, events.Key)
    ]
    assert found[-1] == "j"
