"""The machine's thread: it runs the machine in chunks, does jobs, and makes views.

Only this thread touches the session. The interface submits jobs and takes the newest
`View`; neither waits for the other. Each chunk is a fixed stretch of virtual time, so
where a chunk ends does not depend on the host.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Event, Lock
from typing import TYPE_CHECKING, Protocol, TypeVar

from ...core.errors import DynftraceError
from ..present.view import Done, View

if TYPE_CHECKING:
    from ...core.ftrace.patch import Performed
    from ...core.views.drawing import Drawing
    from ...core.views.lanes import Lanes
    from ...core.views.time_pictures import FlameGraph

T = TypeVar("T")

CHUNK_NS = 1_000_000
"""Virtual ns of a chunk; jobs are done between chunks."""

FRAME_S = 0.1
"""Host seconds between two views while the machine runs."""

KEYS_S = 0.5
"""Host seconds that the trace may be old in a view made for a key while the machine runs. Keys that
follow each other faster than `FRAME_S` show other call sites; the whole screen would take longer
to draw than the time to the next key."""

TURN_S = 0.001
"""Host seconds for which this thread keeps the interpreter, when the interface waits for it, while
it makes a view."""

LONG_TURN_S = sys.getswitchinterval()
"""The same while it does anything else: Python's own 5 ms. Chunks mostly run in the emulator,
without the interpreter, and shorter turns would only interrupt the interface."""

AHEAD_S = 0.02
"""Host seconds that the machine may run ahead of the wall clock. It runs in bursts, and
between them the interpreter is free for the interface."""

GIVE_WAY_S = 0.05
"""Maximum host seconds of the machine's pause after a key, so that the key is drawn first."""

GLANCE_S = 0.001
"""Interval at which the paused machine checks whether the key is drawn, in host seconds."""

BUSY_S = 0.2
"""Host seconds after which the status line mentions a job."""


class Clock(Protocol):
    """The host's clock; a test can provide one that never waits."""

    def now(self) -> float:
        """Return seconds since some moment in the past."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class HostClock:
    """The clock of the computer."""

    def now(self) -> float:
        """Return seconds that never jump."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class Driver(Protocol):
    """A session and its views, as the machine's thread uses them."""

    @property
    def progress(self) -> str:
        """Progress of a long command, or ""; may be read from any thread."""
        ...

    def run(self, ns: int) -> None:
        """Run the machine for `ns` of virtual time."""
        ...

    def now(self) -> int:
        """Return the virtual time in ns."""
        ...

    def stop(self) -> None:
        """End a run soon; may be called from any thread."""
        ...

    def view(self, *, old_s: float = 0.0) -> View:
        """Make a view; its big tables may be `old_s` host seconds old."""
        ...

    def look_at(self, ip: int) -> None:
        """Make views show the call site at `ip`."""
        ...

    def watch(self, step: int | None) -> None:
        """Make views show the CPU stepped last, or the one `step` after it; None shows no CPU."""
        ...

    def execute(self, command: str, typed: bool = False) -> Done:
        """Execute a command of the tracefs shell; errors of the kernel are in the result."""
        ...

    def complete(self, text: str) -> Sequence[str]:
        """Return the possible completions of `text`, an unfinished command line, as whole lines."""
        ...

    def preview(self, text: str) -> str:
        """Return one line about the effect of `text`, an unfinished command line."""
        ...

    def picture(self, name: str, function: str = "") -> Drawing | FlameGraph | Lanes:
        """Return a picture by its name. Raises `DynftraceError`."""
        ...

    def trace_dat(self) -> bytes:
        """Return the events in the buffers as trace-cmd's file."""
        ...

    def patches(self) -> Sequence[Performed]:
        """Return the phases of changes of text that were performed last."""
        ...

    def workloads(self) -> Sequence[str]:
        """Return the names that `run` accepts."""
        ...

    def lines(self) -> int:
        """Return the number of lines that `back` can undo."""
        ...


