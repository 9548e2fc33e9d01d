"""Runs cases in child processes, so that one that kills its process is found and reported."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from typing import IO

from dynftrace.core.errors import DynftraceError

from .kind import Kind, limit_runs

LIMIT_S = 30.0
"""Host seconds that a case may take; a damaged guest is stopped long before that."""

CPU_S = 8.0
"""CPU seconds that a case may take."""

GROWTH = 512 << 20
"""Bytes by which a case may raise the highest memory use of its process."""

ADDRESSES = 8 << 30
"""Limit of a child's address space: memory beyond it is refused and not taken from others."""


@dataclass
class Failure:
    """A case that failed, with the files to look at."""

    kind: str
    seed: int
    reason: str
    """Its last line says what happened."""
    path: Path | None = None
    about: str = ""
    alone: bool = True
    """Whether it fails in a process of its own, too."""

    def __str__(self) -> str:
        after = "" if self.alone else "  (only after the cases before it)\n"
        return (
            f"FAILED {self.kind} --seed {self.seed}: {self.about}\n{after}"
            f"  input: {self.path}\n" + "".join(f"  | {x}\n" for x in self.reason.splitlines())
        )


@dataclass
class Result:
    """The cases of one kind."""

    kind: str
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    cpu: float = 0.0
    peak: int = 0
    """Highest memory use of a child, in bytes."""

    @property
    def cases(self) -> int:
        """Number of cases so far."""
        return self.outcomes.total() + len(self.failures)


def fuzz(
    kind: Kind, seeds: Iterable[int], keep: Path, until: float | None = None, batch: int = 200
) -> Result:
    """Run a case for each of `seeds`, in order, and return what became of them.

    A child runs up to `batch` cases. Inputs that fail are written to the folder `keep`. No new
    case begins after `until`, a time of `time.monotonic`.
    """
    result, left, fresh = Result(kind.name), iter(seeds), True
    pending: list[int] = []
    while pending or fresh:
        if not pending:
            pending = list(islice(left, batch))
            fresh = len(pending) == batch
        if not pending or (until is not None and time.monotonic() > until):
            break
        done = _child(kind, pending, result, until)
        if done is None:
            pending = []
            continue
        seed, reason = done
        alone = Result(kind.name)
        again = _child(kind, [seed], alone, None)
        failed = alone.failures[0].reason if alone.failures else again and again[1]
        result.failures.append(Failure(kind.name, seed, failed or reason, alone=bool(failed)))
        pending = pending[pending.index(seed) + 1 :]
    for failure in result.failures:
        _save(kind, failure, keep)
    return result


def _save(kind: Kind, failure: Failure, keep: Path) -> None:
    """Write the input of a failure."""
    try:
        case = kind.case(_random(kind, failure.seed))
    except Exception:
        failure.about = "the case itself cannot be made"
        return
    keep.mkdir(parents=True, exist_ok=True)
    failure.path = keep / f"{kind.name}-{failure.seed}{kind.suffix}"
    failure.path.write_bytes(case.content)
    failure.about = case.about


def _random(kind: Kind, seed: int) -> Random:
    return Random(f"{kind.name} {seed}")


def _child(
    kind: Kind, seeds: list[int], result: Result, until: float | None
) -> tuple[int, str] | None:
    """Run `seeds` in a child. If it dies, return the seed it died of, and why."""
    read, write = os.pipe()
    with (
        tempfile.TemporaryDirectory(prefix="dynftrace-fuzz-") as folder,
        tempfile.TemporaryFile("w+", errors="backslashreplace") as log,
    ):
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            status = 1
            try:
                os.close(read)
                os.chdir(folder)
                _cases(kind, seeds, os.fdopen(write, "w"), log, until)
                status = 0
            finally:
                os._exit(status)
        os.close(write)
        current: int | None = None
        try:
            with os.fdopen(read) as lines:
                for line in lines:
                    said = json.loads(line)
                    current = said.get("begin")
                    if current is None:
                        _note(result, said)
        except BaseException:  # interrupted: the child writes to the folder no more
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        _, status, used = os.wait4(pid, 0)
        result.cpu += used.ru_utime + used.ru_stime
        result.peak = max(result.peak, used.ru_maxrss << 10)
        if not status:
            return None
        log.seek(0)
        said = log.read()[-16_000:]
    number = os.waitstatus_to_exitcode(status)
    why = f"killed by {signal.Signals(-number).name}" if number < 0 else f"exit status {number}"
    if current is None:
        raise RuntimeError(f"the process of {kind.name} ended outside of a case: {why}\n{said}")
    return current, f"{said}\n{why}"


def _note(result: Result, said: dict[str, object]) -> None:
    """Add what a child says about a case that has ended."""
    if "failure" in said:
        result.failures.append(Failure(result.kind, int(str(said["end"])), str(said["failure"])))
    else:
        result.outcomes[str(said["outcome"])] += 1


def _cases(kind: Kind, seeds: list[int], out: IO[str], log: IO[str], until: float | None) -> None:
    """Run `seeds` in this process, a child, and write a line before and after each."""
    for number in (0, 1, 2):
        os.dup2(log.fileno(), number)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable(log)
    limit_runs()

    def tell(**said: object) -> None:
        out.write(json.dumps(said) + "\n")
        out.flush()

    for seed in seeds:
        if until is not None and time.monotonic() > until:
            break
        tell(begin=seed)
        faulthandler.dump_traceback_later(LIMIT_S, exit=True, file=log)
        start, high = time.process_time(), _peak()
        try:
            tell(end=seed, **_taken(kind, seed, start, high))
        finally:
            faulthandler.cancel_dump_traceback_later()


def _taken(kind: Kind, seed: int, start: float, high: int) -> dict[str, str]:
    """Run one case and return its outcome or failure."""
    case = kind.case(_random(kind, seed))
    start = time.process_time()
    try:
        outcome = kind.take(case)
    except DynftraceError as error:
        outcome = f"refused: {type(error).__name__}"
        if not str(error) or "\n" in str(error):
            return {"failure": f"{outcome}: not one sentence: {str(error)!r}"}
    except BaseException:
        return {"failure": traceback.format_exc(limit=-8)}
    took, grown = time.process_time() - start, _peak() - high
    if took > CPU_S:
        return {"failure": f"{outcome}, but it took {took:.1f} CPU seconds"}
    if grown > GROWTH:
        return {"failure": f"{outcome}, but it took {grown >> 20} MB of memory"}
    return {"outcome": outcome}


def _peak() -> int:
    """Return the highest memory use of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
