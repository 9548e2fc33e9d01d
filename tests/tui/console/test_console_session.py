"""The console on a real session: keys take effect in the guest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from dynftrace import arches
from dynftrace.core.session.session import Session
from dynftrace.core.trace.select.explorer import TraceExplorer
from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.console.messages import TourWanted
from dynftrace.tui.console.screens.box import Box
from dynftrace.tui.console.screens.report import ReportBox
from dynftrace.tui.console.widgets.status_bar import status_line
from dynftrace.tui.console.widgets.text_view import TextView
from dynftrace.tui.pictures.picture import settle
from dynftrace.tui.present.line import plain

from .test_main_screen import equivalent


@asynccontextmanager
async def console(session: Session) -> AsyncIterator[tuple[ConsoleApp, Pilot[None]]]:
    """Run the console on `session`."""
    app = ConsoleApp(lambda: SessionDriver(session))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        yield app, pilot


async def do(app: ConsoleApp, pilot: Pilot[None], *commands: str) -> None:
    """Execute commands as the command line does."""
    for command in commands:
        app.command(command)
        await settle(pilot)


def site(app: ConsoleApp) -> list[str]:
    """Return the text of the call site pane."""
    view = app.main.site
    return [plain(view.line(row, view.size.width)) for row in range(view.count())]


async def test_registers_saved_by_an_event_are_shown(session: Session) -> None:
    async with console(session) as (app, pilot):
        await do(app, pilot, "echo 'f:read vfs_read $arg1' > dynamic_events")
        await do(
            app, pilot, "echo 1 > events/fprobes/enable", "run syscalls", "echo 0 > events/enable"
        )
        await pilot.press("4", "up", "r")
        await settle(pilot)
        trace = TraceExplorer(session.boot.array.text())
        row = len(trace) - 2
        hit = trace.hit(row)
        assert equivalent(app).startswith(f"same as: regs hit {hit}")
        assert isinstance(app.screen, Box)
        shown = app.screen.query_one(TextView)
        lines = [plain(shown.line(each, 200)) for each in range(shown.count())]
        said = ": ".join(each.strip() for each in lines[:2])
        assert said == trace.text.texts(row, row + 1)[0].strip()
        assert any("rip" in each and "vfs_read+0x5/" in each for each in lines)
        await pilot.press("escape", "1", "r")
        await settle(pilot)
        assert equivalent(app).startswith("same as: regs")
        assert "hit" not in equivalent(app)


async def test_toggle_patches_the_site(session: Session) -> None:
    async with console(session) as (app, pilot):
        await do(app, pilot, "site schedule")
        ip = session.boot.kallsyms.address("schedule")
        assert ip is not None and app.view.ip == ip
        nop = session.boot.machine.memory.read(ip, 5)
        assert "DISABLED" in site(app)[0]
        await pilot.press("1", "space", "t")
        await settle(pilot)
        assert equivalent(app).startswith("same as: echo function > current_tracer   w runs")
        assert session.boot.tracefs.read("set_ftrace_filter") == "schedule\n"
        assert session.boot.machine.memory.read(ip, 1) == b"\xe8"
        assert "ENABLED" in site(app)[0]
        assert "call ftrace_caller" in "\n".join(site(app))
        assert "function_trace_call" in plain(app.main.path.line(0, 80))
        await pilot.press("t", "space")
        await settle(pilot)
        assert session.boot.machine.memory.read(ip, 5) == nop
        assert "DISABLED" in site(app)[0]


async def test_a_workload_fills_the_trace(session: Session) -> None:
    async with console(session) as (app, pilot):
        await do(app, pilot, "echo schedule > set_ftrace_filter", "echo function > current_tracer")
        await do(app, pilot, "run syscalls")
        events = app.main.trace.events
        assert events.count() > 5
        assert all("schedule <-" in events.text(row) for row in range(events.count()))
        last = events.text(events.count() - 1)
        assert last == session.boot.tracefs.read("trace").rstrip("\n").rpartition("\n")[2]
        assert app.view.status.events == events.count()
        await pilot.press("C")
        await settle(pilot)
        assert events.count() == 0


async def test_the_machine_runs_and_pauses(session: Session) -> None:
    async with console(session) as (app, pilot):
        before = session.now
        app.runner.run()
        while session.now < before + 5_000_000:
            await pilot.pause(0.001)
        app.runner.pause()
        await settle(pilot)
        assert app.view.status.now == session.now
        now = session.now
        await settle(pilot)
        assert session.now == now


async def test_a_refused_patch_opens_the_report(session: Session) -> None:
    async with console(session) as (app, pilot):
        ip = session.boot.kallsyms.address("schedule")
        assert ip is not None
        session.poke(ip, b"\xeb\xfe\x90\x90\x90")
        await do(app, pilot, "echo schedule > set_ftrace_filter", "echo function > current_tracer")
        assert isinstance(app.screen, ReportBox)
        text = "\n".join(plain(each) for each in app.screen.report.lines)
        assert "0f 1f 44 00 00" in text and "eb*fe*" in text
        assert session.boot.machine.memory.read(ip, 5) == b"\xeb\xfe\x90\x90\x90"
        assert app.view.status.ftrace_off
        await pilot.press("enter")
        await settle(pilot)
        assert "REFUSED" in site(app)[0]
        await pilot.press("R")
        await settle(pilot)
        assert not app.view.status.ftrace_off
        assert "DISABLED" in site(app)[0]


async def test_an_oops_is_reported_and_the_session_continues(session: Session) -> None:
    async with console(session) as (app, pilot):
        await do(app, pilot, "insmod crashy", "call crashy_jump")
        assert isinstance(app.screen, ReportBox)
        assert app.screen.report.title.endswith("oopsed")
        await pilot.press("R")
        await settle(pilot)
        assert app.view.status.halted == ()
        await do(app, pilot, "run syscalls")
        assert equivalent(app) == "same as: run syscalls   no tracer was on: t switches one on"


async def test_a_key_of_a_tour_may_arrive_while_the_console_closes(session: Session) -> None:
    async with console(session) as (app, _):
        pass
    assert not app.screen_stack
    await app.on_tour_wanted(TourWanted("tour_next"))


async def test_functions_of_a_module_appear_and_disappear(session: Session) -> None:
    async with console(session) as (app, pilot):
        kernel = app.main.functions.rows.count()
        await do(app, pilot, "insmod usbcore")
        assert app.main.functions.rows.count() > kernel
        await pilot.press("slash", *":mod:usbcore", "enter")
        names = session.boot.tracefs.read("available_filter_functions")
        assert app.main.functions.rows.count() == names.count("[usbcore]")
        await do(app, pilot, "rmmod usbcore")
        assert app.main.functions.rows.count() == 0


async def test_completion_knows_files_and_functions(session: Session) -> None:
    driver = SessionDriver(session)
    assert driver.complete("cat available_t") == ["cat available_tracers"]
    assert "echo schedule" in driver.complete("echo sched")
    assert "syscalls" in driver.workloads()


async def test_an_unchanged_part_of_the_view_is_the_same_object(session: Session) -> None:
    driver = SessionDriver(session)
    first = driver.view()
    again = driver.view()
    assert again.functions is first.functions and again.trace is first.trace
    driver.execute("echo schedule > set_ftrace_filter")
    changed = driver.view()
    assert changed.functions is not first.functions
    driver.execute("echo function > current_tracer")
    driver.execute("run syscalls")
    full = driver.view()
    assert full.trace is not None and len(full.trace) > 0
    driver.execute("echo > trace")
    empty = driver.view()
    assert empty.trace is not None and len(empty.trace) == 0


async def test_a_line_can_load_a_module_and_go_to_its_function(session: Session) -> None:
    async with console(session) as (app, pilot):
        await do(app, pilot, "insmod usbcore; site usb_ifnum_to_if")
        assert site(app)[0].startswith("usb_ifnum_to_if [usbcore]")


async def test_the_list_follows_what_ftraced_finds() -> None:
    session = Session.open(arches.load("x86_64-2008"))
    async with console(session) as (app, pilot):
        assert site(app) == ["no call site has a record yet: c lets the machine run"]
        assert plain(app.main.path.line(0, 80)) == "mcount ─▶ mcount_call ─▶ ftrace_record_ip"
        assert "ftraced    0 +170" in plain(status_line(app.view.status, "PAUSED", 120))
        await do(app, pilot, "sleep 1")
        assert app.view.status.found is not None and app.view.status.found[0] == 170
        assert app.view.functions is not None and len(app.view.functions) == 170
        await settle(pilot)
        assert site(app)[0].startswith("schedule ")
        ip = app.view.ip
        await do(app, pilot, "run syscalls", "sleep 1")
        assert len(app.view.functions) == len(session.boot.ftrace.records) > 300
        assert app.view.ip == ip, "the cursor must stay on its function"


async def test_only_a_command_that_shows_a_site_goes_to_it(session: Session) -> None:
    async with console(session) as (app, pilot):
        before = app.view.ip
        await do(app, pilot, "echo '; site schedule'", "echo; echo 'site schedule'")
        assert app.view.ip == before and app.main.active == 1
        await do(app, pilot, "site schedule > trace_marker", "site schedule; site")
        assert app.view.ip == before and app.main.active == 1
        await do(app, pilot, "site schedule vfs_read")
        assert isinstance(app.screen, Box)  # both are in the output
        await pilot.press("escape")
        assert app.view.ip == before
        await do(app, pilot, "cat tracing_on; site 'vfs_read'")
        assert app.view.ip == session.address_of("vfs_read") and app.main.active == 2
        await do(app, pilot, f"site 0x{session.address_of('schedule'):x}")
        assert app.view.ip == session.address_of("schedule")


async def test_the_shells_own_messages_have_no_prefix(session: Session) -> None:
    async with console(session) as (app, pilot):
        await do(app, pilot, "nothing")
        assert equivalent(app) == "same as: nothing   ! nothing: command not found"
        await do(app, pilot, "echo 'dynftrace: x'")
        assert equivalent(app).startswith("same as: echo 'dynftrace: x'")


async def test_an_instruction_is_shown_bit_by_bit(session: Session) -> None:
    async with console(session) as (app, pilot):
        await do(app, pilot, "echo schedule > set_ftrace_filter", "echo function > current_tracer")
        await do(app, pilot, "site schedule")
        ip = session.address_of("schedule")
        await pilot.press("2", "g")
        lines = site(app)
        now = next(row for row, each in enumerate(lines) if "  now *" in each)
        await pilot.press(*["down"] * now, "x")
        await settle(pilot)
        assert equivalent(app).startswith(f"same as: bits 0x{ip:x}")
        assert isinstance(app.screen, Box)
        shown = app.screen.query_one(TextView)
        drawn = [plain(shown.line(row, 100)) for row in range(shown.count())]
        assert "│opcode  │rel32                              │" in drawn
        assert any("▲" in each and "ftrace_caller, +240 MB" in each for each in drawn)
        await pilot.press("escape", "3", "g", "x")
        await settle(pilot)
        assert app.screen is app.main  # the first line of the path has no instruction
