"""The function filter: completion, and choosing exactly the functions shown."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from dynftrace.tui.pictures.picture import settle

from ...support.user import opened
from ..canned import CannedDriver, index
from ..console.test_console_session import console as real_console
from ..console.test_console_session import do
from ..console.test_main_screen import console


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("vfs_r", ["vfs_read"]),
        ("vfs", ["vfs_open", "vfs_read", "vfs_write"]),
        ("kfree vfs_o", ["kfree vfs_open"]),
        ("!vfs_o", ["!vfs_open"]),
        (":", [":mod:usbcore"]),
        ("usb*:m", ["usb*:mod:usbcore"]),
        ("vfs_*", []),
        ("", []),
        ("vfs ", []),
        ("nothing", []),
        ("vfs:x", []),
    ],
)
def test_a_filter_has_completions(text: str, found: list[str]) -> None:
    assert index().complete(text) == found


async def test_tab_completes_and_cycles() -> None:
    async with console(CannedDriver(), (80, 24)) as (app, pilot):
        edit = app.query_one("#filter", Input)
        await pilot.press("slash", "v", "tab")
        assert edit.value == "vfs_"
        for name in ("vfs_open", "vfs_read", "vfs_write", "vfs_open"):
            await pilot.press("tab")
            assert edit.value == name
        await pilot.press("shift+tab")
        assert edit.value == "vfs_write"
        await settle(pilot)
        assert app.main.functions.rows.count() == 1
        await pilot.press("backspace", "backspace", "tab")
        assert edit.value == "vfs_write"
        await pilot.press("space", *"!", "colon", "tab")
        assert edit.value == "vfs_write !:mod:usbcore"
        await pilot.press("x", "tab", "tab")
        assert edit.value == "vfs_write !:mod:usbcorex"


async def test_tab_without_a_word_goes_to_the_next_pane() -> None:
    async with console(CannedDriver()) as (app, pilot):
        await pilot.press("1", "slash", "tab")
        assert app.main.active == 2
        await pilot.press("1", "slash", "shift+tab")
        assert app.main.active == 4


PATTERNS = (
    *("vfs_*", "read", ":mod:usbcore", "usb !usb_get*", "!*e*", "*[a-f]_t?sk*", "vfs_read"),
    "usb_*:mod:usbcore vfs_*",
)


@pytest.mark.parametrize(("arch", "patterns"), [("x86_64", PATTERNS), ("ppc64", PATTERNS[:2])])
async def test_exactly_the_shown_functions_are_chosen(arch: str, patterns: tuple[str, ...]) -> None:
    session = opened(arch)
    async with real_console(session) as (app, pilot):
        await do(app, pilot, "insmod usbcore")
        for pattern in patterns:
            await pilot.press("1", "slash", *pattern, "enter", "a")
            await settle(pilot)
            rows = app.main.functions.rows
            assert rows.functions is not None
            shown = [rows.functions.row(int(i)).name for i in rows._shown]
            chosen = session.boot.tracefs.read("set_ftrace_filter").splitlines()
            assert sorted(shown) == sorted(line.split()[0] for line in chosen), pattern
            assert shown
