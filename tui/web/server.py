"""The web server of `dynftrace serve`: a page with a terminal, and a console for each visitor.

A visitor's browser opens a websocket. Its console is a separate process, and textual-serve
transfers the data. Two things differ from textual-serve. The page is `page.html`, since that
of textual-serve requests a font from a third-party server. And no console outlives its
visitor or the server.

Browsers let any page of any site open a websocket to this computer. So the server accepts
only websockets from its own page. If it listens only on this computer, it also checks the
requested host name, because a foreign DNS name can resolve to this address.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path

from aiohttp import WSCloseCode, WSMsgType, web
from aiohttp.typedefs import Handler
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

from ...core.session.session import BUNDLED_ONLY

DRIVER = "dynftrace.tui.web.driver:VisitorDriver"
GRACE = 3.0
"""Seconds in which a console must exit before it is killed."""

LINE = 200
"""Limit of a line in the log, in characters."""

MAX_CELLS = 1000
"""Limit of the columns and rows that a visitor can request."""

POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "font-src 'self'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'"
)
"""Content security policy: the page loads nothing from other servers."""

PAGE = Path(__file__).with_name("page.html")


class Visit(AppService):
    """A visitor's console process, connected to the websocket."""

    def __init__(
        self,
        command: Sequence[str],
        websocket: web.WebSocketResponse,
        downloads: DownloadManager,
        variables: Mapping[str, str],
    ) -> None:
        """`command` is the argv of the console, `variables` are added to its environment.

        `downloads` offers its files to the visitor.
        """
        super().__init__(
            command[0],
            write_bytes=websocket.send_bytes,
            write_str=websocket.send_str,
            close=self._leave,
            download_manager=downloads,
        )
        self._argv = command
        self._variables = variables
        self._websocket = websocket

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        # No shell, and a new session: ctrl+c in the terminal is for the server only.
        self._process = process = await asyncio.create_subprocess_exec(
            *self._argv,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={**self._build_environment(width, height), **self._variables},
            start_new_session=True,
        )
        self._stdin = process.stdin
        return process

    async def run(self) -> None:
        """Forward the console's output until it exits, then close the websocket."""
        try:
            await super().run()
        finally:
            await self._leave()

    async def _leave(self, code: int = WSCloseCode.OK) -> None:
        await self._websocket.close(code=code)

    async def stop(self) -> None:
        """Stop the console, and kill it if it does not exit."""
        process = self._process
        if process is None:
            return
        try:
            async with asyncio.timeout(GRACE):
                await super().stop()
                await process.wait()
        except TimeoutError:
            pass
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


