"""Measures one job in a process of its own: memory, files, threads, at start and to the end."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

Job = Callable[[int | None, float | None], Iterator[int]]
"""Does rounds of work, up to a number or for some seconds, and yields the number done so far."""

WARM = 0.3
"""Part of the job after which the process must not grow any more."""

GROWTH = 48 << 20
"""Bytes of memory that the process may grow by after that: machines that wait for the collector."""


@dataclass(frozen=True, slots=True)
class Level:
    """What a process holds at one moment."""

    memory: int
    """Resident memory in bytes."""
    files: int
    threads: int

    @classmethod
    def now(cls) -> Level:
        """Return the level of this process."""
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        tasks, files = (len(os.listdir(f"/proc/self/{name}")) for name in ("task", "fd"))
        return cls(pages * os.sysconf("SC_PAGE_SIZE"), files, tasks)


@dataclass(frozen=True, slots=True)
class Soaked:
    """One job: its rounds, its levels, and what it cost."""

    name: str
    rounds: int
    start: Level
    warm: Level
    """The highest level of the first third of the rounds."""
    end: Level
    """The level at the end; its memory is the lowest of the last rounds."""
    cpu: float

    @property
    def leaks(self) -> list[str]:
        """What has grown since the warm-up."""
        found = []
        if self.end.memory > self.warm.memory + GROWTH:
            found.append("memory")
        if self.end.files > self.warm.files:
            found.append("files")
        if self.end.threads > self.warm.threads:
            found.append("threads")
        return found


def soak(name: str, job: Job, number: int | None, seconds: float | None) -> Soaked:
    """Run `job` in this process and measure it.

    Garbage is collected only by the interpreter's own rules, as in normal use.
    """
    gc.collect()
    start, cpu = Level.now(), time.process_time()
    levels: list[Level] = []
    number_done = 0
    for number_done in job(number, seconds):  # noqa: B007
        levels.append(Level.now())
    warm_rows = levels[: max(1, round(WARM * len(levels)))]
    last = levels[-max(1, len(levels) // 10) :]
    return Soaked(
        name,
        number_done,
        start,
        Level(*(max(getattr(each, of) for each in warm_rows) for of in Level.__slots__)),
        Level(min(each.memory for each in last), last[-1].files, last[-1].threads),
        time.process_time() - cpu,
    )


def in_child(name: str, number: int | None, seconds: float | None) -> Soaked:
    """Run the job `name` in a new process and return what it measured.

    Raises `CalledProcessError` if the process fails.
    """
    command = [sys.executable, "-m", "tests.soak", "--child", name]
    command += [] if number is None else ["--n", str(number)]
    command += [] if seconds is None else ["--minutes", str(seconds / 60)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = json.loads(said.splitlines()[-1])
    levels = {key: Level(**found[key]) for key in ("start", "warm", "end")}
    return Soaked(**(found | levels))
