"""The patch screen: it opens when a watched patch waits, and its keys go through it."""

from __future__ import annotations

import pytest

from dynftrace.core.session.session import Session
from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.console.screens.patching import PatchScreen
from dynftrace.tui.pictures.picture import settle
from dynftrace.tui.present.line import plain
from dynftrace.tui.present.patching import lane_rows, phase_rows, rows_of

from ...support.user import User
from .test_stepping import press, text

SIZES = ((80, 24), (200, 50))


async def test_the_keys_lead_through_a_patch_and_back(session: Session) -> None:
    app = ConsoleApp(lambda: SessionDriver(session))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settle(pilot)
        for command in ("patch breakpoint", "site schedule"):
            app.command(command)
            await settle(pilot)
        await press(pilot, "p", "t")
        screen = app.screen
        assert isinstance(screen, PatchScreen)
        assert any("▶  7 [cc]1f 44 00 00" in row for row in text(screen.body))
        await press(pilot, "n", "i")
        assert any("▶cc" in row and "runs int3" in row for row in text(screen.body))
        await press(pilot, "s", "b")
        assert any("▶cc" in row for row in text(screen.body))
        await press(pilot, "f")
        assert "complete" in text(screen.head)[0]
        await press(pilot, "b")
        assert "phase 8 of 18" in text(screen.head)[0]
        await press(pilot, "q")
        assert app.at_main
        await press(pilot, "p")
        assert isinstance(app.screen, PatchScreen)


@pytest.mark.parametrize("cpus", [1, 8])
def test_each_row_fits_at_every_width(cpus: int) -> None:
    user = User("ppc64", modules=("usbcore", "usbhub"), cpus=cpus)
    user("until usb_ifnum_to_if usb; step 1; patch watch usb_ifnum_to_if")
    user("echo function > current_tracer")
    view = user.session.patch_view()
    assert view is not None
    for width, height in SIZES:
        rows = rows_of(view, height - 4, width - 1, 0)
        assert len(rows) <= height - 4
        assert all(len(plain(row)) < width for row in rows)
    inside = [plain(row) for row in lane_rows(view, 80, 0) if "60 00 00 00▶60" in plain(row)]
    assert len(inside) == 1 and "continues with nop" in inside[0]
    assert "[48 00 30 15 e8 41 00 28]" in plain(phase_rows(view, 80)[3])
