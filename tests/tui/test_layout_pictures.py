"""Pictures of the layouts with made-up data: they change only when the console does."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from dynftrace.core.errors import FtraceBug
from dynftrace.core.views.disasm import Insn
from dynftrace.tui.app import ConsoleApp
from dynftrace.tui.picture import settle
from dynftrace.tui.report import bug_report
from dynftrace.tui.sitetext import site_lines

from .canned import CannedDriver
from .test_sitetext import CALL, IP, view

SIZES = [(80, 24), (120, 40), (200, 50)]

SnapCompare = Callable[..., bool]


def driver() -> CannedDriver:
    """A machine with schedule traced."""
    canned = CannedDriver()
    canned.filtered = ["schedule"]
    canned.tracer = "function"
    canned.base = replace(canned.base, site=site_lines(view("enabled", CALL, CALL)))
    return canned


def refused() -> CannedDriver:
    """A machine whose ftrace refused a patch."""
    canned = driver()
    bug = FtraceBug(
        IP,
        errno=errno.EINVAL,
        expected=b"\x0f\x1f\x44\x00\x00",
        found=b"\xeb\xfe\x90\x90\x90",
        symbol="schedule+0x0/0x80",
    )
    texts = {0x0F: "nop", 0xEB: "jmp ."}
    report = bug_report(bug, lambda at, data: [(Insn(at, data, "", ""), texts[data[0]])], hex)
    status = replace(canned.base.status, ftrace_off=True)
    canned.base = replace(canned.base, status=status, reports=(report,))
    return canned


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize(
    ("make", "keys"),
    [
        pytest.param(driver, ["j"], id="main"),
        pytest.param(driver, ["2"], id="site"),
        pytest.param(driver, ["4", "z"], id="trace"),
        pytest.param(driver, ["question_mark"], id="help"),
        pytest.param(driver, ["colon", *"cat av"], id="command"),
        pytest.param(driver, ["slash", *"sched"], id="filter"),
        pytest.param(driver, ["w"], id="workloads"),
        pytest.param(refused, [], id="refused"),
    ],
)
def test_picture(
    snap_compare: SnapCompare,
    make: Callable[[], CannedDriver],
    keys: list[str],
    size: tuple[int, int],
) -> None:
    async def press(pilot: Pilot[None]) -> None:
        await settle(pilot)
        for key in keys:
            await pilot.press(key)
        await settle(pilot)

    assert snap_compare(ConsoleApp(make), terminal_size=size, run_before=press)


def test_too_small(snap_compare: SnapCompare) -> None:
    assert snap_compare(ConsoleApp(driver), terminal_size=(50, 12), run_before=settle)


def test_light_theme(snap_compare: SnapCompare) -> None:
    app = ConsoleApp(driver)
    app.theme = "dynftrace-light"
    assert snap_compare(app, terminal_size=(120, 40), run_before=settle)


def test_without_colour(snap_compare: SnapCompare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(ConsoleApp(driver), terminal_size=(120, 40), run_before=settle)
