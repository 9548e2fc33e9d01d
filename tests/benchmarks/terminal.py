"""The console on a pseudo-terminal that can wait for painted text."""

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
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

_ESCAPE = re.compile(rb"\x1b(\[[0-9;?<>=]*[a-zA-Z]|[\]P][^\x07\x1b]*(\x07|\x1b\\)|[()].|[=>78])")
PATIENCE = 30.0


class Painted(ABC):
    """A child that paints; `wait` reads until it has painted a given text."""

    def __init__(self) -> None:
        self._painted = b""

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the child."""

    @abstractmethod
    def fileno(self) -> int:
        """Return the file that becomes readable after a paint."""

    @abstractmethod
    def read(self) -> bytes:
        """What was painted."""

    @abstractmethod
    def type(self, keys: str) -> None:
        """Send keys."""

    def send(self, keys: str) -> None:
        """Type `keys`, and ignore everything painted before."""
        while select.select([self], [], [], 0)[0]:
            self.read()
        self._painted = b""
        self.type(keys)

    def wait(self, text: str) -> float:
        """Return the seconds until `text` is painted; raise `TimeoutError` if it is not."""
        start = time.perf_counter()
        wanted = text.encode()
        while wanted not in _ESCAPE.sub(b"", self._painted):
            left = PATIENCE - (time.perf_counter() - start)
            if left <= 0 or not select.select([self], [], [], left)[0]:
                raise TimeoutError(f"{text!r} was not painted within {PATIENCE} s")
            self._painted += self.read()
        return time.perf_counter() - start


class Terminal(Painted):
    """A child on a pseudo-terminal of `columns` x `rows`."""

    def __init__(self, arguments: list[str], columns: int = 120, rows: int = 40) -> None:
        super().__init__()
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
            environment.pop("NO_COLOR", None)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execve(sys.executable, [sys.executable, *arguments], environment)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._fd)

    def fileno(self) -> int:
        """Return the other end of the terminal."""
        return self._fd

    def read(self) -> bytes:
        """What was painted."""
        return os.read(self._fd, 1 << 16)

    def type(self, keys: str) -> None:
        """Send keys."""
        os.write(self._fd, keys.encode())
