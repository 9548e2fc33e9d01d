"""`dynftrace tour` from the command line: lists, own lessons, checks, and the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dynftrace.tui.tours import course

from .command_line import here

LESSON = """\
+++
summary = "short"
+++
# Own

## A step

Look at it.

```do
site schedule
```
```check
{check}
```
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an own folder the current one, also for the user's files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def test_the_list_has_tours_and_labs(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = here(capsys, "tour")
    lines = out.splitlines()
    assert (status, err) == (0, "")
    assert lines[0] == "Tours" and "Labs" in lines
    assert len(lines) == 2 + 2 * len(course.names())
    status, out, err = here(capsys, "tour", "--json")
    assert (status, err) == (0, "")
    rows = json.loads(out)
    assert [row["name"] for row in rows] == course.names()
    assert all(f"{row['done']}/{row['steps']}  {row['title']}" in "\n".join(lines) for row in rows)


def test_an_own_lesson_is_checked_with_the_place_of_what_fails(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "good.md").write_text(LESSON.format(check="saw site schedule"))
    assert here(capsys, "tour", "good.md", "--check") == (0, "ok      good 1  A step\n", "")
    (folder / "course").mkdir()
    for number, check in enumerate(("saw site vfs_read", "cat trace =/> x")):
        (folder / "course" / f"{number}-x.md").write_text(LESSON.format(check=check))
    status, out, _ = here(capsys, "tour", "course", "--check")
    assert status == 1
    assert "course/0-x.md:14:1: this does not hold after the step: saw site vfs_read" in out
    assert "course/1-x.md:6:1: the checks hold before the step is done" in out


def test_built_in_lessons_leave_no_files(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lesson = LESSON.format(check="saw site schedule")
    (folder / "own.md").write_text(lesson.replace("```do", "```do\nport new own.py"))
    assert here(capsys, "tour", "own.md", "--check")[0] == 0
    assert (folder / "own.py").exists()
    (folder / "own.py").unlink()
    monkeypatch.setattr(course, "is_ours", lambda path: path.name == "own.md")
    assert here(capsys, "tour", "own.md", "--check")[0] == 0
    assert not (folder / "own.py").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nosuch",), "unknown tour 'nosuch': give the path of a lesson, or choose from: call-"),
        (("nosuch.md",), "nosuch.md: No such file or directory"),
        (("empty",), "empty: the folder has no lessons (files named *.md)"),
        (("bad.md",), "bad.md:14:1: unknown check 'saw nothing' (choose from: saw site"),
        (("--new", "bad"), "bad.md already exists: choose another name"),
        (("--new", "none/x"), "none/x.md: the folder does not exist"),
        (("call-site", "--json"), "--json applies to the list: give no NAME"),
        (("--check", "--report"), "give only one of --check, --new and --report"),
        (("call-site", "--step", "9"), "step 9 does not exist: call-site has steps 1-8"),
    ],
)
def test_a_mistake_is_one_sentence(
    capsys: pytest.CaptureFixture[str], folder: Path, arguments: tuple[str, ...], said: str
) -> None:
    (folder / "empty").mkdir()
    (folder / "bad.md").write_text(LESSON.format(check="saw nothing"))
    status, out, err = here(capsys, "tour", *arguments)
    assert status in (1, 2) and out == "" and said in err and "Traceback" not in err


def test_the_report_is_json_for_a_class(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    status, out, err = here(capsys, "tour", "--report")
    assert (status, err) == (0, "")
    said = json.loads(out)
    assert said["student"] and len(said["lessons"]) == len(course.names())
    (folder / "good.md").write_text(LESSON.format(check="saw site schedule"))
    _, out, _ = here(capsys, "tour", "good.md", "--report")
    assert [each["title"] for each in json.loads(out)["lessons"]] == ["Own"]


def test_a_user_without_a_name_has_a_number(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 54321)
    status, out, err = here(capsys, "tour", "call-site", "--report")
    assert (status, err) == (0, "") and json.loads(out)["student"] == "54321"
