"""`dynftrace serve`: its arguments, its errors, and a visit with a real browser."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import click
import pytest
from tests.support.chromium import PROGRAM, chromium

from dynftrace.core.errors import DynftraceError
from dynftrace.tui import cli
from dynftrace.tui.cli import serve
from dynftrace.tui.web import server as webserver

ROOT = Path(cli.__file__).parents[2]
ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join(
        [str(ROOT.parent), str(ROOT.parent / ".pkg"), os.environ.get("PYTHONPATH", "")]
    )
}


class Serving:
    """A running server: its process, its URL, and its output."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.said = process.stdout.readline()
        found = re.search(r"http://(\S+):(\d+)/", self.said)
        assert found, self.said + process.communicate()[1]
        self.host, self.port = found[1], int(found[2])
        self.url = found[0]

    def consoles(self) -> list[int]:
        """Return the processes it started."""
        folder = Path(f"/proc/{self.process.pid}/task")
        return [
            int(child)
            for thread in folder.iterdir()
            for child in (thread / "children").read_text().split()
        ]

    def end(self, number: int = signal.SIGINT) -> tuple[int, str, str]:
        """Send a signal; return status, the rest of the output, and errors."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err


@contextmanager
def serving(*arguments: str) -> Iterator[Serving]:
    """Run the command with `arguments` on a free port until it is stopped."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dynftrace", "serve", "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    try:
        yield Serving(process)
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=20)


def gone(pid: int, seconds: float = 10) -> bool:
    """Return whether the process ends in time."""
    end = time.monotonic() + seconds
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


async def downloaded(path: Path, seconds: float = 20) -> str:
    """Wait for a browser's download and return its content."""
    async with asyncio.timeout(seconds):
        while not path.exists() or not (text := path.read_text(encoding="utf-8")):
            await asyncio.sleep(0.1)
    return text


def test_only_given_options_are_passed_to_the_console() -> None:
    given = ["--module", "a b", "--module=$(x);'", "--cpus", "4", "--patch", "none"]
    with serve.serve_command.make_context(
        "serve", [*given, "--arch", "x86_64", "--theme=nord", "--host", "::1", "--port", "1"]
    ) as context:
        found = list(serve.console_arguments(context))
    assert sorted(found) == [
        "--arch=x86_64",
        "--cpus=4",
        "--module=$(x);'",
        "--module=a b",
        "--patch=none",
        "--theme=nord",
    ]
    # The console parses them as intended.
    with cli.dynftrace.make_context("dynftrace", found) as context:
        assert context.params["modules"] == ("a b", "$(x);'")
        assert (context.params["cpus"], context.params["theme"]) == (4, "nord")
    with serve.serve_command.make_context("serve", []) as context:
        assert list(serve.console_arguments(context)) == []
        assert context.params["host"] == "127.0.0.1"


def test_serve_has_every_option_of_the_console() -> None:
    def names(command: click.Command) -> set[str]:
        return {each.name or "" for each in command.params}

    own = {*serve.OWN_OPTIONS}
    # A session belongs to one user, and a server may have several visitors.
    assert names(serve.serve_command) - own == names(cli.dynftrace) - {"version", "session"}


def test_a_port_in_use_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status = cli.run(["serve", "--port", str(port)])
    said = capsys.readouterr()
    sentence = f"dynftrace: cannot listen on port {port} of 127.0.0.1: Address already in use\n"
    assert (status, said.out, said.err) == (1, "", sentence)
    with pytest.raises(DynftraceError, match="cannot listen on port 0 of"):
        serve.listen("nowhere.invalid", 0)


