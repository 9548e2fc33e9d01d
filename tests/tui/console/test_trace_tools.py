"""Trace keys for filters, folds, bookmarks and export, on made-up and on real events."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from dynftrace.core.session.session import Session
from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.console.widgets.command_line import CommandLine
from dynftrace.tui.console.widgets.equivalent_command import EquivalentCommand
from dynftrace.tui.console.widgets.trace_view import TraceView
from dynftrace.tui.explore.filter_completion import completed
from dynftrace.tui.explore.trace_marks import BOOKMARK
from dynftrace.tui.pictures.picture import settle
from dynftrace.tui.present.line import plain

from ..canned import CannedDriver, Events
from .test_console_session import console as real_console
from .test_console_session import do
from .test_main_screen import console


def trace(app: ConsoleApp) -> TraceView:
    """Return the trace on the screen."""
    return app.main.trace.events


def edge(app: ConsoleApp) -> str:
    """Return the text on the trace pane's lower edge."""
    return str(app.main.trace.border_subtitle)


def texts(app: ConsoleApp) -> list[str]:
    """Return all rows shown."""
    view = trace(app)
    return [view.text(row) for row in range(view.count())]


def toasts(app: ConsoleApp) -> list[str]:
    """Return the notifications."""
    noted = app.main.query_one(EquivalentCommand).noted
    return [*(each.message for each in app._notifications), *([noted] if noted else [])]


async def filtered(pilot: Pilot[None], text: str) -> None:
    """Replace the filter by typing."""
    await pilot.press("F", "ctrl+u", *("space" if char == " " else char for char in text), "enter")
    await pilot.pause()


def test_filter_words_complete_with_or_without_their_kind() -> None:
    words = ["func:vfs_read", "task:vfsd", "cpu:0", "func:kfree", "func:vfs_write"]
    assert completed("", words) == words
    assert completed("cpu:0 func:v", words) == ["cpu:0 func:vfs_read", "cpu:0 func:vfs_write"]
    assert completed("!vfs", words) == ["!func:vfs_read", "!task:vfsd", "!func:vfs_write"]
    assert completed("cpu:0 ", words)[1] == "cpu:0 task:vfsd"
    assert completed("nothing", words) == []


async def test_filtering_keeps_the_cursor_near_its_event() -> None:
    async with console(CannedDriver()) as (app, pilot):
        view = trace(app)
        assert edge(app) == "following │ 1,204 rows"
        await pilot.press("4", "up", "up", "up")
        event = view.text(view.cursor)
        await filtered(pilot, "cpu:0")
        assert edge(app) == f"held at {view.cursor + 1:,} │ filter cpu:0: 602 of 1,204 rows"
        assert view.text(view.cursor) == event
        assert all("[000]" in text for text in texts(app))
        await filtered(pilot, "cpu:1")
        assert view.text(view.cursor) != event, "the cursor must be on the next shown event"
        await filtered(pilot, "")
        assert edge(app) == f"held at {view.cursor + 1:,} │ 1,204 rows"
        assert view.text(view.cursor) == event
        await filtered(pilot, "cpu:1")
        await pilot.press("up")
        event = view.text(view.cursor)
        await filtered(pilot, " ")
        assert view.text(view.cursor) == event


async def test_a_long_filter_leaves_room_for_the_counts() -> None:
    async with console(CannedDriver(), (80, 24)) as (app, pilot):
        await pilot.press("4", "up", "m", "up", "m")
        await filtered(pilot, f"cpu:0,{'7,' * 30}7")
        trace(app).show(Events(1204, lost=5))
        await pilot.pause()
        assert edge(app).endswith("…: 602 of 1,204 rows │ 5 new │ A to B -3.000 us")
        assert len(edge(app)) == app.main.trace.size.width - 2
        await pilot.resize_terminal(140, 40)
        await pilot.pause()
        assert f"filter cpu:0,{'7,' * 30}7: 602 of" in edge(app)


