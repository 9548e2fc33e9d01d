"""The output of commands in tones: nothing is lost but the frames' signs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell
from dynftrace.core.views.toned import POINTER, RULE, SCALE, Toned
from dynftrace.tui.present.line import Line, plain
from dynftrace.tui.present.output import drawn, output_lines
from dynftrace.tui.present.view import Done

from ...support.user import subject


@pytest.fixture
def shown(session: Session) -> Callable[[str], list[Line]]:
    """Return a function that executes a command line and returns the lines of its box."""
    return lambda command: _shown(session, command)


def _shown(session: Session, command: str) -> list[Line]:
    outcome = Shell(session).execute(command)
    return output_lines(Done(command, outcome.output, toned=outcome.toned))


@pytest.mark.parametrize(
    ("span", "signs"),
    [
        (("|", RULE), [("│", "dim")]),
        (("^", POINTER), [("▲", "accent")]),
        (("|--+-|", SCALE), [("┣━━", "good"), ("┿", "strong"), ("━┫", "good")]),
        (("|---|", SCALE), [("┣━━━", "good"), ("", "strong"), ("┫", "good")]),
        (("e8", "strong"), [("e8", "strong")]),
    ],
)
def test_a_terminal_has_better_signs(span: tuple[str, str], signs: list[tuple[str, str]]) -> None:
    assert list(drawn(Toned(span))) == signs


@pytest.mark.parametrize(
    ("command", "part", "tone"),
    [
        ("bits schedule", "e8", "accent"),
        ("bits schedule", "call ftrace_caller  (when enabled)", "strong"),
        ("dump schedule 1", "0f 1f 44 00 00 48 83 ec", ""),
        ("tramp", "sub rsp, 0x50", "strong"),
        ("regs 0", "0000000000000000", "dim"),
        ("regs 0", "rax", "accent"),
        ("site schedule kfree", "*", "accent"),
    ],
)
def test_commands_say_which_parts_are_important(
    shown: Callable[[str], list[Line]], command: str, part: str, tone: str
) -> None:
    spans = [span for line in shown(command) for span in line.spans]
    assert tone in {tone for text, tone in spans if text.strip() == part}, spans


def test_a_field_has_one_tone_in_its_drawing_and_in_the_list() -> None:
    lines = _shown(subject("ppc64").session(), "bits schedule")
    names = next(line for line in lines if ("│", "dim") in line.spans)
    bits = lines[lines.index(names) + 1]
    toned = [(text.strip(), tone) for text, tone in names.spans if tone != "dim"]
    assert [tone for _, tone in bits.spans] == [tone for _, tone in names.spans]
    for name, tone in toned:
        entry = next(line for line in lines if line.spans[0][0].split() == [name])
        assert entry.spans[0][1] == entry.spans[1][1] == tone


def test_a_call_out_of_reach_is_bad() -> None:
    session = subject("ppc64").session()
    lines = _shown(session, "insmod usbcore && bits usb_alloc_dev")
    assert any("out of reach" in plain(line) and line.spans[0][1] == "bad" for line in lines)


@pytest.mark.parametrize(
    "command",
    ["echo 'LI  0011  words'", "echo '* schedule'", "echo '   rax 0000000000000002'", "help"],
)
def test_text_that_only_looks_like_it_stays_plain(
    shown: Callable[[str], list[Line]], command: str
) -> None:
    assert {tone for line in shown(command) for _, tone in line.spans} == {""}


@pytest.mark.parametrize("command", ["bits schedule", "regs", "tramp", "dump schedule 9"])
def test_lines_keep_their_width(session: Session, command: str) -> None:
    outcome = Shell(session).execute(command)
    lines = [plain(line) for line in _shown(session, command)]
    assert list(map(len, lines)) == list(map(len, outcome.output.splitlines()))