def test_a_missing_package_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "dynftrace.tui.web.server")
    monkeypatch.delattr("dynftrace.tui.web.server")
    monkeypatch.delitem(sys.modules, "textual_serve", raising=False)
    monkeypatch.delitem(sys.modules, "textual_serve.app_service", raising=False)

    class Missing:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            if name.startswith("textual_serve"):
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(sys, "meta_path", [Missing, *sys.meta_path])
    assert cli.run(["serve"]) == 1
    sentence = "dynftrace: serve needs the package textual-serve: pip install 'dynftrace[serve]'\n"
    assert capsys.readouterr() == ("", sentence)


@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        (["--theme", "mauve"], 2, "dynftrace: unknown theme 'mauve' (choose from: "),
        (["--kernel", "/nothing"], 1, "dynftrace: /nothing: "),
        (["--port", "65536"], 2, "Usage: dynftrace serve"),
    ],
)
def test_options_that_no_visitor_could_use_are_refused_at_start(
    capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, error: str
) -> None:
    assert cli.run(["serve", *arguments]) == status
    assert capsys.readouterr().err.startswith(error)


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost.example.org", False),
        ("192.0.2.1", False),
        ("", False),
    ],
)
def test_names_of_this_computer_are_recognised(host: str, local: bool) -> None:
    assert webserver.is_local(host) is local


@pytest.mark.parametrize(
    ("text", "number"), [("100", 100), (7, 7), ("0", 1), ("-3", 1), ("99999", 1000), ("x", 80)]
)
def test_the_number_of_cells_is_limited(text: object, number: int) -> None:
    assert webserver.cells(text, 80) == number
    assert webserver.cells(None, 80) == 80


def test_the_page_makes_no_other_network_requests() -> None:
    page = webserver.PAGE.read_text()
    assert "<title>dynftrace</title>" in page
    assert not re.search(r"https?:|[\"'(]//", page)


async def test_the_server_uses_loopback_and_refuses_other_origins() -> None:
    with serving() as server:
        assert server.host == "127.0.0.1"
        async with aiohttp.ClientSession() as client:

            async def status(path: str, **headers: str) -> int:
                async with client.get(server.url + path, headers=headers) as answer:
                    return answer.status

            here = f"127.0.0.1:{server.port}"
            assert await status("") == 200
            assert await status("static/js/textual.js", Host=f"localhost:{server.port}") == 200
            assert await status("", Host=f"rebound.example.org:{server.port}") == 403
            assert await status("ws", Origin="https://example.org") == 403
            assert await status("ws", Origin="http://127.0.0.1:1") == 403
            assert await status("static/") == 403
            assert server.consoles() == []
            # Not from the page's script: it is ignored, and the console goes on.
            async with client.ws_connect(f"ws://{here}/ws", origin=f"http://{here}") as visitor:
                ignored = ("", "{", "[]", "[" * 10_000, '["resize", 1]', '["stdin", 1]')
                for text in (*ignored, '["ping", "7"]'):
                    await visitor.send_str(text)
                while (
                    said := await visitor.receive(timeout=20)
                ).type is not aiohttp.WSMsgType.TEXT:
                    assert said.type is aiohttp.WSMsgType.BINARY
                assert said.json() == ["pong", "7"]
                (console,) = server.consoles()
            assert gone(console)
        assert server.end() == (130, "", "")