async def test_new_events_are_filtered() -> None:
    async with console(CannedDriver()) as (app, pilot):
        view = trace(app)
        await pilot.press("4")
        await filtered(pilot, "cpu:0")
        assert view.follow and view.count() == 602
        view.show(Events(1000, lost=303))
        assert view.count() == 500 and view.cursor == 499
        await pilot.press("up")
        event = view.text(view.cursor)
        view.show(Events(1000, lost=400))
        assert view.text(view.cursor) == event and view.pending == 97
        await pilot.press("G")
        assert (
            view.cursor == 499 and view.text(499) == Events(1000, lost=400).text.texts(998, 999)[0]
        )


async def test_the_line_offers_the_rows_words_and_keeps_invalid_text() -> None:
    async with console(CannedDriver()) as (app, pilot):
        await pilot.press("4", "F")
        await pilot.pause()
        await pilot.press("tab")
        line = app.query_one("#line-edit", Input)
        assert line.value == "func:kmalloc", "the last event's function must be offered first"
        await pilot.press("tab")
        assert line.value == "pid:3"
        await pilot.press("ctrl+u", *"irq:4", "enter")
        await pilot.pause()
        reason = "unknown kind 'irq:' in irq:4 (choose from: func:, task:, pid:, cpu:)"
        assert toasts(app)[-1] == f"invalid filter: {reason}"
        assert app.main.query_one(CommandLine).display and line.value == "irq:4"
        assert trace(app).count() == 1204
        await pilot.press("ctrl+u", *"cpu:0", "enter", "F")
        assert line.value == "cpu:0", "the current filter must be offered"
        await pilot.press(*",7", "enter", "F")
        assert line.value == "cpu:0,7", "the current filter must be editable"
        await pilot.press("escape")
        assert trace(app).count() == 602
        await pilot.press("F", "up", "up", "up")
        assert line.value == "irq:4", "earlier input must be recalled"


async def test_search_and_markers_use_only_shown_rows() -> None:
    async with console(CannedDriver()) as (app, pilot):
        view = trace(app)
        await pilot.press("4")
        await filtered(pilot, "cpu:0")
        await pilot.press("slash", *"kernel_clone", "enter")
        found = [view.cursor]
        assert "kernel_clone" in view.text(view.cursor)
        for key in ("N", "N", "n"):
            await pilot.press(key)
            found.append(view.cursor)
            assert "kernel_clone" in view.text(view.cursor)
        # Every 33rd event, and every second one of these.
        assert [one - other for one, other in zip(found[1:], found, strict=False)] == [-33, -33, 33]
        await pilot.press("m", "down", "down", "m")
        assert edge(app).endswith("│ A to B +12.000 us")
        assert plain(view.line(view.cursor, 90)).startswith("B")
        await filtered(pilot, "")
        assert plain(view.line(view.cursor, 90)).startswith("B")
        assert plain(view.line(view.cursor - 4, 90)).startswith("A")
        await filtered(pilot, "cpu:1")
        await pilot.press("slash", *"[000]", "enter")
        await pilot.pause()
        assert toasts(app)[-1] == "'[000]' not found in the rows shown"


