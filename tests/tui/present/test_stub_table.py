"""The Trampoline pane of a module's function: why it needs a stub, and the module's stubs."""

from __future__ import annotations

import pytest

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.console.worker import FRAME_S
from dynftrace.tui.present.line import plain

from ...support.keystone import needs_keystone

FAR = {
    "ppc64": ("insmod usbcore", "-1 EB", "its call reaches -32 MB to +32 MB"),
    "ppc32": ("insmod usbcore", "-256 MB", "its call reaches -32 MB to +32 MB"),
    "arm64": ("insmod --far usbcore", "-368 MB", "its call reaches -128 MB to +128 MB"),
    "mips": ("insmod usbcore-trampoline", "-1006 MB", "its call reaches -"),
}


def shown(arch: str, *commands: str, function: str = "usb_ifnum_to_if") -> list[str]:
    """Return the rows of the Trampoline pane."""
    driver = SessionDriver(Session.open(arches.load(arch)))
    for command in commands:
        assert not driver.execute(command).error
    ip = driver.execute(f"site {function}").site
    assert ip is not None
    driver.look_at(ip)
    return drawn(driver)


def drawn(driver: SessionDriver, *, old_s: float = 0.0) -> list[str]:
    """Return the rows of the Trampoline pane of a new view."""
    path = driver.view(old_s=old_s).path
    assert path is not None
    return [plain(each).rstrip() for each in path.fitted(120, 40)]


@pytest.mark.parametrize("arch", FAR)
def test_a_call_out_of_reach_says_why(arch: str) -> None:
    insmod, distance, reach = FAR[arch]
    rows = shown(arch, insmod)
    at = rows.index(f"  ftrace_caller is out of reach, {distance} from the site:")
    assert rows[at + 1].strip().startswith(reach)
    table = rows[next(n for n, row in enumerate(rows) if row.startswith("stubs of usbcore")) :]
    assert all(row.startswith("✓ ") for row in table[1:])
    assert "64 sites when enabled" in table[-1]


@pytest.mark.parametrize("arch", ["x86_64", "mips", "mips64"])
def test_a_call_within_reach_has_no_note(arch: str) -> None:
    rows = shown(arch, "insmod usbcore")
    assert not any("reach" in row or row.startswith("stubs of") for row in rows)


def test_a_site_of_the_kernel_needs_no_stub() -> None:
    rows = shown("ppc64", "insmod usbcore", function="schedule")
    assert not any("reach" in row or row.startswith("stubs of") for row in rows)


@needs_keystone
def test_a_damaged_stub_is_shown_in_the_table() -> None:
    rows = shown("ppc64", "insmod usbcore", "poke msleep.stub nop")
    (row,) = [row for row in rows if "msleep.stub" in row]
    assert row.startswith("! ")


@needs_keystone
def test_a_quick_view_keeps_the_last_table() -> None:
    driver = SessionDriver(Session.open(arches.load("ppc64")))
    driver.execute("insmod usbcore")
    ip = driver.execute("site usb_ifnum_to_if").site
    assert ip is not None
    driver.look_at(ip)
    driver.view()
    driver.execute("poke msleep.stub nop")
    wrong = [
        any(row.startswith("! msleep.stub") for row in drawn(driver, old_s=old_s))
        for old_s in (FRAME_S, 0.0)
    ]
    assert wrong == [False, True]
