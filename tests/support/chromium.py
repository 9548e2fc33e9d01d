"""A headless Chromium with one page, controlled by the DevTools protocol."""

from __future__ import annotations

import asyncio
import itertools
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

PROGRAM = shutil.which("chromium")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--remote-debugging-port=0",
    "--window-size=1300,850",
)

# The page's terminal is private; intercept the assignment to `this.terminal` in its script.
CAPTURE = """
Object.defineProperty(Object.prototype, "terminal", {
  configurable: true,
  set(value) {
    Object.defineProperty(this, "terminal", {value, writable: true, configurable: true});
    window.seen = value;
  },
});
"""
SCREEN = """
(() => {
  if (!window.seen) return "";
  const buffer = window.seen.buffer.active, lines = [];
  for (let row = 0; row < window.seen.rows; row++)
    lines.push(buffer.getLine(buffer.viewportY + row)?.translateToString(true) ?? "");
  return lines.join("\\n");
})()
"""


class Page:
    """A page: its network requests, the text of its terminal, and key presses."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self.requested: list[str] = []
        self.troubles: list[str] = []

    async def call(self, method: str, **params: object) -> dict[str, Any]:
        """Call `method` and return its answer; record events that arrive meanwhile."""
        number = next(self._numbers)
        message: dict[str, object] = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        await self._socket.send_json(message)
        while True:
            answer = await self._socket.receive_json(timeout=30)
            if answer.get("id") == number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer.get("method", ""), answer.get("params", {}))

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requested.append(params["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.requested.append(params["url"])
        elif method == "Runtime.exceptionThrown":
            self.troubles.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.troubles.append(str(params["entry"]))

    async def open(self, url: str) -> None:
        """Open `url` in a new tab."""
        target = (await self.call("Target.createTarget", url="about:blank"))["targetId"]
        attached = await self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            await self.call(f"{domain}.enable")
        await self.call("Page.addScriptToEvaluateOnNewDocument", source=CAPTURE)
        await self.call("Page.navigate", url=url)

    async def close(self) -> None:
        """Close the whole browser."""
        self._session = None
        await self.call("Browser.close")

    async def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    async def screen(self) -> str:
        """Return the rows of the terminal."""
        return str(await self.evaluate(SCREEN))

    async def until(self, pattern: str, seconds: float = 30) -> str:
        """Wait until the terminal contains `pattern`, and return its rows."""
        shown = ""
        try:
            async with asyncio.timeout(seconds):
                while not re.search(pattern, shown):
                    await asyncio.sleep(0.1)
                    shown = await self.screen()
        except TimeoutError:
            raise AssertionError(f"no {pattern!r} in\n{shown}\n{self.troubles}") from None
        return shown

    async def until_true(self, expression: str, seconds: float = 30) -> None:
        """Wait until a JavaScript expression is true."""
        async with asyncio.timeout(seconds):
            while not await self.evaluate(expression):
                await asyncio.sleep(0.1)

    async def type(self, text: str) -> None:
        """Type keys into the terminal; a newline is enter."""
        await self.evaluate("window.seen.focus()")
        for key in text:
            code = 13 if key == "\n" else 0
            typed = "\r" if key == "\n" else key
            name = "Enter" if key == "\n" else key
            await self.call(
                "Input.dispatchKeyEvent",
                type="keyDown",
                text=typed,
                key=name,
                windowsVirtualKeyCode=code,
            )
            await self.call(
                "Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code
            )

    async def press(self, name: str, code: int) -> None:
        """Press a key that produces no text, by name and browser key code."""
        await self.evaluate("window.seen.focus()")
        for kind in ("rawKeyDown", "keyUp"):
            await self.call(
                "Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code
            )

    async def save_in(self, folder: Path) -> None:
        """Save downloads in `folder`."""
        session, self._session = self._session, None
        await self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        self._session = session


@asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Page]:
    """Run a browser with its profile in `folder`."""
    assert PROGRAM is not None
    process = await asyncio.create_subprocess_exec(
        PROGRAM,
        *FLAGS,
        f"--user-data-dir={folder}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        said = b""
        async with asyncio.timeout(60):
            while not (found := re.search(rb"DevTools listening on (ws://\S+)", said)):
                line = await process.stderr.readline()
                assert line, said.decode()
                said += line
        drain = asyncio.create_task(process.stderr.read())
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(found[1].decode(), max_msg_size=0) as socket,
        ):
            page = Page(socket)
            try:
                yield page
            finally:
                await page.close()
        await drain
    finally:
        if process.returncode is None:
            try:
                async with asyncio.timeout(10):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
