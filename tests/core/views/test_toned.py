"""Lines with tones: they keep their text, and stay with the output they are part of."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell
from dynftrace.core.views.toned import Toned, split_lines

from ...support.user import subject


@pytest.mark.parametrize("arch", arches.built_in())
@pytest.mark.parametrize("command", ["bits schedule", "regs", "tramp", "dump schedule 9"])
def test_lines_keep_their_text(arch: str, command: str) -> None:
    session = subject(arch).session()
    outcome = Shell(session).execute(command)
    lines = list(split_lines(outcome.output, outcome.toned))
    assert "".join(f"{line}\n" for line in lines) == outcome.output
    assert any(isinstance(line, Toned) for line in lines)
    assert not any(line != line.rstrip() for line in lines)


@pytest.mark.parametrize(
    ("command", "toned"),
    [
        ("echo x; dump schedule 1; echo y; dump schedule 1", [1, 3]),
        ("dump schedule 1 | head -1", []),
        ("dump schedule 1 > /dev/null", []),
        ("dump schedule 1 > trace_marker", []),
        ("echo x | dump schedule 1", [0]),
        ("dump schedule 1 2>&1", [0]),
        ("echo -n x; dump schedule 1", []),
    ],
)
def test_tones_stay_with_their_lines(session: Session, command: str, toned: list[int]) -> None:
    outcome = Shell(session).execute(command)
    assert outcome.status == 0
    lines = list(split_lines(outcome.output, outcome.toned))
    assert [number for number, each in enumerate(lines) if isinstance(each, Toned)] == toned
    assert "".join(f"{line}\n" for line in lines) == outcome.output


def test_blanks_at_the_end_of_a_line_are_cut() -> None:
    line = Toned("a ", ("b  ", "dim"), ("  ", "strong")).trimmed()
    assert line == "a b" and line.spans == (("a ", ""), ("b", "dim"))
    assert Toned("  ").trimmed() == ""
