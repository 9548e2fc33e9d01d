"""The stepping screen: its keys run commands, and its parts keep their positions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from textual.pilot import Pilot

from dynftrace import arches
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.console.screens.box import Box
from dynftrace.tui.console.screens.help import STEPPING, help_lines
from dynftrace.tui.console.screens.picker import WorkloadBox
from dynftrace.tui.console.screens.report import ReportBox
from dynftrace.tui.console.screens.stepping import SteppingScreen
from dynftrace.tui.console.widgets.keys_bar import KeysBar
from dynftrace.tui.console.widgets.text_view import TextView
from dynftrace.tui.pictures.picture import settle
from dynftrace.tui.present.line import plain

from ...support.keystone import needs_keystone
from ...support.ports import FAMILIES
from .test_main_screen import equivalent

SIZES = ((80, 24), (120, 40), (200, 50))


@asynccontextmanager
async def console(
    session: Session, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[ConsoleApp, Pilot[None]]]:
    """Run the console at vfs_write, which is traced."""
    app = ConsoleApp(lambda: SessionDriver(session))
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        for command in (
            "echo vfs_write > set_ftrace_filter",
            "echo function > current_tracer",
            "site vfs_write",
        ):
            app.command(command)
            await settle(pilot)
        yield app, pilot


async def into(app: ConsoleApp, pilot: Pilot[None]) -> SteppingScreen:
    """Go to the site of vfs_write in the workload syscalls."""
    app.stepping.workload = "syscalls"
    await press(pilot, "i")
    assert isinstance(app.screen, SteppingScreen)
    return app.screen


async def press(pilot: Pilot[None], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


def text(view: TextView) -> list[str]:
    return [plain(view.line(row, view.size.width)) for row in range(view.count())]


def standing(screen: SteppingScreen) -> list[str]:
    return [each for each in text(screen.code) if each.startswith("▶")]


@pytest.mark.parametrize("size", SIZES[::2])
async def test_keys_step_into_the_tracer_and_out(session: Session, size: tuple[int, int]) -> None:
    async with console(session, size) as (app, pilot):
        screen = await into(app, pilot)
        assert screen.equivalent.command == "until vfs_write syscalls"
        ip = session.address_of("vfs_write")
        assert len(standing(screen)) == 1 and f"{ip:x}" in standing(screen)[0]
        assert "[site]" in text(screen.head)[2]
        # A small screen has no row for the source line.
        assert ("sp-0x8" if size == SIZES[0] else "fs/read_write.c") in text(screen.head)[1]
        places = [widget.region for widget in (screen.head, screen.code, screen.registers)]
        cpu = session.boot.stepper.last
        hops = ("[ftrace_caller]", "[slot ftrace_call]", "[tracer]")
        for hop in hops if size == SIZES[0] else hops[:1]:
            for _ in range(40):
                await press(pilot, "s")
                assert screen.equivalent.command == f"step 1 {cpu}"
                if hop in text(screen.head)[2]:
                    break
            assert hop in text(screen.head)[2]
            assert len(standing(screen)) == 1
        if size == SIZES[0]:
            assert "function_trace_call:" in text(screen.code)
            await press(pilot, "o")
        await press(pilot, "o")
        assert screen.equivalent.command == f"finish {cpu}"
        assert f"{ip + 5:x}" in standing(screen)[0]
        assert places == [w.region for w in (screen.head, screen.code, screen.registers)]
        for view in (screen.head, screen.code):
            assert view.count() <= view.size.height
        pc = session.boot.machine.vcpus[cpu or 0].registers.pc
        await press(pilot, "b")
        assert session.boot.machine.vcpus[cpu or 0].registers.pc != pc
        await press(pilot, "q")
        assert app.screen is app.main and app.view.stepping is None


async def test_everything_fits_the_screen(session: Session) -> None:
    async with console(session, SIZES[0]) as (app, pilot):
        screen = await into(app, pilot)
        for size in SIZES:
            await pilot.resize_terminal(*size)
            await press(pilot, "s", "n")
            assert max(map(len, text(screen.head))) <= size[0]
            registers = text(screen.registers)
            assert max(map(len, registers)) <= screen.registers.size.width
            assert len(registers) <= screen.registers.size.height
            values = session.boot.machine.registers(session.boot.stepper.last or 0)
            shown = " ".join(registers)
            assert all(f"{name} {value:016x}" in shown for name, value in values.items())
            bottom = screen.query_one(KeysBar).region
            assert (
                bottom.y == size[1] - 1 and len(str(screen.query_one(KeysBar).render())) <= size[0]
            )


async def test_instructions_beside_the_registers_are_not_cut() -> None:
    for arch in ("x86_64", "arm64"):
        session = Session.open(arches.load(arch), MachineSpec())
        async with console(session, (120, 40)) as (app, pilot):
            screen = await into(app, pilot)
            while "[ftrace_caller]" not in text(screen.head)[2]:
                await press(pilot, "s")
            rows = text(screen.code)
            assert len(rows) == screen.code.size.height
            assert max(map(len, rows)) <= screen.code.size.width
            shown = " ".join(text(screen.registers))
            assert all(f"{name} " in shown for name in session.boot.machine.registers(0))


async def test_a_stub_used_by_only_some_calls_is_in_parentheses() -> None:
    session = Session.open(arches.load("arm64"), MachineSpec())
    async with console(session) as (app, pilot):
        screen = await into(app, pilot)
        way = " path: [site]─▶(stub)─▶ ftrace_caller ─▶ slot ftrace_call ─▶ tracer"
        assert text(screen.head)[2].rstrip() == way


@pytest.mark.parametrize("arch", arches.names())
async def test_a_changed_register_has_a_sign_besides_its_colour(arch: str) -> None:
    session = Session.open(arches.load(arch), MachineSpec())
    app = ConsoleApp(lambda: SessionDriver(session))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await press(pilot, "s")
        screen = app.screen
        assert isinstance(screen, SteppingScreen)
        assert session.boot.stepper.steps == 0, "the first key must open the screen"
        for _ in range(12 if arch in FAMILIES else 3):
            await press(pilot, "s")
            changes = {each.name: each.new for each in session.boot.stepper.changes(0)}
            marked = [
                value
                for row in range(screen.registers.count())
                for value, tone in screen.registers.line(row, 80)
                if tone == "mark"
            ]
            digits = 2 * session.port.facts.pointer_size
            assert sorted(marked) == sorted(f"{value:0{digits}x}" for value in changes.values())
            assert " ".join(text(screen.registers)).count("*") == len(changes)
        assert max(map(len, text(screen.head))) <= 80
        assert max(map(len, text(screen.registers))) <= 80
        assert screen.registers.count() <= screen.registers.size.height
        assert 6 <= screen.code.size.height <= 12


async def test_keys_step_over_a_call_and_to_its_next_run(session: Session) -> None:
    async with console(session) as (app, pilot):
        screen = await into(app, pilot)
        cpu, ip = session.boot.stepper.last or 0, session.address_of("vfs_write")
        first = session.now
        await press(pilot, "n")
        assert screen.equivalent.command == f"next {cpu}"
        assert session.boot.machine.vcpus[cpu].registers.pc == ip + 5
        await press(pilot, "c")
        assert screen.equivalent.command == "until vfs_write syscalls"
        assert f"{ip:x}" in standing(screen)[0]
        assert session.now > first


async def test_keys_for_cpu_bits_help_and_copy_work(session: Session) -> None:
    async with console(session) as (app, pilot):
        screen = await into(app, pilot)
        cpu = session.boot.stepper.last or 0
        await press(pilot, "tab")
        assert text(screen.head)[0].startswith(f" CPU {1 - cpu} ")
        await press(pilot, "tab", "x")
        assert text(screen.head)[0].startswith(f" CPU {cpu} ")
        assert isinstance(app.screen, Box)
        assert "call ftrace_caller" in " ".join(text(app.screen.query_one(TextView)))
        await press(pilot, "escape", "question_mark")
        assert plain(help_lines(STEPPING)[0]) == "Stepping"
        assert text(app.screen.query_one(TextView))[0].strip() == "Stepping"
        await press(pilot, "escape", "y")
        assert "call ftrace_caller" in app.clipboard
        await press(pilot, "escape")
        assert app.screen is app.main


async def test_i_asks_for_a_workload_only_once(session: Session) -> None:
    async with console(session) as (app, pilot):
        await press(pilot, "i")
        assert isinstance(app.screen, WorkloadBox)
        await press(pilot, "enter")
        assert isinstance(app.screen, SteppingScreen)
        assert app.stepping.workload == "syscalls"
        await press(pilot, "q", "i")
        assert isinstance(app.screen, SteppingScreen)


async def test_i_runs_the_last_workload_again(session: Session) -> None:
    async with console(session) as (app, pilot):
        for command, workload in (
            ("run locks", "locks"),
            ("run syscalls&& cat tracing_on", "syscalls"),
            ("cat tracing_on;run locks 2; echo", "locks"),
            ("echo 'run syscalls'", "locks"),
            ("run nothing", "locks"),
            ("run syscalls; nothing", "syscalls"),
        ):
            app.command(command, box=False)
            await settle(pilot)
            assert app.stepping.workload == workload, command
        await press(pilot, "i")
        assert equivalent(app).startswith("same as: until vfs_write syscalls")
        assert isinstance(app.screen, SteppingScreen)


async def test_a_typed_until_keeps_the_main_screen(session: Session) -> None:
    async with console(session) as (app, pilot):
        app.command("until vfs_write syscalls")
        await settle(pilot)
        assert app.screen is app.main


async def test_only_commands_that_run_the_machine_change_the_watched_cpu(session: Session) -> None:
    async with console(session) as (app, pilot):
        screen = await into(app, pilot)
        cpu = session.boot.stepper.last or 0
        await press(pilot, "tab")
        for command in ("bits vfs_write", "cat 'trace'", " bits vfs_write"):
            app.command(command, box=False)
            await settle(pilot)
            assert text(screen.head)[0].startswith(f" CPU {1 - cpu} ")
        app.command(f"step 1 {cpu}", box=False)
        await settle(pilot)
        assert text(screen.head)[0].startswith(f" CPU {cpu} ")


async def test_i_in_the_trace_uses_the_events_function(session: Session) -> None:
    async with console(session) as (app, pilot):
        for command in ("echo sys_read > set_ftrace_filter", "run syscalls", "site vfs_write"):
            app.command(command)
            await settle(pilot)
        app.stepping.workload = "syscalls"
        await press(pilot, "4", "k", "i")
        assert isinstance(app.screen, SteppingScreen)
        assert equivalent(app).startswith("same as: until sys_read syscalls")
        await press(pilot, "q", "2", "i")
        assert equivalent(app).startswith("same as: until vfs_write syscalls")


async def test_an_unreached_place_is_reported_and_another_workload_offered(
    session: Session,
) -> None:
    async with console(session) as (app, pilot):
        app.stepping.workload = "locks"
        await press(pilot, "i")
        assert app.screen is app.main and app.stepping.workload is None
        # At 80 columns the error leaves no room for the command.
        assert equivalent(app) == "! until: vfs_write was not reached: workload locks has ended"
        await press(pilot, "i")
        assert isinstance(app.screen, WorkloadBox)


@needs_keystone
async def test_an_oops_while_stepping_is_reported(session: Session) -> None:
    async with console(session) as (app, pilot):
        await into(app, pilot)
        app.command("poke vfs_write+5 ud2", box=False)
        await settle(pilot)
        await press(pilot, "n", "s")
        assert isinstance(app.screen, ReportBox)
        await press(pilot, "escape")
        assert isinstance(app.screen, SteppingScreen)
        assert "dead" in text(app.screen.head)[0]
        await press(pilot, "s")
        assert "is not running" in str(app.screen.equivalent.render())


async def test_the_screen_survives_a_shrinking_terminal(session: Session) -> None:
    async with console(session) as (app, pilot):
        screen = await into(app, pilot)
        for size in (60, 16), (40, 8), (20, 5):
            await pilot.resize_terminal(*size)
            await press(pilot, "s", "n", "tab")
            await pilot.resize_terminal(130, 40)
            await settle(pilot)
            assert len(standing(screen)) == 1
        await press(pilot, "q")
        assert app.screen is app.main


async def test_a_key_pauses_a_running_machine(session: Session) -> None:
    async with console(session) as (app, pilot):
        await press(pilot, "s")
        assert isinstance(app.screen, SteppingScreen) and app.screen.target is None
        app.screen.action_run_on()
        assert app.runner.running
        await press(pilot, "s")
        assert not app.runner.running
        assert app.view.stepping is not None and app.view.stepping.steps == 1


async def test_an_event_of_the_trace_is_visited_and_left_again() -> None:
    session = Session.open(arches.load("x86_64"))
    async with console(session) as (app, pilot):
        app.command("run syscalls")
        await settle(pilot)
        await press(pilot, "4", "g", "j", "v")
        assert isinstance(app.screen, SteppingScreen)
        assert equivalent(app).startswith("same as: goto 0.00")
        event = session.boot.array.text()
        visited, ip = session.now, session.address_of("vfs_write")
        assert session.boot.machine.vcpus[session.boot.stepper.last or 0].registers.pc == ip
        assert len(event) <= 2
        await press(pilot, "s", "b", "ctrl+r", "v")
        assert session.now > visited and len(session.boot.array.text()) > 2
        await press(pilot, "q")
        assert not isinstance(app.screen, SteppingScreen)