class Runner:
    """Runs a driver. Every method but `loop` may be called from the interface's thread.

    `wake` is called, in the machine's thread, when a new view should be shown at once.
    Views made while the machine runs wait for the interface's timer.
    """

    def __init__(
        self,
        start: Callable[[], Driver],
        wake: Callable[[], None],
        halt: Callable[[], None] = lambda: None,
        clock: Clock | None = None,
    ) -> None:
        """`halt`, called from any thread, ends `start` soon. `clock` is by default the host's."""
        self._clock = clock or HostClock()
        self._start = start
        self._wake = wake
        self._halt = halt
        self.ended = Event()
        """Set when the thread has stopped using the session."""
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
        """One of OPENING, FAILED, BUSY, RUNNING and PAUSED."""
        if self._driver is None:
            return "FAILED" if self.failure else "OPENING"
        if self._running:
            return "RUNNING"
        late = self._open_jobs and self._clock.now() - self._since > BUSY_S
        return "BUSY" if late else "PAUSED"

    @property
    def progress(self) -> str:
        """Progress of a long command, or ""."""
        return "" if self._driver is None else self._driver.progress

    @property
    def idle(self) -> bool:
        """Whether the session is open, nothing runs, and every job's view was made."""
        return self._driver is not None and not self._running and not self._open_jobs

    @property
    def fresh(self) -> bool:
        """Whether a view waits to be taken."""
        return self._view is not None

    @property
    def opened(self) -> bool:
        """Whether the session could be opened."""
        return self._driver is not None

    @property
    def running(self) -> bool:
        """Whether the machine runs on its own."""
        return self._running

    def take(self) -> View | None:
        """Return the newest view; None if it was taken already."""
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
        """Queue a job, or None to make the thread check its state and publish a view."""
        with self._lock:
            if not self._open_jobs:
                self._since = self._clock.now()
            self._open_jobs += 1
        self._jobs.put(job)

    def run(self) -> None:
        """Let the machine run."""
        self._running = True
        self._put(None)

    def toggle(self) -> None:
        """Run, or pause."""
        if self._running:
            self.pause()
        else:
            self.run()

    def pause(self) -> None:
        """Stop the machine after the current chunk."""
        self._running = False
        self._put(None)

    def give_way(self) -> None:
        """Pause the machine until `drawn`, or for a moment: a pressed key is drawn first."""
        self._quiet_until = self._clock.now() + GIVE_WAY_S

    def drawn(self) -> None:
        """End the pause: the screen shows the effect of the key."""
        self._quiet_until = 0.0

    def interrupt(self) -> None:
        """Stop the machine after the current chunk; stop a running job at once."""
        busy = self._open_jobs
        self.pause()
        if self._driver is None:
            self._halt()
        elif busy:
            # Not within a chunk: a chunk is short, and an interrupted one cannot be replayed.
            self._driver.stop()

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self.interrupt()

    def loop(self) -> None:
        """Be the thread: open the session, then work until `close`."""
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
        self._driver = driver  # only now, when the open session has a view
        self._wake()
        drawn = self._clock.now()
        started = self._clock.now()
        begin = driver.now()
        while not self._closed:
            jobs = self._work(driver, self._patience(driver, begin, started))
            if jobs is not None:
                self._publish(driver, KEYS_S if self._running else 0.0)
                with self._lock:
                    self._open_jobs -= jobs
                self._wake()
                started, begin = self._clock.now(), driver.now()
                drawn = started  # the next frame must not coincide with the next key
            if self._running and not self._closed:
                self._wait_quiet()
                self._chunk(driver)
                if self._clock.now() - drawn >= FRAME_S or not self._running:
                    self._publish(driver, FRAME_S if self._running else 0.0)
                    drawn = self._clock.now()

    def _wait_quiet(self) -> None:
        """While the machine runs, wait until the pause after a key is over."""
        while self._running and (rest := self._quiet_until - self._clock.now()) > 0:
            self._clock.sleep(min(rest, GLANCE_S))

    def _patience(self, driver: Driver, begin: int, started: float) -> float | None:
        """Return the host seconds to wait for a job: the machine runs at most in real time."""
        if not self._running:
            return None
        ahead = (driver.now() - begin) / 1e9 - (self._clock.now() - started)
        return min(ahead, FRAME_S) if ahead > AHEAD_S else 0.0

    def _work(self, driver: Driver, patience: float | None) -> int | None:
        """Do all queued jobs; wait `patience` seconds (None: forever) for the first.

        Return the number of jobs done; None if none came.
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

    def _publish(self, driver: Driver, old_s: float = 0.0) -> None:
        sys.setswitchinterval(TURN_S)
        try:
            view = driver.view(old_s=old_s)
        finally:
            sys.setswitchinterval(LONG_TURN_S)
        with self._lock:
            self._view = view
