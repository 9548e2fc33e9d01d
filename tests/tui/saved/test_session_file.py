"""Sessions as files: a written session is read back, and each error is one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynftrace.core.errors import DynftraceError, UsageError
from dynftrace.core.session.journal import Action
from dynftrace.core.shell.parser import ShellSyntaxError, parse
from dynftrace.core.trace.select.rowkey import RowKey
from dynftrace.tui import cli
from dynftrace.tui.present.view import ORDERS
from dynftrace.tui.saved import session_file
from dynftrace.tui.saved.machine_options import MachineOptions
from dynftrace.tui.saved.session_model import Layout, Saved
from dynftrace.tui.saved.session_text import as_text, from_text


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a temporary folder for sessions."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "dynftrace" / "sessions"


def commands(text: str) -> list[Action]:
    try:
        return [str(command) for command in parse(text)]
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
        MachineOptions,
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


def test_a_command_in_another_directory_is_one_command() -> None:
    assert from_text(changed(done=["cd /proc && ls"])).done == ("cd /proc && ls",)


@given(SAVED)
def test_what_is_written_is_read_again(saved: Saved) -> None:
    assert from_text(as_text(saved)) == saved


@given(SAVED, st.data())
def test_a_damaged_file_is_one_sentence_or_another_session(
    saved: Saved, data: st.DataObject
) -> None:
    text = as_text(saved)
    at = data.draw(st.integers(0, len(text) - 1))
    cut = data.draw(st.integers(0, 6))
    damaged = text[:at] + data.draw(st.sampled_from(["", "0", '"', "[", "null", "-1"]))
    damaged += text[at + cut :]
    try:
        found = from_text(damaged)
    except DynftraceError as error:
        assert str(error) and "\n" not in str(error)
    else:
        assert from_text(as_text(found)) == found


def test_runs_of_the_machine_keep_their_lengths() -> None:
    saved = Saved(MachineOptions("x86_64"), (1000, 1000, 1000, *commands("ls"), 5, 1000))
    assert json.loads(as_text(saved))["done"] == [
        {"ns": 1000, "times": 3},
        "ls",
        {"ns": 5, "times": 1},
        {"ns": 1000, "times": 1},
    ]
    assert saved.commands == 1


def test_a_file_is_replaced_whole(folder: Path) -> None:
    first = Saved(MachineOptions("x86_64"), tuple(commands("echo 'a b'* > tracing_on")))
    assert session_file.load("mine") is None and session_file.names() == []
    session_file.save("mine", first)
    session_file.save("other", Saved(MachineOptions("mips")))
    assert session_file.load("mine") == first
    assert [each.name for each in sorted(folder.iterdir())] == ["mine.json", "other.json"]
    session_file.delete("mine")
    assert session_file.names() == ["other"]
    with pytest.raises(UsageError, match="session 'mine' does not exist"):
        session_file.delete("mine")


@pytest.mark.parametrize("name", ["", ".", "../x", ".hidden", "a/b", "a" * 65, "é", "a\n", "-\0"])
def test_an_invalid_name_is_refused(name: str) -> None:
    for act in (session_file.load, session_file.delete):
        with pytest.raises(UsageError, match="invalid session name"):
            act(name)


def changed(**what: object) -> str:
    table = json.loads(as_text(Saved(MachineOptions("x86_64"))))
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
        ("[" * 100_000, "unreadable JSON: "),
        ("[]", "not a dynftrace session"),
        ('{"version": true}', "not a dynftrace session"),
        ('{"version": 2}', "unsupported version 2: this dynftrace reads version 1"),
        ('{"version": 1}', "the session lacks the entry 'machine'"),
        (changed(more=1), "the session has an unknown entry 'more'"),
        (changed(machine__arch="vax"), "machine.arch is 'vax': unknown architecture"),
        (changed(machine__cpus=9), "machine.cpus must be an integer from 1 to 8"),
        (changed(machine__cpus=True), "machine.cpus must be an integer"),
        (changed(machine__modules="usbcore"), "machine.modules must be a list"),
        (changed(machine__kernel="a\0b"), "machine.kernel must be a string"),
        (changed(done=["ls", "'"]), "done[1] is not a command: syntax error: unterminated"),
        (changed(done=["ls; ls"]), "done[0] must be exactly one command"),
        (changed(done=["cd a; ls"]), "done[0] must be exactly one command"),
        (changed(done=["cd a && for x in b; do ls; done"]), "done[0] must be exactly one command"),
        (changed(done=[""]), "done[0] must be exactly one command"),
        (changed(done=[{"ns": 1, "times": 0}]), "done[0].times must be an integer from 1 to"),
        (
            changed(done=[{"ns": 1, "times": 10**7}, {"ns": 1, "times": 2}]),
            "done[1].times must be an integer from 1 to 1",
        ),
        (changed(done=[{"ns": -1, "times": 1}]), "done[0].ns must be an integer from 0 to"),
        (changed(now="1"), "now must be an integer"),
        (changed(layout__pane=5), "layout.pane must be an integer from 1 to 4"),
        (changed(layout__order="size"), "layout.order is 'size' (choose from: use, address, name"),
        (changed(layout__zoomed=1), "layout.zoomed must be true or false"),
        (
            changed(layout__marks={"C": [1, 2, 3, 0, 0]}),
            "layout.marks may only have the entries A and B",
        ),
        (changed(layout__marks={"A": [1]}), "layout.marks.A must have 5 entries"),
        (changed(layout__bookmarks=[[1, 2, 3, 0, "x"]]), "a bookmark must be an integer from"),
    ],
)
def test_an_error_names_the_file(
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


def test_sessions_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(("sessions",)) == 0
    assert capsys.readouterr().out == ""
    session_file.save("lesson", Saved(MachineOptions("ppc64"), (5, *commands("ls; ls"), 5)))
    session_file.save("b", Saved(MachineOptions("x86_64-2008"), tuple(commands("run"))))
    assert cli.run(("sessions",)) == 0
    assert capsys.readouterr().out == (
        "b       x86_64-2008   1 command\nlesson  ppc64         2 commands\n"
    )
    assert cli.run(("sessions", "--delete", "b")) == 0
    assert cli.run(("sessions", "--delete", "b")) == 2
    assert (
        capsys.readouterr().err
        == "dynftrace: session 'b' does not exist: dynftrace sessions lists all\n"
    )
    assert session_file.names() == ["lesson"]
