"""`dynftrace open` and `--trace`: a recorded trace as text, in the console, and converted."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.console.recorded import RecordedDriver
from dynftrace.tui.console.screens.picture import PictureScreen
from dynftrace.tui.pictures.picture import settle

from .command_line import here

GRAPH = "echo sys_open > set_graph_function; echo function_graph > current_tracer; run syscalls"


@pytest.fixture
def graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "graph.dat"
    assert here(capsys, "export", "-c", GRAPH, "-o", str(path)) == (0, "", "")
    return path


def test_the_text_is_that_of_the_machine(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    live = here(capsys, "sh", "-c", f"{GRAPH}; cat trace")
    assert here(capsys, "open", str(graph), "--text") == live
    status, chosen, err = here(capsys, "open", str(graph), "--text", "--only", "sys_open")
    assert (status, err) == (0, "")
    rows = [row for row in chosen.splitlines() if not row.startswith("#")]
    assert rows and set(rows) < set(live[1].splitlines())
    # Where the task of a CPU changes, the rows say so in five lines of their own.
    named = [row for row in rows if row and "---" not in row and "=>" not in row]
    assert named and all("sys_open" in row or row.endswith("}") for row in named)


def test_a_recorded_trace_is_converted(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live, converted = tmp_path / "live.folded", tmp_path / "converted.folded"
    assert here(capsys, "export", "-c", GRAPH, "-o", str(live)) == (0, "", "")
    assert here(capsys, "export", "--trace", str(graph), "-o", str(converted)) == (0, "", "")
    assert converted.read_bytes() == live.read_bytes()
    picture = tmp_path / "flame.svg"
    assert here(capsys, "draw", "--trace", str(graph), "flame", "-o", str(picture)) == (0, "", "")
    assert "sys_open" in picture.read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("open", "/dev/null", "--text"), "/dev/null: not a regular file"),
        (("open", "FILE"), "the console needs a terminal; use --text without one"),
        (("open", "FILE", "--text", "--instance", "x"), "no trace instance named 'x' in the file"),
        (("open", "FILE", "--only", "cpu:0"), "--only needs --text"),
        (("export", "--trace", "FILE", "-c", "pwd", "-o", "x.csv"), "-c needs a machine"),
        (("export", "--trace", "FILE", "-o", "x.dat"), "is a trace.dat already"),
        (("export", "-o", "x.csv"), "nothing to export: give commands with -c"),
        (("draw", "--trace", "FILE", "map", "-o", "x.svg"), "'map' needs a machine"),
    ],
)
def test_an_impossible_request_is_one_sentence(
    arguments: tuple[str, ...],
    says: str,
    graph: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [str(graph) if word == "FILE" else word for word in arguments]
    status, out, err = here(capsys, *words)
    assert status and not out and says in err
    assert not list(tmp_path.glob("x.*"))


async def test_the_console_explores_a_file(graph: Path) -> None:
    app = ConsoleApp(lambda: RecordedDriver(graph), recorded=True)
    async with app.run_test(size=(120, 40)) as pilot:

        async def press(*keys: str) -> None:
            for key in keys:
                await pilot.press(key)
                await settle(pilot)

        await settle(pilot)
        events = app.main.trace.events
        whole = events.count()
        assert app.main.visible_panes() == (1, 4)
        assert whole > 20 and events.here == 0 and not events.follow
        assert app.main.functions.rows.ip is not None
        await press("underscore")
        assert 0 < events.count() < whole
        await press("plus", "c", "t", "colon")  # the last three need a machine
        assert events.count() == whole and app.view.status.recorded
        assert not app.runner.running
        await press("1", "enter")
        assert app.main.active == 4
        await press("T")
        assert isinstance(app.screen, PictureScreen)
