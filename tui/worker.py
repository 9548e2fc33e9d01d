"""The machine's own thread: it runs chunks, does jobs, and makes views.

Only this thread touches the session. The interface hands it jobs and takes the
newest `View`; neither ever waits for the other. Each chunk is a fixed stretch of
virtual time, so where a chunk ends does not depend on the host.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Event, Lock
from typing import Protocol, TypeVar

from ..core.errors import DynftraceError
from .view import Done, View

T = TypeVar("T")

CHUNK_NS = 1_000_000
"""Virtual ns between two looks at the queue of jobs."""

FRAME_S = 0.1
"""Host seconds between two views while the machine runs."""

AHEAD_S = 0.02
"""Host seconds the machine may run ahead: it works in bursts, and between them leaves the
interpreter to the interface."""

GIVE_WAY_S = 0.015
"""Host seconds the machine stands still behind a key, so that its paint comes first."""

BUSY_S = 0.2
"""Host seconds after which a job is worth a word in the status line."""


class Driver(Protocol):
    """What the thread drives: a session, and the view of it."""

    def run(self, ns: int) -> None:
        """Let the machine run this much virtual time."""
        ...

    def now(self) -> int:
        """Virtual ns."""
        ...

    def stop(self) -> None:
        """From any thread: end a run soon."""
        ...

    def view(self, *, hurry: bool = False) -> View:
        """The state now; in a `hurry` big tables may be those of a moment ago."""
        ...

    def look_at(self, ip: int) -> None:
        """Make views show the call site at `ip`."""
        ...

    def watch(self, step: int | None) -> None:
        """Make views tell where a CPU stands: the current one's number plus `step`, or none."""
        ...

    def execute(self, command: str) -> Done:
        """A command of the tracefs shell; what the kernel refuses is in the result."""
        ...

    def complete(self, text: str) -> Sequence[str]:
        """What `text`, a command line so far, can become: whole lines."""
        ...

    def preview(self, text: str) -> str:
        """What `text`, a command line so far, would do, on one line."""
        ...

    def workloads(self) -> Sequence[str]:
        """What `run` can run."""
        ...


class Runner:
    """Runs a driver; every method but `loop` may be called from the interface's thread.

    `wake` is called, on the machine's thread, when a new view should be shown
    at once; views made while the machine runs are left to the interface's timer.
    """

    def __init__(
        self,
        start: Callable[[], Driver],
        wake: Callable[[], None],
        halt: Callable[[], None] = lambda: None,
    ) -> None:
        """`halt`, called from any thread, ends `start` soon."""
        self._start = start
        self._wake = wake
        self._halt = halt
        self.ended = Event()
        """Set when the thread no longer touches the session."""
        self._jobs: SimpleQueue[Callable[[Driver], None] | None] = SimpleQueue()
        self._driver: Driver | None = None
        self._lock = Lock()
        self._view: View | None = None
        self._running = False
        self._open_jobs = 0
        self._since = 0.0
        self._closed = False
        self._quiet_until = 0.0
        self.failure: str | None = None
        """Why the session could not be opened, or why the machine stopped running."""

    @property
    def mode(self) -> str:
        """BOOTING, FAILED, BUSY, RUNNING or PAUSED."""
        if self._driver is None:
            return "FAILED" if self.failure else "BOOTING"
        if self._running:
            return "RUNNING"
        late = self._open_jobs and time.monotonic() - self._since > BUSY_S
        return "BUSY" if late else "PAUSED"

    @property
    def idle(self) -> bool:
        """Whether the session is open, nothing runs, and every job's view was made."""
        return self._driver is not None and not self._running and not self._open_jobs

    @property
    def opened(self) -> bool:
        """Whether the session could be opened."""
        return self._driver is not None

    @property
    def running(self) -> bool:
        """Whether the machine runs on its own."""
        return self._running

    def take(self) -> View | None:
        """The newest view, once; None when it was taken already."""
        with self._lock:
            view, self._view = self._view, None
            return view

    def submit(self, job: Callable[[Driver], T]) -> Future[T]:
        """Do `job` between two chunks, in the order of submission; then make a view."""
        future: Future[T] = Future()

        def work(driver: Driver) -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(job(driver))
            except BaseException as e:
                future.set_exception(e)

        self._put(work)
        return future

    def _put(self, job: Callable[[Driver], None] | None) -> None:
        """Queue a job, or None to make the thread look and publish."""
        with self._lock:
            if not self._open_jobs:
                self._since = time.monotonic()
            self._open_jobs += 1
        self._jobs.put(job)

    def run(self) -> None:
        """Let the machine run."""
        self._running = True
        self._put(None)

    def pause(self) -> None:
        """Stop the machine after the chunk it is in."""
        self._running = False
        self._put(None)

    def give_way(self) -> None:
        """A key was pressed: what it changes on the screen goes before all else."""
        self._quiet_until = time.monotonic() + GIVE_WAY_S

    def interrupt(self) -> None:
        """Stop the machine after the chunk it is in, and now what a job has made it run."""
        busy = self._open_jobs
        self.pause()
        if self._driver is None:
            self._halt()
        elif busy:
            # A chunk is short; cut in the middle, it could not be done again.
            self._driver.stop()

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self.interrupt()

    def loop(self) -> None:
        """The thread: open, then work until `close`."""
        try:
            self._loop()
        finally:
            self.ended.set()

    def _loop(self) -> None:
        try:
            driver = self._start()
        except DynftraceError as e:
            self.failure = str(e)
            self._wake()
            return
        self._publish(driver)
        self._driver = driver  # from here on it is open, and there is something to see
        self._wake()
        drawn = time.monotonic()
        started = time.monotonic()
        begin = driver.now()
        while not self._closed:
            jobs = self._work(driver, self._patience(driver, begin, started))
            if jobs is not None:
                self._publish(driver, hurry=self._running)
                with self._lock:
                    self._open_jobs -= jobs
                self._wake()
                started, begin = time.monotonic(), driver.now()
            if self._running and not self._closed:
                self._wait_quiet()
                self._chunk(driver)
                if time.monotonic() - drawn >= FRAME_S or not self._running:
                    self._publish(driver, hurry=self._running)
                    drawn = time.monotonic()

    def _wait_quiet(self) -> None:
        """While it runs, wait for what a key has set going."""
        while self._running and (rest := self._quiet_until - time.monotonic()) > 0:
            time.sleep(rest)

    def _patience(self, driver: Driver, begin: int, started: float) -> float | None:
        """How long to wait for a job: the machine runs no faster than the clock on the wall."""
        if not self._running:
            return None
        ahead = (driver.now() - begin) / 1e9 - (time.monotonic() - started)
        return min(ahead, FRAME_S) if ahead > AHEAD_S else 0.0

    def _work(self, driver: Driver, patience: float | None) -> int | None:
        """Do all jobs that wait; wait `patience` seconds (None: for ever) for the first.

        Returns how many were done, None when nothing came.
        """
        done: int | None = None
        while True:
            try:
                job = self._jobs.get(timeout=patience) if done is None else self._jobs.get_nowait()
            except Empty:
                return done
            if done is None:
                self._wait_quiet()
            done = (done or 0) + 1
            if job is not None:
                job(driver)

    def _chunk(self, driver: Driver) -> None:
        try:
            driver.run(CHUNK_NS)
        except DynftraceError as e:
            self._running = False
            self.failure = str(e)
            self._wake()

    def _publish(self, driver: Driver, *, hurry: bool = False) -> None:
        view = driver.view(hurry=hurry)
        with self._lock:
            self._view = view
