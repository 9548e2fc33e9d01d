"""A command with a wrong word stays on the command line, with the cursor on that word."""

from __future__ import annotations

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.console.widgets.candidates import Candidates
from dynftrace.tui.console.widgets.command_line import CommandLine
from dynftrace.tui.console.widgets.equivalent_command import EquivalentCommand
from dynftrace.tui.pictures.picture import settle

from ...support.keystone import needs_keystone


@needs_keystone
async def test_the_wrong_word_can_be_corrected() -> None:
    session = Session.open(arches.load("x86_64"))
    app = ConsoleApp(lambda: SessionDriver(session))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("colon", *"poke schedule 'nop; bxl 5'", "enter")
        await settle(pilot)
        line, over = app.main.query_one(CommandLine), app.main.query_one(Candidates)
        assert line.display and app.focused is line.edit
        assert line.edit.value == "poke schedule 'nop; bxl 5'"
        assert line.edit.cursor_position == line.edit.value.index("bxl")
        reason, mark = str(over.render()).split("\n")
        assert reason == "! poke: unknown instruction 'bxl'"
        # The mark is above the word, in the row above the line.
        row, column = over.content_region.y + 1, over.content_region.x + mark.index("▼")
        cursor = line.edit.content_region.x + line.edit.cursor_position
        assert (row, column) == (line.edit.region.y - 1, cursor)
        await pilot.press(*["delete"] * 5, *"ret", "enter")
        await settle(pilot)
        ip = session.address_of("schedule")
        assert session.boot.machine.memory.read(ip, 2) == b"\x90\xc3"
        assert not over.display
        await pilot.press("escape", "colon", *"poke schedule bxl", "enter")
        await settle(pilot)
        await pilot.press("escape")
        await settle(pilot)
        assert not line.display and not over.display
        said = str(app.main.query_one(EquivalentCommand).render())
        assert "poke schedule bxl   ! poke: unknown instruction 'bxl'" in said
