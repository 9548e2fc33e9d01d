"""The program in a real terminal: tmux, with keys typed one by one and the screen read back."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

PATIENCE_S = 60.0
QUIET_S = 0.15
"""Host seconds in which the screen must not change before the next key: a reader looks first."""

KEYS = {
    **{"enter": "Enter", "escape": "Escape", "space": "Space", "tab": "Tab"},
    **{f"f{number}": f"F{number}" for number in range(1, 13)},
    **{"slash": "/", "colon": ":", "question_mark": "?", "minus": "-", "plus": "+"},
    **{"down": "Down", "up": "Up"},
}
"""tmux's names of Textual's keys, where they differ."""

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Terminal:
    """dynftrace with `arguments` in a terminal of `columns` x `rows`; `home` keeps its files.

    With `hold`, the terminal stays after the program has ended.
    """

    def __init__(
        self, home: Path, arguments: str, columns: int, rows: int, *, hold: bool = False
    ) -> None:
        self._tmux = ["tmux", "-L", f"walk-{os.getpid()}-{home.name}", "-f", "/dev/null"]
        kept = {"PATH", "HOME", "LANG", "PYTHONDONTWRITEBYTECODE"}
        environment = {name: value for name, value in os.environ.items() if name in kept}
        environment |= {
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": str(Path(__file__).parents[2] / ".pkg"),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CONFIG_HOME": str(home / "config"),
        }
        command = shlex.join([sys.executable, "-m", "dynftrace", *shlex.split(arguments)])
        if hold:
            command += "; sleep 600"
        size = ["-x", str(columns), "-y", str(rows)]
        subprocess.run(
            [*self._tmux, "new-session", "-d", *size, "-c", str(home), command],
            check=True,
            env=environment,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False)

    def screen(self) -> str:
        """Return the text on the screen."""
        done = subprocess.run(
            [*self._tmux, "capture-pane", "-p"], check=True, capture_output=True, text=True
        )
        return done.stdout

    def settled(self) -> str:
        """Return the text on the screen once it no longer changes."""
        last, deadline = self.screen(), time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            time.sleep(QUIET_S)
            now = self.screen()
            if now == last and "OPENING" not in now and "BUSY" not in now:
                return now
            last = now
        raise AssertionError(f"the screen still changes:\n{last}")

    def press(self, *keys: str) -> None:
        """Press keys, by Textual's names; look at the screen after each but letters of a text."""
        typing = False
        for key in keys:
            name = KEYS.get(key, key)
            literal = [] if len(name) > 1 else ["-l"]
            subprocess.run([*self._tmux, "send-keys", *literal, name], check=True)
            typing = key in ("colon", "slash") or (typing and key != "enter")
            if not typing:
                self.settled()

    def see(self, pattern: str) -> str:
        """Wait until a line of the screen matches `pattern`, and return the screen."""
        deadline = time.monotonic() + PATIENCE_S
        while not re.search(pattern, now := self.screen(), re.MULTILINE):
            assert time.monotonic() < deadline, f"not on the screen: {pattern}\n{now}"
            time.sleep(QUIET_S)
        return now
