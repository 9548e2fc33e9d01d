"""The console in tmux, with keys and paints through tmux's control mode."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from types import TracebackType

from .terminal import Painted

_OCTAL = re.compile(rb"\\([0-7]{3})")


class Tmux(Painted):
    """A child in a tmux window of `columns` x `rows`, on a separate server."""

    def __init__(self, arguments: list[str], columns: int = 120, rows: int = 40) -> None:
        super().__init__()
        self._socket = f"dynftrace-{os.getpid()}"
        environment = {**os.environ, "COLORTERM": "truecolor"}
        environment.pop("NO_COLOR", None)
        environment.pop("TMUX", None)
        command = ["tmux", "-L", self._socket, "-f", "/dev/null", "-C", "new-session"]
        size = ["-x", str(columns), "-y", str(rows)]
        self._client = subprocess.Popen(
            [*command, *size, shlex.join([sys.executable, *arguments])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert self._client.stdin is not None and self._client.stdout is not None
        self._stdin, self._fd = self._client.stdin, self._client.stdout.fileno()
        self._rest = b""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        subprocess.run(["tmux", "-L", self._socket, "kill-server"], check=False)
        self._client.communicate()

    def fileno(self) -> int:
        """Return the file that becomes readable after a paint."""
        return self._fd

    def read(self) -> bytes:
        """Return painted text from tmux's `%output` lines."""
        *lines, self._rest = (self._rest + os.read(self._fd, 1 << 16)).split(b"\n")
        painted = [line.split(b" ", 2)[2] for line in lines if line.startswith(b"%output ")]
        return _OCTAL.sub(lambda octal: bytes([int(octal[1], 8)]), b"".join(painted))

    def type(self, keys: str) -> None:
        """Send keys literally."""
        self._stdin.write(f"send-keys -l {shlex.quote(keys)}\n".encode())
        self._stdin.flush()
