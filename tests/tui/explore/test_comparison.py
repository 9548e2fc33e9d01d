"""One function on every port, and the palette's experiments."""

from __future__ import annotations

import re

import pytest

from dynftrace import arches
from dynftrace.core.errors import UsageError
from dynftrace.core.session.session import Session
from dynftrace.core.shell.commands import commands
from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.console.experiments import EXPERIMENTS
from dynftrace.tui.console.screens.box import Box
from dynftrace.tui.console.widgets.text_view import TextView
from dynftrace.tui.explore.comparison import compared
from dynftrace.tui.pictures.picture import settle
from dynftrace.tui.present.line import plain


def test_a_function_is_compared_on_every_port() -> None:
    lines = compared("vfs_read")
    table, lines = lines[: lines.index("")], lines[lines.index("") + 1 :]
    assert table[0].split() == ["compiled", "disabled", "enabled"]
    assert [row.split()[0] for row in table[1:] if row[0] != " "] == list(arches.built_in())
    assert max(map(len, table)) <= 76
    heads = [line.split()[0] for line in lines if line and not line.startswith(" ")]
    assert heads == list(arches.built_in())
    session = Session.open(arches.load("arm64"))
    row = session.boot.ftrace.records.names.index("vfs_read")
    at = next(number for number, line in enumerate(lines) if line.startswith("arm64 "))
    now = " ".join(
        each.now.data.hex(" ")
        for each in session.call_site(session.boot.ftrace.records.ip_of(row)).rows
        if each.is_site
    )
    assert lines[at].endswith(f", vfs_read at {session.boot.ftrace.records.table['ip'][row]:x}")
    assert lines[at + 2].split("  ")[1].strip().startswith("disabled") and now in lines[at + 2]
    assert max(map(len, lines)) <= 80


def test_a_function_may_be_missing_from_some_kernels_but_not_all() -> None:
    found = compared("do_int80_syscall_32")
    assert "x86_64  has no call site in do_int80_syscall_32" in found
    assert any(re.match("i386 .* do_int80_syscall_32 at ", line) for line in found)
    with pytest.raises(UsageError, match="a function 'nothing'"):
        compared("nothing")


async def test_the_palette_offers_comparisons_and_experiments() -> None:
    session = Session.open(arches.load("x86_64"))
    app = ConsoleApp(lambda: SessionDriver(session))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        app.command("site schedule")
        await settle(pilot)
        offered = {each.title: each for each in app.get_system_commands(app.screen)}
        offered["Compare on every architecture"].callback()
        await settle(pilot)
        assert isinstance(app.screen, Box)
        shown = app.screen.query_one(TextView)
        lines = [plain(shown.line(row, 100)) for row in range(shown.count())]
        assert lines[0].split() == ["compiled", "disabled", "enabled"]
        assert any(each.startswith("x86_64  64-bit, little-endian, schedule at ") for each in lines)
        await pilot.press("escape")
        offered["Experiment: damage this call site, and trace it"].callback()
        await settle(pilot)
        ip = session.address_of("schedule")
        assert session.boot.machine.memory.read(ip, 4) == bytes(4)
        assert session.boot.ftrace.disabled
        await pilot.press("escape")
        offered = {each.title: each for each in app.get_system_commands(app.screen)}
        offered["Experiment: undo the last command"].callback()
        await settle(pilot)
        assert not session.boot.ftrace.disabled


def test_experiments_are_existing_commands() -> None:
    assert {each.command.split()[0] for each in EXPERIMENTS} <= set(commands())
    assert len({each.title for each in EXPERIMENTS}) == len(EXPERIMENTS)
