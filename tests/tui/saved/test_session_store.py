"""A console reopened by its name has the same machine and layout."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from dynftrace.core.errors import GuestInterrupted
from dynftrace.core.session.session import Session
from dynftrace.tui import cli
from dynftrace.tui.console import run as consoles
from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.console.layout import layout_of
from dynftrace.tui.console.widgets.equivalent_command import EquivalentCommand
from dynftrace.tui.pictures.picture import settle
from dynftrace.tui.saved import session_file
from dynftrace.tui.saved.machine_options import MachineOptions
from dynftrace.tui.saved.session_model import Layout, Saved
from dynftrace.tui.saved.session_store import SessionStore

from ..console.test_console_session import do


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a temporary folder for sessions."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "dynftrace" / "sessions"


def store(name: str = "mine", arch: str = "x86_64") -> SessionStore:
    return SessionStore(name, MachineOptions(arch, modules=("usbcore",)), session_file.load(name))


@asynccontextmanager
async def console(kept: SessionStore) -> AsyncIterator[tuple[ConsoleApp, Pilot[None]]]:
    app = ConsoleApp(lambda: SessionDriver(kept.open()), store=kept)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        yield app, pilot


def memory(kept: SessionStore) -> str:
    """A digest of all that the guest has, and of its time."""
    session = kept._session
    assert isinstance(session, Session)
    digest = hashlib.sha256(str(session.now).encode())
    for region in session.boot.machine.memory.regions:
        digest.update(region.bytes.tobytes())
    return digest.hexdigest()


def test_a_long_restore_shows_its_progress() -> None:
    now, seen = 0, []

    def clock() -> float:
        nonlocal now
        now += 1
        seen.append(kept.progress)
        return now

    done = tuple(["echo 1 > tracing_on"] * 5)
    kept = SessionStore(
        "mine", MachineOptions("x86_64"), Saved(MachineOptions("x86_64"), done), clock
    )
    kept.open()
    assert seen[:3] == ["", "", ""]
    assert seen[3:] == [
        "restoring session mine: 1 of 5, about 8 s left",
        "restoring session mine: 2 of 5, about 4 s left",
        "restoring session mine: 3 of 5, about 3 s left",
    ]
    assert kept.progress == ""


def toasts(app: ConsoleApp) -> list[str]:
    noted = app.main.query_one(EquivalentCommand).noted
    return [*(each.message for each in app._notifications), *([noted] if noted else [])]


async def test_machine_and_layout_are_restored() -> None:
    first = store()
    async with console(first) as (app, pilot):
        await do(
            app,
            pilot,
            "echo 'usb_*' vfs_read > set_ftrace_filter",
            "echo function > current_tracer",
        )
        await do(app, pilot, "run syscalls")
        app.runner.run()
        session = first._session
        assert session is not None
        before = session.now
        while session.now < before + 3_000_000:
            await pilot.pause(0.001)
        app.runner.pause()
        await settle(pilot)
        await do(app, pilot, "site vfs_read", "step", "poke jiffies 01", "run usb", "cat trace")
        await pilot.press("escape", "1", "slash", *"usb", "enter", "o", "j", "j")
        await pilot.press("4", "up", "m", "up", "up", "m", "B", "z")
        await pilot.press("F", *"usb_*", "enter")
        await settle(pilot)
        layout, digest = layout_of(app.main, app.theme), memory(first)
        assert len(layout.marks) == 2 and len(layout.bookmarks) == 1
        assert layout.trace_filter == "usb_*" and layout.order == "address"
        await pilot.press("S")
        await settle(pilot)
        assert toasts(app)[-1] == "session mine saved"
    again = store()
    async with console(again) as (app, pilot):
        assert again.differs == ""
        assert memory(again) == digest
        assert layout_of(app.main, app.theme) == layout
        assert app.query_one("#filter").value == "usb"  # type: ignore[attr-defined]
        assert app.main.trace.events.between is not None
        title = str(app.main.trace.border_subtitle)
        assert "A to B" in title
        # And continue from there.
        await do(app, pilot, "back")
        assert again._session is not None
        assert not again._session.journal.interrupted


async def test_an_interrupted_command_is_left_out_and_reported() -> None:
    first = store()
    async with console(first) as (app, pilot):
        await do(app, pilot, "echo schedule > set_ftrace_filter")
        digest = memory(first)
        app.command("run syscalls 100000")
        app.command("echo function > current_tracer")
        session = first._session
        assert session is not None
        before = session.now
        while session.now == before:
            await pilot.pause(0.01)
        await pilot.press("ctrl+c")
        await settle(pilot)
        assert session.journal.interrupted
        await pilot.press("S")
        await settle(pilot)
        assert toasts(app)[-1] == (
            "session mine saved without `run syscalls 100000` and 1 more after it: "
            "an interrupted command cannot be replayed"
        )
    again = store()
    async with console(again) as (app, pilot):
        assert memory(again) == digest and again.differs == ""


async def test_restoring_can_be_interrupted_and_leaves_the_file(folder: Path) -> None:
    saved = Saved(MachineOptions("x86_64"), (1_000_000,) * 100_000, None, Layout())
    session_file.save("long", saved)
    text = (folder / "long.json").read_bytes()
    kept = SessionStore("long", MachineOptions("x86_64"), saved)
    app = ConsoleApp(lambda: SessionDriver(kept.open()), store=kept)
    async with app.run_test(size=(80, 24)) as pilot:
        while kept._session is None or not kept._session.journal.actions:
            await pilot.pause(0.01)
        assert app.runner.mode == "OPENING"
        await pilot.press("ctrl+c")
        while not app._exit:
            await pilot.pause(0.01)
    assert app.return_code == 1
    assert app.runner.failure is None or "interrupted" in app.runner.failure
    consoles._keep(app, kept)
    assert kept.save(Layout()) == ""
    assert (folder / "long.json").read_bytes() == text


def test_a_stop_before_the_machine_exists_takes_effect() -> None:
    kept = SessionStore(
        "x", MachineOptions("x86_64"), Saved(MachineOptions("x86_64"), (1_000_000,))
    )
    thread = threading.Thread(target=kept.stop)
    thread.start()
    thread.join()
    with pytest.raises(GuestInterrupted, match="session x was interrupted"):
        kept.open()


def test_a_different_machine_is_reported() -> None:
    kept = SessionStore(
        "x", MachineOptions("x86_64"), Saved(MachineOptions("x86_64"), (1_000_000,), 5)
    )
    kept.open()
    assert "instead of 5 ns" in kept.differs


async def test_without_a_session_name_nothing_is_saved(session: Session, folder: Path) -> None:
    app = ConsoleApp(lambda: SessionDriver(session))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settle(pilot)
        await pilot.press("S")
        await settle(pilot)
        assert toasts(app) == ["to save a session, start with --session NAME"]
    assert not folder.exists()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ((), ""),
        (("--arch", "ppc64"), ""),
        (("--cpus", "2", "--module", "usbcore"), ""),
        (("--theme", "dynftrace-light"), ""),
        (("--arch", "i386"), "session mine was saved with a different --arch (ppc64, not i386): "),
        (("--cpus", "1"), "session mine was saved with a different --cpus (2, not 1): "),
        (
            ("--module", "crashy"),
            "session mine was saved with a different --module (usbcore, not crashy): ",
        ),
        (
            ("--patch", "none"),
            "session mine was saved with a different --patch (the default, not none): ",
        ),
        (
            ("--kernel", "x86_64-2008"),
            "session mine was saved with a different --kernel (ppc64, not x86_64-2008): ",
        ),
    ],
)
def test_options_for_another_machine_are_refused(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: tuple[str, ...],
    reason: str,
) -> None:
    machine = MachineOptions("ppc64", modules=("usbcore",))
    session_file.save("mine", Saved(machine, layout=Layout(theme="nord")))
    monkeypatch.setenv("TEXTUAL_DRIVER", "none")
    seen: list[ConsoleApp] = []
    monkeypatch.setattr(ConsoleApp, "run", lambda app: seen.append(app))
    status = cli.run(("--session", "mine", *given))
    err = capsys.readouterr().err
    told = f"dynftrace: {reason}omit {given[0]} or use another session name\n" if reason else ""
    assert (status, err) == (2 if reason else 0, told)
    assert len(seen) == (not reason)
    for app in seen:
        assert app.saving.store is not None and app.saving.store._machine == machine
        assert app.theme == ("dynftrace-light" if "--theme" in given else "nord")


def test_only_the_console_takes_a_session(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(("--session", "mine", "sh", "-c", "ls")) == 2
    assert "--session applies to the console only" in capsys.readouterr().err
