"""The race screen: each cell of the table is one key away from the machine there, and back."""

from __future__ import annotations

import pytest

from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.console.screens.patching import PatchScreen
from dynftrace.tui.console.screens.race import RaceScreen
from dynftrace.tui.console.screens.report import ReportBox
from dynftrace.tui.console.screens.stepping import SteppingScreen
from dynftrace.tui.pictures.picture import settle
from dynftrace.tui.present.line import plain

from ...support.user import User
from .test_stepping import press, text


async def test_a_key_leads_to_the_cpu_between_two_words_and_back() -> None:
    user = User("ppc64", modules=("usbcore", "usbhub"))
    session = user.session
    machine = session.boot.machine
    app = ConsoleApp(lambda: SessionDriver(session))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settle(pilot)
        app.command("race usb_ifnum_to_if usb")
        await settle(pilot)
        table = app.screen
        assert isinstance(table, RaceScreen)
        ip = session.address_of("usb_ifnum_to_if") + 28
        before = (machine.now, session.history.lines, user.text())
        assert "nop                    [lost r2]" in text(table.rows)[2]
        await press(pilot, "enter")
        patch = app.screen
        assert isinstance(patch, PatchScreen) and session.boot.ftrace.patcher.patch is not None
        assert machine.vcpus[session.boot.stepper.last or 0].registers.pc == ip + 4
        assert any("60 00 00 00▶60 00 00 00" in row for row in text(patch.body))
        await press(pilot, "s", "q")
        assert app.screen is table and text(table.rows)[2].startswith("▶ 3")
        await press(pilot, "b")
        assert (machine.now, session.history.lines, user.text()) == before
        assert not any(row.startswith("▶") for row in text(table.rows))
        await press(pilot, "enter", "q", "down", "down", "down", "tab")
        assert "[lost r2]" in text(table.rows)[5]
        await press(pilot, "f")  # it goes there from where it was, not from the third row
        assert isinstance(app.screen, ReportBox) and machine.oopses
        await press(pilot, "escape")
        assert isinstance(app.screen, SteppingScreen)
        await press(pilot, "q", "b", "q")
        assert app.at_main and not machine.oopses
        assert (machine.now, session.history.lines, user.text()) == before


@pytest.mark.parametrize("width", [80, 100, 120, 200])
async def test_the_table_fits(width: int) -> None:
    user = User("x86_64")
    app = ConsoleApp(lambda: SessionDriver(user.session))
    async with app.run_test(size=(width, 24)) as pilot:
        await settle(pilot)
        app.command("site schedule")
        await settle(pilot)
        await press(pilot, "P")
        table = app.screen
        assert isinstance(table, RaceScreen)
        for view in (table.head, table.names, table.rows, table.foot):
            assert all(len(plain(view.line(row, width))) <= width for row in range(view.count()))
        assert len(text(table.foot)) <= table.foot.size.height
