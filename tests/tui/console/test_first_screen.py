"""The first minute: from the first screen to a traced call, by the keys that it names."""

from __future__ import annotations

import pytest

from dynftrace.core.session.session import Session
from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.console.screens.box import Box
from dynftrace.tui.pictures.picture import settle

from .test_main_screen import equivalent, shown


def screen(app: ConsoleApp) -> str:
    """Return the text on the screen."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


@pytest.mark.parametrize("size", [(80, 24), (100, 30)])
async def test_from_a_nop_to_events(session: Session, size: tuple[int, int]) -> None:
    alone = size[0] < 100
    app = ConsoleApp(lambda: SessionDriver(session))
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        assert equivalent(app).startswith("t rewrites the instruction at ▶")
        first = screen(app)
        assert "schedule   DISABLED" in first and "nop dword ptr [rax + rax]" in first
        await pilot.press("t")
        await settle(pilot)
        assert "call ftrace_caller" in screen(app)
        assert "w runs a workload" in equivalent(app)
        await pilot.press("w")
        await settle(pilot)
        assert "syscalls  two processes read and write files" in screen(app)
        await pilot.press("enter")
        await settle(pilot)
        assert shown(app) == ([4] if alone else [1, 2, 3, 4])
        assert "syscalls-" in screen(app)
        await pilot.press("t")
        await settle(pilot)
        assert "b brings it back" in equivalent(app)
        await pilot.press("b")
        await settle(pilot)
        assert "syscalls-" in screen(app)


async def test_t_turns_from_the_list_to_the_call_site(session: Session) -> None:
    app = ConsoleApp(lambda: SessionDriver(session))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("1", "t")
        await settle(pilot)
        assert shown(app) == [2] and "call ftrace_caller" in screen(app)


async def test_an_error_too_long_for_its_row_has_a_box(session: Session) -> None:
    app = ConsoleApp(lambda: SessionDriver(session))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app.command("cat " + "x" * 50)
        await settle(pilot)
        assert isinstance(app.screen, Box)
        assert "No such file or directory" in " ".join(screen(app).replace("│", "").split())