async def test_a_visitor_can_neither_flood_the_log_nor_look_at_the_host() -> None:
    with serving("--visitors", "1") as server:
        for bad in (
            b"\x1b[31mX " + b"A" * 50_000 + b"\r\n\r\n",
            b"GET / HTTP/1.1\r\n\x00: \xff\r\n\r\n",
        ):
            with socket.create_connection((server.host, server.port)) as raw:
                raw.sendall(bad)
                assert b" 400 " in raw.recv(100)
        async with aiohttp.ClientSession() as client:
            async with client.ws_connect(server.url + "ws") as visitor:
                await visitor.send_str("[" * 100_000)
                await visitor.send_str(
                    '["resize", {"width": ' + "[" * 900 + "]" * 900 + ', "height": 9}]'
                )
                shown = b""
                while b"PAUSED" not in shown:
                    shown += await visitor.receive_bytes(timeout=20)
                for path in ("", "ws"):
                    async with client.get(server.url + path) as answer:
                        said = "All 1 consoles of this server are in use. Try again later.\n"
                        assert (answer.status, await answer.text()) == (503, said)
                await visitor.send_json(["stdin", ":"])
                await visitor.send_json(["stdin", "insmod /etc/passwd\r"])
                while b"choose" not in shown:
                    shown += await visitor.receive_bytes(timeout=20)
                assert b"ELF" not in shown
                (console,) = server.consoles()
            assert gone(console)
            async with client.get(server.url) as answer:
                assert answer.status == 200
        status, _, error = server.end()
    assert status == 130 and "Traceback" not in error
    lines = error.splitlines()
    assert lines and all(len(line) < 250 and line.isprintable() for line in lines), error


def test_listening_on_another_address_gives_a_warning() -> None:
    with serving("--host", "0.0.0.0") as server:
        status, _, error = server.end(signal.SIGTERM)
    assert status == 128 + signal.SIGTERM
    assert error == (
        f"dynftrace: warning: no authentication: anyone who can connect to port {server.port} of "
        "0.0.0.0 can do everything the console can\n"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("key", ["", "c"])
async def test_consoles_end_with_the_server(number: int, key: str) -> None:
    """Both a console that waits for a key and one whose machine runs."""
    with serving() as server:
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(server.url + "ws") as visitor,
        ):
            shown = b""
            while b"PAUSED" not in shown:  # the machine has booted
                shown += await visitor.receive_bytes(timeout=20)
            await visitor.send_json(["stdin", key])
            while key and b"RUNNING" not in shown:
                shown += await visitor.receive_bytes(timeout=20)
            (console,) = server.consoles()
            status, _, error = server.end(number)
        assert (status, error) == ((130 if number == signal.SIGINT else -number), "")
        assert gone(console)


@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
async def test_a_visitor_traces_a_function(tmp_path: Path) -> None:
    """A browser shows the console, sends keys, and makes requests only to the server."""
    with serving("--cpus", "3", "--theme", "dynftrace-light") as server:
        async with chromium(tmp_path / "profile") as page:
            await page.open(server.url)
            await page.until(r"x86_64 · 3 cpus.*PAUSED")
            assert await page.evaluate("document.activeElement.tagName") == "TEXTAREA"
            for command, result in (
                ("echo schedule > set_ftrace_filter", "same as: echo schedule >"),
                ("echo function > current_tracer", "tracer function"),
                ("run syscalls", r"same as: run syscalls"),
            ):
                await page.type(":")
                await page.until("enter run")
                await page.type(f"{command}\n")
                await page.until(result)
            shown = await page.until(r"syscalls-\d+ .*: schedule <-")
            assert "1 traced" in shown
            assert await page.evaluate("document.title") == "dynftrace"
            assert await page.evaluate("document.fonts.check('16px \"Roboto Mono\"')")
            assert page.requested and page.troubles == []
            here = {f"{scheme}://127.0.0.1:{server.port}/" for scheme in ("http", "ws")}
            assert {re.match(r"\w+://[^/]*/", each)[0] for each in page.requested} == here  # type: ignore[index]
            # A picture and the trace are downloads.
            await page.save_in(tmp_path)
            await page.press("F8", 119)
            picture = await downloaded(tmp_path / "dynftrace.svg")
            assert picture.startswith("<svg") and "x86_64" in picture
            await page.call("Page.bringToFront")  # the download opened as a page first
            await page.type("4E")
            assert "schedule" in await downloaded(tmp_path / "dynftrace.txt")
            (console,) = server.consoles()
            # q ends the console, and the page reports it.
            await page.type("q")
            assert gone(console)
            await page.until_true("document.body.classList.contains('-closed')")
        assert server.end() == (130, "", "")