async def test_bookmarks_stay_with_their_events() -> None:
    async with console(CannedDriver()) as (app, pilot):
        view = trace(app)
        await pilot.press("4", "up", "up", "B", "up", "up", "B", "up", "B", "B")
        rows = [1199, 1201]
        assert [plain(view.line(row, 90))[0] for row in rows] == [BOOKMARK, BOOKMARK]
        assert [place.time for place in view.bookmarks] == [1201 * 3000, 1199 * 3000]
        seen = []
        for key in ("u", "u", "u", "U", "U"):
            await pilot.press(key)
            seen.append((view.cursor, *toasts(app)))
        below, above = (f"no bookmark {where}: B sets one" for where in ("below", "above"))
        assert seen == [(1199,), (1201,), (1201, below), (1199, below), (1199, above)]
        view.follow = True
        view.show(Events(1204, lost=10))
        assert plain(view.line(1191, 90))[0] == BOOKMARK
        view.show(Events(1204, lost=1201))
        assert len(view.bookmarks) == 2, "the bookmark must be kept: the event may be shown again"
        saved, view.bookmarks = view.bookmarks, ()
        assert plain(view.line(0, 90))[0] == " "
        view.bookmarks = saved
        assert plain(view.line(0, 90))[0] == BOOKMARK
        await filtered(pilot, "cpu:0")
        await pilot.press("g", "U")
        assert view.bookmarks == saved and view.cursor == 0, (
            "a bookmark that is not shown must be skipped"
        )


async def test_shown_rows_are_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dynftrace-1.txt").write_text("mine")
    async with console(CannedDriver()) as (app, pilot):
        await pilot.press("4", "E", "enter")
        await settle(pilot)
        assert toasts(app) == ["saved dynftrace-2.txt: 1,204 rows"]
        saved = (tmp_path / "dynftrace-2.txt").read_text()
        assert saved.splitlines() == [*Events(1204).text.header, *Events(1204).text.texts(0, 1204)]
        await filtered(pilot, "cpu:0")
        await pilot.press("up", "m", "up", "up", "m", "E", "enter")
        await settle(pilot)
        assert toasts(app)[-1] == "saved dynftrace-3.txt: 3 rows"
        lines = (tmp_path / "dynftrace-3.txt").read_text().splitlines()
        notes = ["# from marker A to marker B", "# filter: cpu:0"]
        assert lines == [*Events(1204).text.header, *notes, *texts(app)[-4:-1]]
        await filtered(pilot, "cpu:1")
        await pilot.press("E", "enter")
        await settle(pilot)
        # The markers' own events are not shown.
        assert toasts(app)[-1] == "saved dynftrace-4.txt: 2 rows"
        trace(app).follow = True
        trace(app).show(Events(1204, lost=1203))
        await pilot.press("E")
        await settle(pilot)
        assert toasts(app)[-1] == "a marked event has left the buffer: M removes the markers"
        assert (tmp_path / "dynftrace-1.txt").read_text() == "mine"
        assert len(list(tmp_path.iterdir())) == 4


async def test_a_failed_save_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    async with console(CannedDriver()) as (app, pilot):
        await pilot.press("4", "E", "enter")
        await settle(pilot)
        assert toasts(app) == ["dynftrace-1.txt: No such file or directory"]
        await filtered(pilot, "cpu:7")
        assert edge(app).endswith("filter cpu:7: 0 of 1,204 rows")
        await pilot.press("E")
        assert toasts(app) == ["no rows to save"]
        await pilot.press("up", "m", "B", "u", "enter", "r", "minus", "n", "down", "g", "G")


