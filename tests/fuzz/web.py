"""Damaged messages of a visitor's page to the server."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from random import Random

import aiohttp
from aiohttp.test_utils import TestServer

from dynftrace.tui.web.server import Site

from . import damage
from .kind import Case, Wrong, folder

CONSOLE = """
import sys
print("__GANGLION__", flush=True)
while (said := sys.stdin.buffer.read1(4096)) and b'"type": "quit"' not in said:
    pass
"""
"""A console that reads all input until it is asked to quit; only the server is under test."""

MESSAGES: list[object] = [
    ["stdin", ":run syscalls\r"],
    ["resize", {"width": 100, "height": 30}],
    ["ping", "7"],
    ["focus"],
    ["blur"],
]


class _Errors(logging.Handler):
    """Keeps what the server logs as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


class Frames:
    """Damaged websocket messages; the server must go on answering the same visitor."""

    name, suffix = "frames", ".json"

    def case(self, random: Random) -> Case:
        frames = [
            damage.json_text(random, random.choice(MESSAGES)).decode(errors="surrogateescape")
            for _ in range(20)
        ]
        return Case(json.dumps(frames).encode())

    def take(self, case: Case) -> str:
        return asyncio.run(self._visited(json.loads(case.content)))

    async def _visited(self, frames: list[str]) -> str:
        errors = _Errors()
        logging.getLogger().addHandler(errors)
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: errors.texts.append(str(context))
        )
        command = [sys.executable, "-S", "-c", CONSOLE]
        site = Site(command, local=True, visitors=4, any_module=False)
        try:
            async with (
                TestServer(site.application(folder())) as server,
                aiohttp.ClientSession() as client,
                client.ws_connect(server.make_url("/ws")) as visitor,
            ):
                for frame in frames:
                    await visitor.send_bytes(frame.encode(errors="surrogateescape")[:9])
                    await visitor.send_str(frame.encode(errors="replace").decode())
                await visitor.send_json(["ping", "the last"])
                while (said := await visitor.receive(timeout=15)).type is aiohttp.WSMsgType.TEXT:
                    if said.json() == ["pong", "the last"]:
                        break
                else:
                    raise Wrong(f"the visit ended: {said} {errors.texts}")
        finally:
            logging.getLogger().removeHandler(errors)
        if errors.texts:
            raise Wrong("\n".join(errors.texts))
        return "answered"
