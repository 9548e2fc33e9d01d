"""The console on Debian's kernel for amd64: forty thousand functions, and no boot."""

from __future__ import annotations

from dynftrace import arches
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.console.screens.report import ReportBox
from dynftrace.tui.pictures.picture import settle

from ...support.debian import unpacked
from .test_main_screen import equivalent


async def test_functions_are_filtered_patched_and_traced_without_a_boot() -> None:
    (kernel,) = unpacked("amd64").glob("boot/vmlinuz-*")
    session = Session.open(arches.load("x86_64"), MachineSpec(kernel=kernel, cpus=1))
    app = ConsoleApp(lambda: SessionDriver(session))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settle(pilot)
        functions = app.main.functions
        every = len(session.boot.ftrace.records)
        assert every > 40_000 and f"of {every:,}" in str(functions.border_subtitle)
        await pilot.press("1", "slash", *"sha256_*")
        await settle(pilot)
        assert f"3 of {every:,}" in str(functions.border_subtitle)
        await pilot.press("escape", "c")
        await settle(pilot)
        assert "has not booted" in equivalent(app)
        await pilot.press("t")
        await settle(pilot)
        app.command('call _printk "hello %d" 7')
        await settle(pilot)
        trace = app.main.trace
        assert "28 rows" in str(trace.border_subtitle)
        await pilot.press("P")
        await settle(pilot)
        assert "a tracer is in use" in equivalent(app)
        app.command("echo nop > current_tracer")
        await settle(pilot)
        await pilot.press("P")
        await settle(pilot)
        assert "no CPU is running: the kernel has not booted" in equivalent(app)
        await pilot.press("escape")
        app.command("call schedule")
        await settle(pilot)
        assert isinstance(app.screen, ReportBox)
        cause, *_, end = (line.text for line in app.screen.report.lines)
        assert "__schedule+" in cause and "which is still NULL" in cause
        assert "The call has ended" in end
        await pilot.press("escape")
        app.command("call int_sqrt 144")
        await settle(pilot)
        assert "int_sqrt = 0xc" in equivalent(app)