async def test_the_end_of_the_name_selects_the_format(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with real_console(session) as (app, pilot):
        await do(app, pilot, "echo schedule > set_ftrace_filter; echo function > current_tracer")
        await do(app, pilot, "run syscalls")
        for name, said in (
            ("t.dat", "saved t.dat"),
            ("t.csv", r"saved t.csv: \d+ events"),
            ("t.folded", "folded needs calls with times: trace with function_graph first"),
            ("t.xyz", r"unknown format: t.xyz must end in .json, .folded"),
            ("", r"saved t.csv: \d+ events"),  # nothing happens without a name
        ):
            await pilot.press("4", "E", "ctrl+u", *name, "enter", *([] if name else ["escape"]))
            await settle(pilot)
            if name:
                assert re.match(said, toasts(app)[-1])
        rows = list(csv.DictReader((tmp_path / "t.csv").open()))
        assert {row["function"] for row in rows} == {"schedule"}
        assert {path.name for path in tmp_path.iterdir()} == {"t.csv", "t.dat"}
        assert (tmp_path / "t.dat").read_bytes()[3:10] == b"tracing"


async def test_functions_and_tasks_of_a_real_trace_are_filtered(session: Session) -> None:
    async with real_console(session) as (app, pilot):
        await do(app, pilot, "echo function > current_tracer", "run syscalls")
        view = trace(app)
        every = texts(app)
        await pilot.press("4", "g", *["down"] * 40, "F")
        await settle(pilot)
        await pilot.press("tab")
        function = app.query_one("#line-edit", Input).value
        assert f": {function.removeprefix('func:')} <-" in every[40]
        await pilot.press("escape")
        await filtered(pilot, "vfs_* task:syscalls*")
        shown = [text for text in every if ": vfs_" in text and "syscalls" in text[:17]]
        assert 0 < len(shown) < len(every) and texts(app) == shown
        assert edge(app).endswith(f"vfs_* task:syscalls*: {len(shown)} of {len(every):,} rows")
        await pilot.press("enter")
        await settle(pilot)
        name = view.text(view.cursor).split(": ")[1].split()[0]
        assert app.view.ip == session.boot.kallsyms.address(name), (
            "the cursor must stay on its event"
        )


async def test_calls_of_a_real_graph_are_folded(session: Session) -> None:
    async with real_console(session) as (app, pilot):
        await do(
            app,
            pilot,
            "echo vfs_read > set_graph_function",
            "echo function_graph > current_tracer",
            "run syscalls",
        )
        view = trace(app)
        every = texts(app)
        # The first call that returns: before it, the guest's shell waits in one for its input.
        end = next(row for row, text in enumerate(every) if text.endswith("|  }"))
        cpu = every[end][:3]
        opening = max(
            row
            for row in range(end)
            if every[row].startswith(cpu) and every[row].endswith("vfs_read() {")
        )
        inside = [row for row in range(opening, end + 1) if every[row].startswith(cpu)]
        await pilot.press("4", "g", *["down"] * (opening + 1), "minus")
        rows = len(inside) - 1
        assert view.cursor == opening and not view.follow
        head = every[end].rpartition("}")[0]
        assert view.text(opening) == f"{head}vfs_read() {{ … {rows} rows }}"
        at = view.cursor + 1
        assert (
            edge(app) == f"held at {at:,} │ {len(every) - rows:,} of {len(every):,} rows │ 1 folded"
        )
        await pilot.press("B", "slash", *"vfs_read", "enter")
        assert view.cursor == opening
        await pilot.press("n")
        assert "vfs_read" in view.text(view.cursor) and view.cursor > opening
        await pilot.press("U", "minus")
        assert texts(app) == every and view.cursor == opening
        assert plain(view.line(opening, 90)) == BOOKMARK + every[opening][1:]
        await pilot.press("underscore")
        folded = texts(app)
        assert sum(" rows }" in text or " row }" in text for text in folded) >= 4
        assert not any(text.endswith(("{", "}")) and "…" not in text for text in folded)
        await do(app, pilot, "run syscalls")
        await pilot.press("G")
        await settle(pilot)
        now = texts(app)
        # The shell's call has got the input meanwhile.
        (waits,) = (row for row, text in enumerate(folded) if text.endswith("not here"))
        assert re.fullmatch(r".*us \|.*\d rows }", now[waits])
        now[waits] = folded[waits]
        assert len(now) > len(folded) and now[:7] == folded[:7], "new calls must not be folded"
        assert sum("…" in text for text in now) == sum("…" in text for text in folded)
        await pilot.press("plus")
        assert not any("…" in text for text in texts(app))
        await pilot.press("underscore")
        await do(app, pilot, "echo > trace", "run syscalls")
        assert edge(app).endswith(f" │ {trace(app).count():,} rows"), (
            "overwritten calls must not stay folded"
        )
