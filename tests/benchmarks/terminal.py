"""The console in a real terminal: a pseudo-terminal that waits for text to be painted."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from types import TracebackType
from typing import Self

_ESCAPE = re.compile(rb"\x1b(\[[0-9;?<>=]*[a-zA-Z]|[\]P][^\x07\x1b]*(\x07|\x1b\\)|[()].|[=>78])")
PATIENCE = 30.0


class Terminal:
    """A child on a terminal of `columns` x `rows`; `wait` reads what it paints."""

    def __init__(self, arguments: list[str], columns: int = 120, rows: int = 40) -> None:
        self._painted = b""
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
            environment.pop("NO_COLOR", None)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execve(sys.executable, [sys.executable, *arguments], environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._fd)

    def send(self, keys: str) -> None:
        """Type `keys`, and look only at what is painted from now on."""
        self._drain()
        self._painted = b""
        os.write(self._fd, keys.encode())

    def wait(self, text: str) -> float:
        """Seconds until `text` has been painted; raises `TimeoutError`."""
        start = time.perf_counter()
        wanted = text.encode()
        while wanted not in _ESCAPE.sub(b"", self._painted):
            left = PATIENCE - (time.perf_counter() - start)
            if left <= 0 or not select.select([self._fd], [], [], left)[0]:
                raise TimeoutError(f"{text!r} was not painted within {PATIENCE} s")
            self._painted += os.read(self._fd, 1 << 16)
        return time.perf_counter() - start

    def _drain(self) -> None:
        while select.select([self._fd], [], [], 0)[0]:
            os.read(self._fd, 1 << 16)