class Site:
    """The pages and the current visits."""

    def __init__(
        self, command: Sequence[str], *, local: bool, visitors: int, any_module: bool
    ) -> None:
        """`command` is the argv of a console; `local` if the server is on the loopback only.

        At most `visitors` are served at a time. They load modules by path if `any_module`.
        """
        self._command = command
        self._local = local
        self._most = visitors
        self._variables = {"TEXTUAL_DRIVER": DRIVER}
        if not any_module:
            self._variables[BUNDLED_ONLY] = "1"
        self._visits: set[Visit] = set()
        self._downloads = DownloadManager()

    def application(self, static: Path) -> web.Application:
        """Return the web application; `static` is textual-serve's folder of scripts."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            self._check(request)
            return await handler(request)

        application = web.Application(middlewares=[guard])
        application.add_routes(
            [
                web.get("/", self._page),
                web.get("/ws", self._visit),
                web.get("/download/{key}", self._download),
                web.static("/static", static),
            ]
        )
        application.on_shutdown.append(self._end_visits)
        return application

    def _check(self, request: web.Request) -> None:
        if self._local and not is_local(request.url.host or ""):
            raise web.HTTPForbidden(text="Only the computer that runs this server may use it.\n")
        origin = request.headers.get("Origin")
        if origin is not None and origin.partition("://")[2] != request.host:
            raise web.HTTPForbidden(text="Only pages of this server may use it.\n")

    def _check_room(self) -> None:
        if len(self._visits) >= self._most:
            raise web.HTTPServiceUnavailable(
                text=f"All {self._most} consoles of this server are in use. Try again later.\n",
                headers={"Retry-After": "60"},
            )

    async def _page(self, request: web.Request) -> web.StreamResponse:
        self._check_room()
        return web.Response(
            text=PAGE.read_text(encoding="utf-8"),
            content_type="text/html",
            headers={"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"},
        )

    async def _visit(self, request: web.Request) -> web.StreamResponse:
        self._check_room()
        websocket = web.WebSocketResponse(heartbeat=15)
        visit = Visit(self._command, websocket, self._downloads, self._variables)
        self._visits.add(visit)
        try:
            await websocket.prepare(request)
            size = (request.query.get("width"), request.query.get("height"))
            await visit.start(cells(size[0], 80), cells(size[1], 24))
            async for message in websocket:
                if message.type is WSMsgType.TEXT:
                    try:
                        said = message.json()
                    except (ValueError, RecursionError):
                        continue
                    await _forward(visit, said, websocket)
        finally:
            await visit.stop()
            self._visits.discard(visit)
        return websocket

    async def _download(self, request: web.Request) -> web.StreamResponse:
        """Send a file that a console offers, once; only the visitor knows its key."""
        key = request.match_info["key"]
        try:
            offer = await self._downloads.get_download_metadata(key)
        except KeyError:
            raise web.HTTPNotFound from None
        response = web.StreamResponse(
            headers={
                "Content-Type": f"{offer.mime_type}; charset={offer.encoding or 'utf-8'}",
                "Content-Disposition": f'attachment; filename="{Path(offer.file_name).name}"',
                "X-Content-Type-Options": "nosniff",
            }
        )
        await response.prepare(request)
        async for chunk in self._downloads.download(key):
            await response.write(chunk)
        await response.write_eof()
        return response

    async def _end_visits(self, application: web.Application) -> None:
        await asyncio.gather(*(visit.stop() for visit in self._visits))


async def _forward(visit: Visit, said: object, websocket: web.WebSocketResponse) -> None:
    """Forward a message of the page's script; ignore anything else."""
    match said:
        case ["stdin", str(text)]:
            await visit.send_bytes(text.encode(errors="replace"))
        case ["resize", {"width": width, "height": height}]:
            await visit.set_terminal_size(cells(width, 80), cells(height, 24))
        case ["ping", str(stamp)]:
            await websocket.send_json(["pong", stamp])
        case ["focus"]:
            await visit.focus()
        case ["blur"]:
            await visit.blur()


def cells(text: object, default: int) -> int:
    """Return the requested columns or rows, limited; `default` if `text` is not a number."""
    try:
        return min(max(int(str(text)), 1), MAX_CELLS)
    except (ValueError, RecursionError):
        return default


def is_local(host: str) -> bool:
    """Whether the requested `host` is a loopback name or address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class OneLine(logging.Formatter):
    """Formats a record as one short, escaped line: a request may contain anything."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message and its exception, without a traceback."""
        error = record.exc_info[1] if record.exc_info else None
        reason = "" if error is None else f": {error or type(error).__name__}"
        line = ascii(f"{record.getMessage()}{reason}")[1:-1]
        return f"dynftrace: {line[:LINE]}{'...' if len(line) > LINE else ''}"


def serve(
    command: Sequence[str],
    listener: socket.socket,
    *,
    local: bool,
    ready: Callable[[], None],
    visitors: int,
    any_module: bool,
) -> int:
    """Serve consoles run by `command` on `listener` until a signal; return its exit status.

    `local`, `visitors` and `any_module` are those of `Site`; `ready` is called when the server
    is up.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)

    async def until_signal(static: Path) -> int:
        loop = asyncio.get_running_loop()
        came: asyncio.Future[int] = loop.create_future()

        def note(number: int) -> None:
            if not came.done():
                came.set_result(number)

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, note, number)
        site = Site(command, local=local, visitors=visitors, any_module=any_module)
        runner = web.AppRunner(site.application(static), access_log=None, shutdown_timeout=GRACE)
        await runner.setup()
        try:
            await web.SockSite(runner, listener).start()
            ready()
            return 128 + await came
        finally:
            await runner.cleanup()

    with as_file(files("textual_serve") / "static") as static:
        return asyncio.run(until_signal(static))
