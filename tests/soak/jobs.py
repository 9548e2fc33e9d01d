"""The jobs: each does one thing again and again, as a long session would."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from random import Random
from types import MappingProxyType

from dynftrace import arches
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell
from dynftrace.tui.console.app import ConsoleApp
from dynftrace.tui.console.driver import SessionDriver
from dynftrace.tui.console.run import spare_the_interface
from dynftrace.tui.pictures.picture import settle

from .run import Job

ROOT = Path(__file__).resolve().parents[2]


def rounds(number: int | None, seconds: float | None) -> Iterator[int]:
    """Count from 1 up to `number`, or until `seconds` have passed."""
    end = None if seconds is None else time.monotonic() + seconds
    for row in itertools.count(1):
        if (number is not None and row > number) or (end and time.monotonic() > end):
            return
        yield row


def opened(cpus: int = 2, arch: str = arches.DEFAULT, **options: str) -> tuple[Session, Shell]:
    """Return an open machine and a shell."""
    spec = MachineSpec(cpus=cpus, **options)  # type: ignore[arg-type]
    session = Session.open(arches.load(arch), spec)
    return session, Shell(session)


def do(shell: Shell, commands: str) -> None:
    """Execute commands that must succeed."""
    outcome = shell.execute(commands)
    if outcome.status or outcome.error:
        raise RuntimeError(f"{commands}: {outcome.error}")


def modules(number: int | None, seconds: float | None) -> Iterator[int]:
    """Load, use and unload modules while functions are traced."""
    session, shell = opened(arch="ppc64")
    do(shell, "insmod usbcore; echo function > current_tracer; rmmod usbcore")
    for done in rounds(number, seconds):
        do(shell, "insmod usbcore; insmod usbhub; rmmod usbhub usbcore")
        session.journal.clear()  # the journal of a session is meant to grow
        yield done


def reboots(number: int | None, seconds: float | None) -> Iterator[int]:
    """Reboot a machine of 4 CPUs."""
    _, shell = opened(cpus=4)
    for done in rounds(number, seconds):
        do(shell, "reboot")
        yield done


def toggles(number: int | None, seconds: float | None) -> Iterator[int]:
    """Patch by breakpoint on 8 CPUs while they run, on and off."""
    session, shell = opened(cpus=8, patch="breakpoint")
    do(shell, "echo 'vfs_*' schedule kfree > set_ftrace_filter")
    for done in rounds(number, seconds):
        do(shell, f"echo {('function', 'nop')[done % 2]} > current_tracer")
        session.run(20_000)
        session.journal.clear()
        if done % 5 == 0:
            yield done


def back(number: int | None, seconds: float | None) -> Iterator[int]:
    """Undo one command again and again, after 200 commands."""
    _, shell = opened()
    do(shell, "; ".join(("echo function > current_tracer", *["step 3"] * 199)))
    for done in rounds(number, seconds):
        do(shell, "back; step 3")
        yield done


def shell(number: int | None, seconds: float | None) -> Iterator[int]:
    """Trace, step and read as a user of the shell does."""
    random = Random(1)
    session, prompt = opened()
    names = list(session.function_names())
    for done in rounds(number, seconds):
        name = random.choice(names)
        tracer = random.choice(("function", "function_graph", "nop"))
        prompt.execute(
            f"echo {name} > set_ftrace_filter; echo {tracer} > current_tracer; site {name};"
            f"run syscalls; cat trace; step {random.randint(1, 9)}; regs; bits {name}; tramp;"
            "insmod usbcore; run usb; rmmod usbcore; echo > trace; echo > set_ftrace_filter; nope"
        )
        prompt.complete(f"site {name[:3]}")
        session.journal.clear()
        yield done


PATIENCE = 600
"""Seconds that a visitor waits for the screen."""

KEYS = [
    "j",
    "k",
    "g",
    "G",
    "space",
    "t",
    "1",
    "2",
    "3",
    "4",
    "z",
    "s",
    "n",
    "escape",
    "question_mark",
]
KEYS += [
    "escape",
    "c",
    "c",
    "b",
    "R",
    "w",
    "escape",
    "slash",
    "s",
    "escape",
    "x",
    "escape",
    "up",
    "down",
]


async def _console(number: int | None, seconds: float | None) -> AsyncIterator[int]:
    session, _ = opened()
    app = ConsoleApp(lambda: SessionDriver(session))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        spare_the_interface()
        for done in rounds(number, seconds):
            for key in KEYS:
                await pilot.press(key)
                yield done
            app.command("run syscalls")
            await asyncio.sleep(0.05)
            yield done
        app.exit()
        await pilot.pause()
    if app.return_code:
        raise RuntimeError(f"the console ended with {app.return_code}")


def console(number: int | None, seconds: float | None) -> Iterator[int]:
    """Press keys, run and reboot in the console, with its own rules for garbage."""
    yield from _awaited(_console(number, seconds))


async def _serve(number: int | None, seconds: float | None, at_once: int = 1) -> AsyncIterator[int]:
    import aiohttp
    from aiohttp import web

    from dynftrace.tui.web.server import Site

    command = [sys.executable, "-m", "dynftrace"]
    site = Site(command, local=True, visitors=at_once, any_module=False)
    runner = web.AppRunner(site.application(ROOT))
    await runner.setup()

    async def visit(url: str) -> None:
        async with aiohttp.ClientSession() as client, client.ws_connect(url) as visitor:
            shown = b""
            while b"PAUSED" not in shown:
                said = await visitor.receive(timeout=PATIENCE)
                if said.type not in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
                    raise RuntimeError(f"a visit ended: {said}")
                shown += said.data if isinstance(said.data, bytes) else b""
            await visitor.send_json(["stdin", "jjt"])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        await web.SockSite(runner, listener).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/ws"
        for done in rounds(number, seconds):
            await asyncio.gather(*(visit(url) for _ in range(at_once)))
            while _children():
                await asyncio.sleep(0.05)
            yield done
        await runner.cleanup()


def _children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def serve(number: int | None, seconds: float | None) -> Iterator[int]:
    """Have visitors come and go, each with a console; none is left behind."""
    os.environ["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / ".pkg")))
    yield from _awaited(_serve(number, seconds))


def crowd(number: int | None, seconds: float | None) -> Iterator[int]:
    """Have 50 visitors at once, each with a console."""
    os.environ["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / ".pkg")))
    yield from _awaited(_serve(number, seconds, at_once=50))


def _awaited(items: AsyncIterator[int]) -> Iterator[int]:
    """Yield the items of an asynchronous iterator, in an event loop of its own."""
    with asyncio.Runner() as runner:

        async def following() -> int | None:
            return await anext(items, None)

        while (item := runner.run(following())) is not None:
            yield item


JOBS: Mapping[str, tuple[Job, int | None]] = MappingProxyType(
    {
        "modules": (modules, 2000),
        "reboots": (reboots, 1000),
        "toggles": (toggles, 10_000),
        "back": (back, 100),
        "shell": (shell, None),
        "console": (console, None),
        "serve": (serve, 50),
        "crowd": (crowd, 4),
    }
)
"""Each job and its rounds in the full form; None: it runs for the minutes given."""
