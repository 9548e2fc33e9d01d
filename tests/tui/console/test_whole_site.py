"""The instruction that `t` changes is whole in the Call site pane, on every port at every size."""

from __future__ import annotations

import asyncio
from functools import cache

import pytest

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell
from dynftrace.core.views.call_site import find_sites
from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.pictures.picture import settle
from dynftrace.tui.present.call_site import site_lines
from dynftrace.tui.present.line import plain
from dynftrace.tui.tours import course
from dynftrace.tui.tours.walk import Walk

from ..canned import CannedDriver

SIZES = ((80, 24), (100, 30), (120, 40), (200, 50))


@cache
def panes() -> frozenset[tuple[int, int]]:
    """Return the sizes of the Call site pane's text, with and without a tour."""

    async def measured(walk: Walk | None) -> set[tuple[int, int]]:
        found = set()
        app = ConsoleApp(CannedDriver, walk)
        async with app.run_test(size=SIZES[0]) as pilot:
            await settle(pilot)
            await pilot.press("2")
            for size in SIZES:
                await pilot.resize_terminal(*size)
                await settle(pilot)
                width, height = app.main.site.size
                found.add((width - app.main.site.scrollbar_size_vertical, height))
        return found

    walk = Walk(course.load("call-site"), 0)
    return frozenset(asyncio.run(measured(None)) | asyncio.run(measured(walk)))


@pytest.mark.parametrize("arch", arches.built_in())
def test_the_call_and_its_bytes_are_whole(arch: str) -> None:
    session = Session.open(arches.load(arch))
    facts = session.port.facts
    do = Shell(session).execute
    if facts.example.module:
        far = "--far " if facts.modules_far else ""
        assert not do(f"insmod {far}{facts.example.module}").error
    if "ftraced" in facts.discovery:
        do("run syscalls; sleep 1")
    names = ("schedule", facts.example.function)
    prefix = facts.abi.text_prefix
    ips = [find_sites(session.boot.ftrace.records, name, prefix)[0] for name in names]
    for tracer in ("nop", "function", "nop"):
        assert not do(f"echo {tracer} > current_tracer").error
        for site in map(session.call_site, ips):
            changing = [row for row in site.rows if row.switches]
            assert changing
            for width, height in panes():
                lines = [plain(each) for each in site_lines(site, width, height)[:height]]
                for row in changing:
                    whole = f" {row.now.data.hex(' ')} {row.now.asm}"
                    now = [
                        each
                        for each in lines
                        if " now" in each
                        and " ".join(each.replace("*", " ").split()).endswith(whole)
                    ]
                    assert now, (site.name, width, height, lines)
                    assert max(map(len, now)) <= width
