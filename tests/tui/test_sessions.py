"""Sessions as files: what is written is read again, and what is wrong is one sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynftrace.core.errors import DynftraceError, UsageError
from dynftrace.core.journal import Action
from dynftrace.core.shell.parser import Join, ShellSyntaxError, parse
from dynftrace.core.trace.rowkey import RowKey
from dynftrace.tui import cli, sessions
from dynftrace.tui.machine import Described
from dynftrace.tui.sessions import Layout, Saved
from dynftrace.tui.view import ORDERS


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where sessions are, for this test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "dynftrace" / "sessions"


def commands(text: str) -> list[Action]:
    try:
        return [replace(command, join=Join.ALWAYS) for command in parse(text)]
    except ShellSyntaxError:
        return []


TEXTS = st.text("ab*?[]\\'\"#; >&|\n(é$!", max_size=12)
ACTIONS = st.lists(
    st.one_of(st.integers(0, 10**9).map(lambda ns: [ns, ns]), TEXTS.map(commands)), max_size=8
).map(lambda parts: tuple(action for part in parts for action in part))
MARKS = st.builds(RowKey, *(st.integers(0, 2**63),) * 5)
NAMES = st.one_of(st.none(), st.text("a/.é", max_size=5))
SAVED = st.builds(
    Saved,
    st.builds(
        Described,
        st.sampled_from(["x86_64", "ppc64"]),
        NAMES,
        st.lists(st.text("ab/", max_size=4), max_size=3).map(tuple),
        st.integers(1, 8),
        NAMES,
        NAMES,
        NAMES,
    ),
    ACTIONS,
    st.one_of(st.none(), st.integers(0, 2**60)),
    st.builds(
        Layout,
        st.integers(1, 4),
        st.booleans(),
        NAMES,
        st.text("vfs_*: ", max_size=9),
        st.sampled_from(ORDERS),
        st.one_of(st.none(), st.integers(0, 2**64 - 1)),
        st.text("vfs_*:! cpu", max_size=9),
        st.dictionaries(st.sampled_from("AB"), MARKS),
        st.lists(MARKS, max_size=3).map(tuple),
    ),
)


@given(SAVED)
def test_what_is_written_is_read_again(saved: Saved) -> None:
    assert sessions.from_text(sessions.as_text(saved)) == saved


@given(SAVED, st.data())
def test_a_damaged_file_is_one_sentence_or_another_session(
    saved: Saved, data: st.DataObject
) -> None:
    text = sessions.as_text(saved)
    at = data.draw(st.integers(0, len(text) - 1))
    cut = data.draw(st.integers(0, 6))
    damaged = text[:at] + data.draw(st.sampled_from(["", "0", '"', "[", "null", "-1"]))
    damaged += text[at + cut :]
    try:
        found = sessions.from_text(damaged)
    except DynftraceError as error:
        assert str(error) and "\n" not in str(error)
    else:
        assert sessions.from_text(sessions.as_text(found)) == found


def test_runs_of_the_machine_keep_their_stretches() -> None:
    saved = Saved(Described("x86_64"), (1000, 1000, 1000, *commands("ls"), 5, 1000))
    assert json.loads(sessions.as_text(saved))["done"] == [
        {"ns": 1000, "times": 3},
        "ls",
        {"ns": 5, "times": 1},
        {"ns": 1000, "times": 1},
    ]
    assert saved.commands == 1


def test_a_file_is_replaced_whole(folder: Path) -> None:
    first = Saved(Described("x86_64"), tuple(commands("echo 'a b'* > tracing_on")))
    assert sessions.load("mine") is None and sessions.names() == []
    sessions.save("mine", first)
    sessions.save("other", Saved(Described("mips")))
    assert sessions.load("mine") == first
    assert [each.name for each in sorted(folder.iterdir())] == ["mine.json", "other.json"]
    sessions.delete("mine")
    assert sessions.names() == ["other"]
    with pytest.raises(UsageError, match="there is no session 'mine'"):
        sessions.delete("mine")


@pytest.mark.parametrize("name", ["", ".", "../x", ".hidden", "a/b", "a" * 65, "é", "a\n", "-\0"])
def test_what_is_no_name_is_no_file(name: str) -> None:
    for act in (sessions.load, sessions.delete):
        with pytest.raises(UsageError, match="is no name of a session"):
            act(name)


def changed(**what: object) -> str:
    table = json.loads(sessions.as_text(Saved(Described("x86_64"))))
    for path, value in what.items():
        parts = path.split("__")
        inner = table
        for part in parts[:-1]:
            inner = inner[part]
        inner[parts[-1]] = value
    return json.dumps(table)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("[" * 100_000, "not JSON that can be read: "),
        ("[]", "not a session of dynftrace"),
        ('{"version": true}', "not a session of dynftrace"),
        ('{"version": 2}', "a session of version 2; this dynftrace reads version 1"),
        ('{"version": 1}', "the session lacks 'machine'"),
        (changed(more=1), "the session has no 'more'"),
        (changed(machine__arch="vax"), "machine.arch is 'vax', which is no architecture here"),
        (changed(machine__cpus=9), "machine.cpus is no number from 1 to 8"),
        (changed(machine__cpus=True), "machine.cpus is no number"),
        (changed(machine__modules="usbcore"), "machine.modules is no list"),
        (changed(machine__kernel="a\0b"), "machine.kernel is no text"),
        (changed(done=["ls", "'"]), "done[1] is no command: syntax error: unterminated"),
        (changed(done=["ls; ls"]), "done[0] is not one command"),
        (changed(done=[""]), "done[0] is not one command"),
        (changed(done=[{"ns": 1, "times": 0}]), "done[0].times is no number from 1 to"),
        (changed(done=[{"ns": -1, "times": 1}]), "done[0].ns is no number from 0 to"),
        (changed(now="1"), "now is no number"),
        (changed(layout__pane=5), "layout.pane is no number from 1 to 4"),
        (changed(layout__order="size"), "layout.order is 'size', not one of address, name"),
        (changed(layout__zoomed=1), "layout.zoomed is neither true nor false"),
        (changed(layout__marks={"C": [1, 2, 3, 0, 0]}), "layout.marks has others than A and B"),
        (changed(layout__marks={"A": [1]}), "layout.marks.A has not 5 parts"),
        (changed(layout__bookmarks=[[1, 2, 3, 0, "x"]]), "a bookmark is no number from"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    reason: str,
) -> None:
    folder.mkdir(parents=True)
    file = folder / "bad.json"
    file.write_text(text)
    monkeypatch.setenv("TEXTUAL_DRIVER", "none")
    assert cli.run(("--session", "bad")) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"dynftrace: {file}: {reason}") and err.count("\n") == 1
    assert cli.run(("sessions",)) == 0
    assert capsys.readouterr().out.startswith(f"bad  cannot be read: {file}: {reason}")


def test_the_list_of_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(("sessions",)) == 0
    assert capsys.readouterr().out == ""
    sessions.save("lesson", Saved(Described("ppc64"), (5, *commands("ls; ls"), 5)))
    sessions.save("b", Saved(Described("x86_64-2008"), tuple(commands("run"))))
    assert cli.run(("sessions",)) == 0
    assert capsys.readouterr().out == (
        "b       x86_64-2008   1 command\nlesson  ppc64         2 commands\n"
    )
    assert cli.run(("sessions", "--delete", "b")) == 0
    assert cli.run(("sessions", "--delete", "b")) == 2
    assert capsys.readouterr().err == "dynftrace: there is no session 'b'\n"
    assert sessions.names() == ["lesson"]
