"""Pictures without a terminal: sizes, screens, and the imports of the first paint."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import dynftrace
from dynftrace import arches
from dynftrace.core.errors import UsageError
from dynftrace.core.session.session import Session
from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.console.worker import Driver
from dynftrace.tui.pictures.picture import (
    POSES,
    Pose,
    Take,
    in_looks,
    parse_size,
    picture,
    settle,
    take_picture,
)


def test_a_size_is_parsed() -> None:
    assert parse_size("120x40") == (120, 40)
    for text in ("", "120", "x40", "120x", "120x40x1", "-1x4", "99999x4", "a x b"):
        with pytest.raises(UsageError):
            parse_size(text)


def test_a_bad_request_is_one_sentence() -> None:
    def never() -> Session:
        raise AssertionError("nothing was to be opened")

    with pytest.raises(UsageError, match=r"unknown screen 'nothing' \(choose from: main"):
        take_picture(never, "", "nothing", (80, 24))
    for size in ((19, 24), (80, 4), (501, 24), (80, 301)):
        with pytest.raises(UsageError, match=r"invalid size \d+x\d+: valid sizes are 20x5"):
            take_picture(never, "", "main", size)


def test_commands_are_executed_first(session: Session) -> None:
    commands = "echo schedule > set_ftrace_filter\n\necho function > current_tracer\nsite schedule"
    svg = take_picture(lambda: session, commands, "site", (80, 24))
    assert svg.startswith("<svg")
    assert "ENABLED" in svg and "ftrace_caller" in svg


def test_an_unknown_theme_is_one_sentence(session: Session) -> None:
    with pytest.raises(UsageError, match="unknown theme 'mauve'"):
        take_picture(lambda: session, "", "main", (80, 24), "mauve")


@pytest.mark.parametrize("pose", [POSES["site"], Pose(("ctrl+p", *"exp"))], ids=["site", "palette"])
def test_a_picture_shows_what_a_separate_console_shows(
    session: Session, pose: Pose, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(theme: str) -> str:
        return asyncio.run(
            picture(lambda: SessionDriver(session), ("site schedule",), pose, (80, 24), theme)
        )

    take = Take(("site schedule",), pose)
    (drawn,) = asyncio.run(in_looks(lambda: SessionDriver(session), [take], (80, 24)))
    made = drawn.pictures
    assert made["dark"] == draw("dynftrace")
    assert made["light"] == draw("dynftrace-light")
    monkeypatch.setenv("NO_COLOR", "1")
    assert made["no-colour"] == draw("dynftrace")


async def test_settle_takes_no_time_if_there_is_nothing_to_do(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep, slept = asyncio.sleep, []

    async def noted(seconds: float) -> None:
        slept.append(seconds)
        await sleep(seconds)

    app = ConsoleApp(lambda: SessionDriver(session))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert app.view.functions is not None and not app.runner.fresh
        with monkeypatch.context() as patch:
            patch.setattr(asyncio, "sleep", noted)
            await settle(pilot)
    assert set(slept) == {0}


def test_an_error_in_a_picture_is_raised_at_once() -> None:
    def broken() -> Driver:
        raise ZeroDivisionError("ours")

    with pytest.raises(Exception, match="ours"):
        asyncio.run(asyncio.wait_for(picture(broken, (), Pose(), (80, 24)), 30))


def test_the_first_paint_imports_nothing_heavy() -> None:
    heavy = (
        "numpy",
        "unicorn",
        "capstone",
        "keystone",
        "elftools",
        "dynftrace.core.session.session",
    )
    code = (
        f"import sys, dynftrace.tui.console.app; print([m for m in {heavy!r} if m in sys.modules])"
    )
    package = str(Path(dynftrace.__file__).parents[1])
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": package},
    )
    assert run.stdout == "[]\n"


def test_a_kernel_file_is_examined_after_the_first_paint() -> None:
    kernel = arches.load("mips").images() / "vmlinux.elf"
    code = (
        "import sys\n"
        "import dynftrace.tui.cli.console as console, dynftrace.tui.console.run as run\n"
        "from dynftrace.tui import cli\n"
        "heavy = {'numpy', 'unicorn', 'capstone', 'dynftrace.arches.mips.mips32.port'}\n"
        "def paint(machine, **options):\n"
        "    print(sorted(heavy & set(sys.modules)), machine().port.facts.name)\n"
        "    return 0\n"
        "run.run_console, console.need_a_terminal = paint, lambda instead: None\n"
        f"sys.exit(cli.run(['--kernel', {str(kernel)!r}]))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout == "[] mips\n"
