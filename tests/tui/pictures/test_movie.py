"""Movies: what a cast and an animated SVG show at each time, and that they repeat exactly."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dynftrace.core.session.session import Session
from dynftrace.tui.pictures import screenshots
from dynftrace.tui.pictures.movie import Movie, animated, cast
from dynftrace.tui.pictures.picture import POSES, picture, take_picture
from dynftrace.tui.pictures.recorder import record_console, record_shell
from dynftrace.tui.pictures.rows import rows_of

from ..canned import CannedDriver
from ..cli.command_line import here

SIZE = (80, 24)
CELL, LINE = 12.2, 24.4


@pytest.fixture(scope="module")
def movie() -> Movie:
    return record_console(CannedDriver, ["hi"], SIZE, 900)


def frame_texts(movie: Movie) -> list[tuple[int, list[str]]]:
    return [(frame.at, [row.text for row in frame.rows]) for frame in movie.frames]


def played(lines: list[str], height: int) -> list[tuple[int, list[str]]]:
    """Play a cast that draws whole rows; return each time in ms and the screen's text."""
    screen, shown = [""] * height, []
    for line in lines[1:]:
        at, kind, text = json.loads(line)
        assert kind == "o"
        for row, drawn in re.findall(r"\x1b\[(\d+);1H(.*?)(?=\x1b\[\d+;1H|$)", text):
            screen[int(row) - 1] = re.sub(r"\x1b\[[\d;]*m", "", drawn).rstrip()
        shown.append((round(at * 1000), list(screen)))
    return shown


def hidden_at(svg: str, percent: float) -> set[str]:
    """Return the classes that the keyframes of an animated SVG hide at this part of its time."""
    hidden = set()
    for name, steps in re.findall(r"@keyframes (\w+)\{(.*)\}\n", svg):
        found = re.findall(r"([\d.]+)%\{visibility:(\w+)\}", steps)
        if [state for at, state in found if float(at) <= percent + 1e-4][-1] == "hidden":
            hidden.add(name)
    return hidden


def visible(svg: str, hidden: set[str], height: int) -> list[str]:
    """Return the text of an animated SVG while the classes `hidden` are hidden."""
    lines = [""] * height
    for group in ElementTree.fromstring(svg).findall(".//{*}g"):
        if group.get("class") in hidden:
            continue
        for text in group.findall("{*}text"):
            row = round((float(text.get("y", 0)) - 18.5) / LINE)
            column = round(float(text.get("x", 0)) / CELL)
            assert len(lines[row]) <= column, "two rows are visible in one place"
            lines[row] = lines[row].ljust(column) + (text.text or "").replace("\xa0", " ")
    return [line.rstrip() for line in lines]


async def test_a_movie_begins_as_the_picture_and_types_the_command(movie: Movie) -> None:
    first, *_ = texts = [lines for _, lines in frame_texts(movie)]
    drawn = await picture(CannedDriver, [], POSES["main"], SIZE)
    assert first == [row.text for row in rows_of(drawn, SIZE[1])]
    assert any("hi" in line for line in texts[-1]) and len(texts) >= 4
    times = [at for at, _ in frame_texts(movie)]
    assert all(a < b for a, b in pairwise([*times, movie.end]))


def test_equal_input_gives_equal_files(movie: Movie) -> None:
    done: list[int] = []
    again = record_console(CannedDriver, ["hi"], SIZE, 900, done=lambda: done.append(1))
    assert len(done) == 1
    assert list(cast(again)) == list(cast(movie))
    assert list(animated(again)) == list(animated(movie))


def test_a_cast_plays_every_screen(movie: Movie) -> None:
    lines = "".join(cast(movie)).splitlines()
    header = json.loads(lines[0])
    assert (header["version"], header["width"], header["height"]) == (2, *SIZE)
    *screens, (end, last) = played(lines, SIZE[1])
    assert screens == frame_texts(movie)
    assert (end, last) == (movie.end, screens[-1][1])


def test_an_animated_picture_shows_every_screen_at_its_time(movie: Movie) -> None:
    svg = "".join(animated(movie))
    for at, lines in frame_texts(movie):
        assert visible(svg, hidden_at(svg, at / movie.end * 100), SIZE[1]) == lines
    # A viewer that does not animate shows the last screen.
    still = set(re.findall(r"\.(k\d+)\{visibility:hidden;", svg))
    assert visible(svg, still, SIZE[1]) == frame_texts(movie)[-1][1]


def test_the_movie_of_the_readme_is_current(session: Session) -> None:
    """Its last screen; that it is recorded the same each time is tested with less to type."""
    path = Path(__file__).parents[3] / "screenshots" / screenshots.MOVIE
    svg, size = path.read_text(encoding="utf-8"), screenshots.MOVIE_SIZE
    last = visible(svg, set(re.findall(r"\.(k\d+)\{visibility:hidden;", svg)), size[1])
    drawn = take_picture(lambda: session, "\n".join(screenshots.MOVIE_COMMANDS), "main", size)
    assert last == [row.text for row in rows_of(drawn, size[1])], "run `make screenshots`"
    first = visible(svg, hidden_at(svg, 0), size[1])
    assert any("nop" in line for line in first) and any("call ftrace_caller" in x for x in last)
    assert len(svg) < 300_000


def test_the_shell_scrolls_and_repeats_exactly(session: Session) -> None:
    commands = ["cat available_tracers", "echo a; echo b; echo c"]
    made = [record_shell(session, lambda _: "# ", commands, (20, 5), 500) for _ in range(2)]
    assert list(cast(made[0])) == list(cast(made[1]))
    _, last = frame_texts(made[0])[-1]
    assert last[1:] == ["a", "b", "c", "#"]
    assert all(len(line) <= 20 for _, lines in frame_texts(made[0]) for line in lines)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-c", "x", "-o", "m.gif"), "the format of m.gif is unknown: end its name in .cast or"),
        (("-o", "m.svg"), "give either a TOUR or -c CMDS"),
        (("call-site", "--cpus", "4", "-o", "m.svg"), "--cpus does not apply: a tour has its own"),
        (("nosuch", "-o", "m.svg"), "unknown tour 'nosuch'"),
        (("-c", "x", "--size", "9", "-o", "m.svg"), "invalid size '9'"),
        (("-c", "x", "--shell", "--theme", "a", "-o", "m.svg"), "--theme applies to the console"),
    ],
)
def test_a_mistake_is_one_sentence(
    arguments: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = here(capsys, "record", *arguments)
    assert (status, out) == (2, "") and said in err and "Traceback" not in err
    assert not list(tmp_path.iterdir())
